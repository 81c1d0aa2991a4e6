#include "launcher/watch/unwatched_job.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

UnwatchedJob::UnwatchedJob(const RunOptions& options)
    : timeout_s_(options.hang_timeout_s),
      done_(options.hang_timeout_s <= 0 ||
            // Only a user who has asked for hang detection is warned.
            std::none_of(options.origins.begin(), options.origins.end(), [](const model::OptionOrigin& o) {
              return o.name == "hang-timeout" || o.name == "on-hang";
            })) {}

std::optional<std::string> UnwatchedJob::look(double elapsed_s, bool watches, std::string_view program) {
  done_ = done_ || watches;
  if (done_ || elapsed_s < timeout_s_) {
    return std::nullopt;
  }
  done_ = true;
  return fmt::format(
      "no hang detection: {} is not CPython and has no rank variables; set RANK and WORLD_SIZE to have its "
      "system "
      "calls watched",
      program.empty() ? std::string("the command") : base::sanitize(program));
}

}  // namespace xpurun::launcher
