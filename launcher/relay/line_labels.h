// LineLabels: puts the rank in front of each line of an output stream that several ranks share (--prefix).
// Text without a final newline keeps its line open: the continuation gets no label, and another rank's text
// begins a new line. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace xpurun::launcher {

class LineLabels {
 public:
  // Returns `text` of a rank with its labels.
  std::string label(uint32_t rank, std::string_view text);

 private:
  std::optional<uint32_t> open_;  // rank of the open line
};

}  // namespace xpurun::launcher
