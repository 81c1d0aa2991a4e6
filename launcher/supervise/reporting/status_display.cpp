#include "launcher/supervise/reporting/status_display.h"

#include "common/wire/notice.h"
#include "launcher/output/status_text.h"

#include <cstdlib>
#include <unistd.h>

namespace xpurun::launcher {

bool wants_status_line(const RunOptions& options, bool nested) {
  const bool wanted =
      options.status == ShowStatus::always || (options.status == ShowStatus::automatic && !nested);
  return wanted && options.verbosity >= 0;
}

StatusDisplay::StatusDisplay(Parts parts, FooterRecord& record, std::function<LiveStatus()> status)
    : parts_(parts),
      status_(std::move(status)),
      line_(parts.loop, STDERR_FILENO, record, [this](size_t columns) { return text(columns); }) {}

void StatusDisplay::start() {
  if (wants_status_line(parts_.options, std::getenv(wire::kRunEnv) != nullptr)) {
    line_.start();
  }
}

std::string StatusDisplay::text(size_t columns) const {
  const bool wanted = parts_.options.status == ShowStatus::always || parts_.table.multi_process();
  return wanted ? status_line_text(status_(), columns, parts_.options.language) : std::string();
}

}  // namespace xpurun::launcher
