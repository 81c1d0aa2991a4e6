// RunLog: the log of xpurun in the run directory, with a limited size. The beginning stays, and so do the
// latest lines: xpurun.log, then xpurun.log.1 and xpurun.log.2 in turn. Event loop's thread only.
#pragma once

#include "launcher/storage/storage.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace xpurun::launcher {

class RunLog {
 public:
  // The three files together have at most three times this size, in bytes.
  static constexpr size_t kMostBytes = size_t{8} << 20;

  RunLog(Storage& storage, std::string path, size_t most_bytes = kMostBytes)
      : storage_(storage), path_(std::move(path)), most_bytes_(most_bytes) {}

  // A whole line, with its newline.
  void write(std::string_view line) {
    if (written_ > 0 && written_ + line.size() > most_bytes_) {
      storage_.append_or_create(file(), "the log goes on in " + base_name(path_) + suffix(part_ + 1) + "\n");
      ++part_;
      written_ = 0;
      if (part_ > 2) {
        storage_.remove(file());
      }
    }
    written_ += line.size();
    storage_.append_or_create(file(), std::string(line));
  }

 private:
  static std::string suffix(size_t part) { return part == 0 ? "" : part % 2 == 1 ? ".1" : ".2"; }
  static std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }
  std::string file() const { return path_ + suffix(part_); }

  Storage& storage_;
  std::string path_;
  size_t most_bytes_;
  size_t part_ = 0;
  size_t written_ = 0;  // to the current part
};

}  // namespace xpurun::launcher
