// The options of `xpurun doctor`.
#include "launcher/options/option_table.h"

namespace xpurun::launcher {

namespace {

constexpr std::string_view kGpus = "GPUs";

constexpr OptionSpec kDoctor[] = {
    {.name = "burn",
     .kind = ValueKind::duration,
     .metavar = "DURATION",
     .group = kGpus,
     .help = "instead of the checks: let all GPUs of this host work for this time, compare their speeds and "
             "results with each other; fails if a GPU is faulty or slower than the others"},
    {.name = "python",
     .kind = ValueKind::text,
     .metavar = "PROGRAM",
     .default_text = "python3",
     .group = kGpus,
     .help =
         "with --burn: use the CUDA libraries among the packages of this Python; otherwise those that the "
         "loader finds"},
    kJson,
    kLang,
    kHelp};

}  // namespace

std::span<const OptionSpec> doctor_options() {
  return kDoctor;
}

}  // namespace xpurun::launcher
