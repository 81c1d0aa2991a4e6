// The options of `xpurun pipeline`.
#include "launcher/options/option_table.h"

namespace xpurun::launcher {

namespace {

constexpr std::string_view kStages = "Stages and jobs";

constexpr OptionSpec kPipeline[] = {
    {.name = "groups",
     .kind = ValueKind::text,
     .metavar = "GROUPS",
     .group = kStages,
     .help = "the parallel groups, fastest first, as in Megatron: tp2-dp2-pp4; the index in pp is the stage. "
             "Default: ranks that send to each other are a pipeline, in ascending order"},
    {.name = "forward",
     .kind = ValueKind::list,
     .metavar = "FUNCTION",
     .group = kStages,
     .help = "a traced function whose calls are forward jobs, with its name as given to --trace-python"},
    {.name = "backward",
     .kind = ValueKind::list,
     .metavar = "FUNCTION",
     .group = kStages,
     .help = "the same for backward jobs"},
    {.name = "steps",
     .kind = ValueKind::text,
     .metavar = "RANGE",
     .group = kOutput,
     .help =
         "with --format svg: the steps in the picture, such as 10-12; default: the last two complete ones"},
    {.name = "format",
     .kind = ValueKind::choice,
     .metavar = "FORMAT",
     .words = "text json svg paddle",
     .default_text = "text",
     .group = kOutput,
     .help = "paddle: pipeline_profile.json and the same for Perfetto, as Paddle's visualiser writes them"},
    {.name = "out",
     .short_name = 'o',
     .kind = ValueKind::file,
     .metavar = "FILE",
     .group = kOutput,
     .help = "write to this file instead of the standard output; with --format paddle a directory, default: "
             "the first operand"},
    {.name = "help", .short_name = 'h', .group = "General", .help = "print this help"},
};

}  // namespace

std::span<const OptionSpec> pipeline_options() {
  return kPipeline;
}

}  // namespace xpurun::launcher
