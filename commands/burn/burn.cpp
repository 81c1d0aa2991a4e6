#include "commands/burn/burn.h"

#include "commands/burn/burn_bench.h"
#include "commands/burn/burn_text.h"
#include "commands/child.h"
#include "commands/commands.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/model/json/json_text.h"
#include "launcher/options/exit_status.h"
#include "launcher/output/text_block.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <unistd.h>

namespace xpurun::launcher {

namespace {

using base::tr;

// For loading the libraries, and for the copies and the communicator, whose work has a size and no time.
constexpr double kMoreS = 180;
constexpr int kNoGpu = 3;  // the child's status: its output is why

int in_child(const BurnRequest& request, size_t columns) {
  const auto burn = burn_gpus({.seconds = request.seconds, .python = request.python});
  const std::string text = !burn          ? base::to_line(burn.error())
                           : request.json ? model::json_text(to_json(*burn), 2) + "\n"
                                          : burn_text(*burn, columns);
  if (!base::put_out(text)) {
    return kExitOwnFailure;
  }
  return !burn ? kNoGpu : has_faults(*burn) ? kExitFailure : 0;
}

}  // namespace

int burn_command(const BurnRequest& request) {
  const size_t columns = help_columns(STDOUT_FILENO);
  if (::isatty(STDERR_FILENO) != 0) {
    base::write_stderr(
        fmt::format("xpurun: {}\n", tr("the GPUs of this host work for {:.0f} s", request.seconds)));
  }
  const ProgramOutput done =
      run_function([&] { return in_child(request, columns); }, request.seconds + kMoreS);
  if (done.status == kNoGpu) {
    return complain({.what = done.output, .id = "E-NO-GPU", .hint = "xpurun doctor"}, kExitFailure);
  }
  if (done.status != 0 && done.status != kExitFailure) {
    return complain(
        {.what = done.status < 0 ? base::cli_text("the GPUs did not answer in time")
                                 : base::cli_text("the work on the GPUs ended with status {}", done.status),
         .id = "E-NO-GPU",
         .hint = "xpurun doctor"},
        kExitFailure);
  }
  const int printed = print(done.output);
  return done.status != 0 ? kExitFailure : printed;
}

}  // namespace xpurun::launcher
