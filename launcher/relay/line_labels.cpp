#include "launcher/relay/line_labels.h"

#include <fmt/format.h>

namespace xpurun::launcher {

std::string LineLabels::label(uint32_t rank, std::string_view text) {
  std::string out;
  if (!text.empty() && open_ && *open_ != rank) {
    out += '\n';
    open_.reset();
  }
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end == std::string_view::npos ? end : end + 1);
    if (!open_) {
      out += fmt::format("[{}] ", rank);
    }
    out += line;
    open_ = end == std::string_view::npos ? std::optional(rank) : std::nullopt;
    text.remove_prefix(line.size());
  }
  return out;
}

}  // namespace xpurun::launcher
