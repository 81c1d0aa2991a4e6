// Options of the commands that look after runs and hosts: top, runs, doctor, env, version.
#include "launcher/cli/option_table.h"

namespace xpurun::launcher {

namespace {

constexpr std::string_view kWhich = "Which runs";
constexpr std::string_view kRemoving = "Removing (prune)";
constexpr std::string_view kOutput = "Output";

constexpr OptionSpec kHelp{.name = "help", .short_name = 'h', .group = "General", .help = "print this help"};
constexpr OptionSpec kJson{.name = "json", .group = kOutput, .help = "print one JSON document"};

constexpr OptionSpec kTop[] = {
    {.name = "interval",
     .kind = ValueKind::duration,
     .metavar = "DURATION",
     .default_text = "1s",
     .group = kOutput,
     .help = "time between two looks"},
    {.name = "once", .group = kOutput, .help = "print the table once, as it does where there is no terminal"},
    kHelp,
};

constexpr OptionSpec kRuns[] = {
    {.name = "runs-dir",
     .kind = ValueKind::directory,
     .metavar = "DIR",
     .default_text = "xpurun-runs",
     .group = kWhich,
     .help = "where the run directories are"},
    {.name = "keep",
     .kind = ValueKind::number,
     .metavar = "N",
     .group = kRemoving,
     .help = "remove all but the N newest runs"},
    {.name = "older-than",
     .kind = ValueKind::duration,
     .metavar = "DURATION",
     .group = kRemoving,
     .help = "remove runs that ended longer ago than this"},
    {.name = "max-size",
     .kind = ValueKind::size,
     .metavar = "SIZE",
     .group = kRemoving,
     .help = "remove the oldest runs until the rest takes no more than this on the disk"},
    {.name = "dry-run", .short_name = 'n', .group = kRemoving, .help = "only say what would be removed"},
    {.name = "yes", .short_name = 'y', .group = kRemoving, .help = "do not ask"},
    kJson,
    kHelp,
};

constexpr OptionSpec kDoctor[] = {kJson, kHelp};
constexpr OptionSpec kEnv[] = {kJson, kHelp};

constexpr OptionSpec kVersion[] = {
    {.name = "verbose",
     .short_name = 'v',
     .group = kOutput,
     .help = "also say where its parts are, which formats it writes and what this host is"},
    kJson,
    kHelp,
};

}  // namespace

std::span<const OptionSpec> top_options() {
  return kTop;
}
std::span<const OptionSpec> runs_options() {
  return kRuns;
}
std::span<const OptionSpec> doctor_options() {
  return kDoctor;
}
std::span<const OptionSpec> env_options() {
  return kEnv;
}
std::span<const OptionSpec> version_options() {
  return kVersion;
}

}  // namespace xpurun::launcher
