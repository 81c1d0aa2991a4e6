// The options of `xpurun pipeline`, `xpurun timeline` and `xpurun memory`.
#include "launcher/options/option_table.h"

namespace xpurun::launcher {

namespace {

constexpr std::string_view kStages = "Stages and jobs";
constexpr std::string_view kShown = "Selection";

constexpr OptionSpec kPipeline[] = {
    {.name = "groups",
     .kind = ValueKind::text,
     .metavar = "GROUPS",
     .group = kStages,
     .help = "the parallel groups, fastest first, as in Megatron: tp2-dp2-pp4, or a .json file with the "
             "ranks of each "
             "group; the index in pp is the stage. "
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
    {.name = "ranks",
     .kind = ValueKind::text,
     .metavar = "LIST",
     .group = kStages,
     .help = "only these ranks, such as 0-7,12, as if there were no others; of logs of Paddle: only these "
             "devices, counted over all machines"},
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
    {.name = "durations",
     .group = kOutput,
     .help = "with --format paddle: the names of jobs and steps end with their durations"},
    {.name = "out",
     .short_name = 'o',
     .kind = ValueKind::file,
     .metavar = "FILE",
     .group = kOutput,
     .help = "write to this file instead of the standard output; with --format paddle a directory, default: "
             "the first operand"},
    kHelp,
};

constexpr OptionSpec kTimeline[] = {
    {.name = "ranks",
     .kind = ValueKind::text,
     .metavar = "LIST",
     .group = kShown,
     .help = "only these ranks: 0-7,12"},
    {.name = "time",
     .kind = ValueKind::text,
     .metavar = "INTERVAL",
     .group = kShown,
     .help = "A:B: only from second A to second B of the run; either may be left out"},
    {.name = "only",
     .kind = ValueKind::list,
     .metavar = "LIST",
     .group = kShown,
     .help = "only these, separated by commas: matmul, collective, memory, kernel, graph, host, python, "
             "pipeline"},
    {.name = "groups",
     .kind = ValueKind::text,
     .metavar = "GROUPS",
     .group = kShown,
     .help = "the parallel groups, fastest first, as in Megatron: tp4-cp2-dp4-pp2, or a .json file with the "
             "ranks of "
             "each group; default: from the communicators"},
    {.name = "first-group", .group = kShown, .help = "with --groups: only the first group of each type"},
    {.name = "out",
     .short_name = 'o',
     .kind = ValueKind::file,
     .metavar = "FILE",
     .group = kOutput,
     .help =
         "write this file, - for standard output, or with --format chrome or xpu_timer this directory; "
         "default: "
         "timeline.perfetto-trace, chrome-traces or xpu_timer-traces, in the run directory if it is the only "
         "operand"},
    {.name = "format",
     .kind = ValueKind::choice,
     .metavar = "FORMAT",
     .words = "perfetto chrome xpu_timer",
     .default_text = "perfetto",
     .group = kOutput,
     .help =
         "perfetto: one file; chrome: JSON for each rank, as torch.profiler writes; xpu_timer: its .timeline "
         "and .meta for each rank, and the throughput of matmuls, matmul_dpN.bin"},
    {.name = "compress",
     .group = kOutput,
     .help = "compress with gzip, which Perfetto and the other tools read"},
    {.name = "quiet", .short_name = 'q', .group = kOutput, .help = "print nothing on success"},
    kHelp,
};

constexpr std::string_view kLook = "Look at a live run";

constexpr OptionSpec kMemory[] = {
    {.name = "now",
     .group = kLook,
     .help = "first ask all ranks of the live run, on this node, for a look at their memory"},
    {.name = "steps",
     .short_name = 's',
     .kind = ValueKind::number,
     .metavar = "N",
     .default_text = "8",
     .group = kLook,
     .help = "with --now: record for this many steps who allocates on the GPU; 0: look at once"},
    {.name = "objects",
     .group = kLook,
     .help = "with --now: also record what Python itself allocates, which makes these steps slower"},
    {.name = "pid",
     .short_name = 'p',
     .kind = ValueKind::processes,
     .metavar = "PID",
     .group = kLook,
     .help = "the run of this live rank, and this rank alone"},
    {.name = "moment",
     .kind = ValueKind::choice,
     .metavar = "WHICH",
     .words = "last first time request growth full peak out_of_memory heap",
     .default_text = "last",
     .group = kShown,
     .help =
         "which look: last: of each rank the one when no memory was left, else the newest; peak: before a "
         "backward pass; heap: the host memory alone, as sampled"},
    {.name = "ranks",
     .kind = ValueKind::text,
     .metavar = "LIST",
     .group = kShown,
     .help = "only these ranks: 0-7,12"},
    {.name = "top",
     .kind = ValueKind::number,
     .metavar = "N",
     .default_text = "20",
     .group = kShown,
     .help = "rows of each table"},
    {.name = "flame",
     .kind = ValueKind::file,
     .metavar = "FILE",
     .group = kOutput,
     .help = "write a flame graph to this SVG file: category, holder, and the stack of the allocation"},
    {.name = "compare",
     .kind = ValueKind::text,
     .metavar = "RANKS",
     .group = kOutput,
     .help = "with --flame: two flame graphs, of these ranks and of the others, coloured by the difference"},
    {.name = "json", .group = kOutput, .help = "print one JSON document"},
    kHelp,
};

}  // namespace

std::span<const OptionSpec> memory_options() {
  return kMemory;
}

std::span<const OptionSpec> pipeline_options() {
  return kPipeline;
}
std::span<const OptionSpec> timeline_options() {
  return kTimeline;
}

}  // namespace xpurun::launcher
