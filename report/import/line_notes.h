// Notes on unparsable lines: the first few by number, the others counted.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

class LineNotes {
 public:
  void add(size_t line, std::string_view why) {
    if (++count_ <= kNamed) {
      notes_.push_back(fmt::format("line {}: {}", line, why));
    }
  }
  std::vector<std::string> take() {
    if (count_ > kNamed) {
      notes_.push_back(fmt::format("{} more lines were left out", count_ - kNamed));
    }
    return std::move(notes_);
  }

 private:
  static constexpr size_t kNamed = 3;
  size_t count_ = 0;
  std::vector<std::string> notes_;
};

}  // namespace xpurun::report
