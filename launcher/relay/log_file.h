// LogFile: the file of one stream of one rank. Bytes that cannot be written are counted, and their number is
// noted in the file when writing works again. Used by the file thread only.
#pragma once

#include "common/base/clock.h"
#include "common/base/os/fd.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace xpurun::launcher {

class LogFile {
 public:
  // `complain` gets one line at the first failure.
  LogFile(std::string path, std::function<void(const std::string&)> complain);

  void write(std::string_view bytes, base::MonoNs now);
  // Counts bytes that were dropped without a try, because the file system did not answer.
  void skip(uint64_t bytes) { lost_ += bytes; }
  uint64_t lost() const { return lost_; }

 private:
  // Returns the number of bytes written; on an error, error_ has the errno.
  size_t try_write(std::string_view bytes);
  bool open();
  bool note_loss();

  std::string path_;
  std::function<void(const std::string&)> complain_;
  base::UniqueFd file_;
  uint64_t lost_ = 0;  // bytes since the last successful write
  int error_ = 0;
  base::MonoNs retry_at_ = 0;
  bool complained_ = false;
};

}  // namespace xpurun::launcher
