// TraceText: the JSON text of a trace file, plain or gzip, in pieces: an unpacked trace of torch.profiler has
// gigabytes. Hostile files end early instead of filling the memory: a few packed KiB can unpack to GiB. One
// thread.
#pragma once

#include "common/base/result.h"

#include <memory>
#include <streambuf>
#include <string>
#include <vector>

namespace xpurun::report {

class TraceText : public std::streambuf {
 public:
  static base::Result<std::unique_ptr<TraceText>> open(const std::string& path);
  ~TraceText() override;
  TraceText(const TraceText&) = delete;
  TraceText& operator=(const TraceText&) = delete;

  // Why the text ended before the end of the file; empty: it did not.
  const std::string& problem() const { return problem_; }

 protected:
  int_type underflow() override;

 private:
  struct File;
  explicit TraceText(std::unique_ptr<File> file);
  // The parser keeps the current string, number or blank space as a whole. Returns false if it has become too
  // long.
  bool is_bounded(const char* text, size_t bytes);

  std::unique_ptr<File> file_;
  std::vector<char> chunk_;
  std::string problem_;
  uint64_t read_ = 0;
  // Of the JSON text so far.
  size_t token_ = 0;  // bytes since the last begin or end of a string, or the last mark between values
  bool in_string_ = false;
  bool escaped_ = false;
};

}  // namespace xpurun::report
