// LineLabels: the ranks in front of the lines of one stream of ours that several ranks share (--prefix). Text
// that does not end a line keeps its line open: its continuation gets no label, and another rank's text
// begins a new line. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace xpurun::launcher {

class LineLabels {
 public:
  // `text` of a rank as it is to be written.
  std::string label(uint32_t rank, std::string_view text);

 private:
  std::optional<uint32_t> open_;  // whose line has not ended yet
};

}  // namespace xpurun::launcher
