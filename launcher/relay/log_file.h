// LogFile: the file that one stream of one rank is kept in. What cannot be written is counted, tried again
// later, and noted in the file once it can be written. Used by the thread that writes files only.
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
  // `complain` gets one line the first time that writing fails.
  LogFile(std::string path, std::function<void(const std::string&)> complain);

  void write(std::string_view bytes, base::MonoNs now);
  // Bytes that were not even tried, because the file system did not answer.
  void skip(uint64_t bytes) { lost_ += bytes; }
  uint64_t lost() const { return lost_; }

 private:
  // Bytes written before an error, whose number is left in error_.
  size_t try_write(std::string_view bytes);
  bool open();
  bool note_loss();

  std::string path_;
  std::function<void(const std::string&)> complain_;
  base::UniqueFd file_;
  uint64_t lost_ = 0;  // since the last byte that was written
  int error_ = 0;
  base::MonoNs retry_at_ = 0;
  bool complained_ = false;
};

}  // namespace xpurun::launcher
