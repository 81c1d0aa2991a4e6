// OutputFile: a file that is written piece by piece and appears under its name when it is complete.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/packing.h"
#include "common/base/result.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace xpurun::report {

enum class Compression { none, gzip };

// Mode 0600, through a temporary file in the same directory. Without finish(), nothing is left behind. "-" is
// standard output. Not thread-safe. The first failure is kept; later calls do nothing.
class OutputFile {
 public:
  static base::Result<OutputFile> create(const std::string& path, Compression compression);
  // Writes to a descriptor that is open already.
  static base::Result<OutputFile> to(base::UniqueFd fd, Compression compression);
  OutputFile(OutputFile&&) noexcept;
  OutputFile& operator=(OutputFile&&) noexcept;
  ~OutputFile();

  void write(std::string_view bytes);
  base::Status finish();
  // Bytes given to write().
  uint64_t written() const { return written_; }

 private:
  OutputFile();
  void put(std::string_view bytes);
  void flush();

  std::string path_;
  std::string temporary_;  // removed unless finish() renames the file
  base::UniqueFd fd_;
  std::unique_ptr<base::GzipStream> gzip_;
  std::string buffer_;
  uint64_t written_ = 0;
  base::Status status_;
};

}  // namespace xpurun::report
