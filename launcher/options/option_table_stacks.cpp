// The options of `xpurun stacks`.
#include "launcher/options/option_table.h"

namespace xpurun::launcher {

namespace {

constexpr std::string_view kSource = "Source";
constexpr std::string_view kDumping = "Dumping live processes";
constexpr std::string_view kNaming = "Unwinding and naming";

constexpr OptionSpec kStacks[] = {
    {.name = "run",
     .kind = ValueKind::directory,
     .metavar = "DIR",
     .words = "latest",
     .group = kSource,
     .help = "dump the live run of this run directory; latest: the run of xpurun-runs/latest"},
    {.name = "pid",
     .short_name = 'p',
     .kind = ValueKind::processes,
     .metavar = "PID",
     .group = kSource,
     .help = "dump this live process; several processes (repeat the option or use commas) are stopped at the "
             "same moment"},
    {.name = "pid-file",
     .kind = ValueKind::list,
     .metavar = "FILE",
     .group = kSource,
     .help = "dump the processes whose numbers are in this file"},
    {.name = "core",
     .kind = ValueKind::list,
     .metavar = "FILE",
     .group = kSource,
     .help = "show the process of this core file (may be repeated); PROGRAM: its program, if that has moved"},
    {.name = "children",
     .group = kSource,
     .help = "with --pid or --pid-file: also dump all descendants of these processes"},
    {.name = "deadline",
     .kind = ValueKind::duration,
     .metavar = "DURATION",
     .default_text = "100ms",
     .group = kDumping,
     .help = "longest time for which a process is stopped; stacks not read by then are left out"},
    {.name = "stop",
     .kind = ValueKind::on_off,
     .default_text = "on",
     .group = kDumping,
     .help =
         "read the processes while they run: stacks of waiting threads are exact, other stacks are missing"},
    {.name = "samples",
     .kind = ValueKind::number,
     .metavar = "N",
     .default_text = "1",
     .group = kDumping,
     .help =
         "dump N times and distinguish stuck threads (the same frames in all samples) from moving threads"},
    {.name = "interval",
     .kind = ValueKind::duration,
     .metavar = "DURATION",
     .default_text = "200ms",
     .group = kDumping,
     .help = "time between two samples"},
    {.name = "locals",
     .group = kDumping,
     .help = "show arguments and local variables of Python frames, shortened, secrets masked"},
    {.name = "gpu-stacks",
     .kind = ValueKind::choice,
     .metavar = "WHEN",
     .words = "auto always never",
     .default_text = "never",
     .group = kDumping,
     .help = "ask cuda-gdb for the running kernels, which stops the process for seconds; auto: if a thread "
             "waits inside CUDA"},
    {.name = "snapshots",
     .group = kDumping,
     .help = "also keep the copied memory, in --out DIR, so that the stacks can be resolved again elsewhere"},
    {.name = "unwinder",
     .kind = ValueKind::choice,
     .metavar = "NAME",
     .words = "own libdw gdb",
     .default_text = "own",
     .group = kNaming,
     .help = "engine that finds native frames: xpurun's own, elfutils on the same copy, or gdb, which stops "
             "the process for seconds"},
    {.name = "symbols",
     .kind = ValueKind::directory,
     .metavar = "DIR",
     .group = kNaming,
     .help = "search ELF files and debug information here first; resolves the snapshots in PATH again"},
    {.name = "sysroot",
     .kind = ValueKind::directory,
     .metavar = "DIR",
     .group = kNaming,
     .help = "file tree of the host of the core files, or of the snapshots in PATH; resolves these again"},
    {.name = "out",
     .short_name = 'o',
     .kind = ValueKind::file,
     .metavar = "PATH",
     .group = kOutput,
     .help = "output path: a directory gets all formats, a file name with an ending gets one; default: "
             "stacks/ in a given directory, nothing for live processes"},
    {.name = "format",
     .kind = ValueKind::choice,
     .metavar = "FORMAT",
     .words = "tree text json pyspy folded speedscope pprof svg html",
     .group = kOutput,
     .help = "print in this format; default: text (one process after the other) for live processes, tree "
             "(merged) for directories and runs, or the ending of --out"},
    {.name = "view",
     .kind = ValueKind::choice,
     .metavar = "VIEW",
     .words = "merged python native",
     .group = kOutput,
     .help = "frames to show; default: python for pyspy, merged for all other formats"},
    {.name = "compat",
     .kind = ValueKind::choice,
     .metavar = "NAME",
     .words = "xpu_timer",
     .group = kOutput,
     .help = "write cpp_stack, py_stack and their pictures as this tool's stack viewer does"},
    {.name = "quiet", .short_name = 'q', .group = kOutput, .help = "print nothing on success"},
    kHelp,
};

}  // namespace

std::span<const OptionSpec> stacks_options() {
  return kStacks;
}

}  // namespace xpurun::launcher
