#include "launcher/options/option_table.h"

namespace xpurun::launcher {

namespace {

constexpr std::string_view kWatching = "Watching";
constexpr std::string_view kDumps = "Dumps and ends";
constexpr std::string_view kPrograms = "Programs of yours";
constexpr std::string_view kDirectory = "Run directory";
constexpr std::string_view kOutput = "Output";
constexpr std::string_view kPreload = "Library in the training processes";
constexpr std::string_view kTiming = "Timing, metrics and control";
constexpr std::string_view kGeneral = "General";

constexpr OptionSpec kHelp{.name = "help", .short_name = 'h', .group = kGeneral, .help = "print this help"};

constexpr OptionSpec kRun[] = {
    {.name = "hang-timeout",
     .kind = ValueKind::duration,
     .metavar = "DURATION",
     .words = "off",
     .default_text = "300s",
     .group = kWatching,
     .help = "report a hang when the main thread of a rank has made no progress for this time; 0 or off: no "
             "hang detection",
     .scope = Scope::everywhere,
     .common = true},
    {.name = "busy-timeouts",
     .kind = ValueKind::number,
     .metavar = "N",
     .default_text = "3",
     .group = kWatching,
     .help = "a rank that computes while the others wait for it counts as stuck after N hang timeouts",
     .scope = Scope::everywhere},
    {.name = "on-hang",
     .kind = ValueKind::choice,
     .metavar = "ACTION",
     .words = "report kill restart",
     .default_text = "report",
     .group = kWatching,
     .help =
         "report: dump, print the verdict, keep watching; kill: dump, print the verdict, end the job "
         "with exit status 124; restart: end the ranks, so that torchrun --max-restarts starts them again",
     .scope = Scope::everywhere,
     .common = true},
    {.name = "max-hangs",
     .kind = ValueKind::number,
     .metavar = "N",
     .default_text = "3",
     .group = kWatching,
     .help = "with --on-hang restart: after N hangs of a run, end the job at the next one",
     .scope = Scope::everywhere},
    {.name = "hang-idle",
     .kind = ValueKind::on_off,
     .default_text = "off",
     .group = kWatching,
     .help = "a rank without peers that waits for input, connections, events or a quiet program hangs too",
     .scope = Scope::everywhere},
    {.name = "poll",
     .kind = ValueKind::duration,
     .metavar = "DURATION",
     .words = "auto",
     .default_text = "auto",
     .group = kWatching,
     .help = "time between two polls of the ranks; auto: a fraction of the hang timeout",
     .scope = Scope::everywhere},
    {.name = "dump-signal",
     .kind = ValueKind::choice,
     .metavar = "SIGNAL",
     .words = "none HUP QUIT USR1 USR2",
     .default_text = "none",
     .group = kDumps,
     .help = "on this signal xpurun dumps the stacks of every rank and does not forward the signal",
     .scope = Scope::everywhere},
    {.name = "dump-deadline",
     .kind = ValueKind::duration,
     .metavar = "DURATION",
     .default_text = "100ms",
     .group = kDumps,
     .help = "longest time for which a process is stopped while its stacks are read",
     .scope = Scope::everywhere},
    {.name = "gpu-stacks",
     .kind = ValueKind::choice,
     .metavar = "WHEN",
     .words = "auto always never",
     .default_text = "auto",
     .group = kDumps,
     .help = "on a hang, ask cuda-gdb for the kernels that run on the GPUs; auto: for ranks that wait inside "
             "CUDA",
     .scope = Scope::everywhere},
    {.name = "evidence-timeout",
     .kind = ValueKind::duration,
     .metavar = "DURATION",
     .words = "off",
     .default_text = "20s",
     .group = kDumps,
     .help = "on a hang, longest time for evidence beside the stacks (Flight Recorder, state of the GPUs, "
             "kernel log), for which --on-hang kill waits; 0 or off: none is collected",
     .scope = Scope::everywhere},
    {.name = "flight-recorder",
     .kind = ValueKind::on_off,
     .default_text = "off",
     .group = kDumps,
     .help = "switch PyTorch's Flight Recorder on in all ranks; on a hang, its dumps are read",
     .scope = Scope::everywhere},
    {.name = "crash-wait",
     .kind = ValueKind::duration,
     .metavar = "DURATION",
     .words = "off",
     .default_text = "5s",
     .group = kDumps,
     .help = "longest time for which a crashing process is held for its stacks; 0 or off: not held",
     .scope = Scope::everywhere},
    {.name = "grace",
     .kind = ValueKind::duration,
     .metavar = "DURATION",
     .words = "none",
     .default_text = "30s",
     .group = kDumps,
     .help = "time between SIGTERM and SIGKILL when xpurun ends the job; none: never SIGKILL",
     .scope = Scope::everywhere,
     .common = true},
    {.name = "on-event",
     .kind = ValueKind::text,
     .metavar = "COMMAND",
     .group = kPrograms,
     .help = "run this command line with /bin/sh on each event of the job, with one JSON document on its "
             "standard input",
     .scope = Scope::environment},
    {.name = "on-event-kinds",
     .kind = ValueKind::list,
     .metavar = "KIND",
     .words = "all",
     .default_text = "all",
     .group = kPrograms,
     .help = "the events that --on-event is run for: hang, crash, exception, recovery, end, or all",
     .scope = Scope::everywhere},
    {.name = "on-event-timeout",
     .kind = ValueKind::duration,
     .metavar = "DURATION",
     .default_text = "10s",
     .group = kPrograms,
     .help = "time limit of each command of --on-event and of each plug-in",
     .scope = Scope::everywhere},
    {.name = "plugin",
     .kind = ValueKind::list,
     .metavar = "FILE",
     .group = kPrograms,
     .help = "after a run that failed, call this Python file's functions for exceptions and crashes, as "
             "xpu_timer does with its plug-ins",
     .scope = Scope::environment},
    {.name = "out",
     .short_name = 'o',
     .kind = ValueKind::directory,
     .metavar = "DIR",
     .group = kDirectory,
     .help = "use this run directory; it must be new or empty",
     .scope = Scope::everywhere,
     .common = true},
    {.name = "runs-dir",
     .kind = ValueKind::directory,
     .metavar = "DIR",
     .default_text = "xpurun-runs",
     .group = kDirectory,
     .help = "create run directories, and the link latest, in this directory",
     .scope = Scope::everywhere},
    {.name = "name",
     .kind = ValueKind::text,
     .metavar = "NAME",
     .group = kDirectory,
     .help = "name of the run, part of the name of its directory; default: the name of the command",
     .scope = Scope::everywhere,
     .common = true},
    {.name = "report",
     .kind = ValueKind::on_off,
     .default_text = "on",
     .group = kDirectory,
     .help = "do not build report.html and the merged stacks",
     .scope = Scope::everywhere},
    {.name = "logs",
     .kind = ValueKind::on_off,
     .default_text = "off",
     .group = kOutput,
     .help = "keep the output of each rank in a file of the run directory and repeat it on the terminal",
     .scope = Scope::everywhere,
     .common = true},
    {.name = "prefix",
     .kind = ValueKind::on_off,
     .default_text = "off",
     .group = kOutput,
     .help = "put the rank in front of each repeated line; implies --logs",
     .scope = Scope::everywhere},
    {.name = "status",
     .kind = ValueKind::choice,
     .metavar = "WHEN",
     .words = "auto always never",
     .default_text = "auto",
     .group = kOutput,
     .help =
         "show a status line at the bottom of the terminal; auto: for jobs of several ranks; never in a pipe",
     .scope = Scope::everywhere},
    {.name = "quiet",
     .short_name = 'q',
     .kind = ValueKind::on_off,
     .default_text = "off",
     .group = kOutput,
     .help = "print errors only; the verdict is in verdict.json",
     .scope = Scope::everywhere,
     .common = true},
    {.name = "verbose",
     .short_name = 'v',
     .kind = ValueKind::repeated,
     .default_text = "0",
     .group = kOutput,
     .help = "log to standard error what xpurun does; twice: also what it sees, for debugging",
     .scope = Scope::everywhere},
    {.name = "print-config",
     .group = kOutput,
     .help = "print every option with its value and where the value was set, and exit"},
    {.name = "preload",
     .kind = ValueKind::on_off,
     .default_text = "on",
     .group = kPreload,
     .help = "do not load libxpurun_preload.so, which reports crashes and times GPU calls, into the command",
     .scope = Scope::everywhere},
    {.name = "preload-library",
     .kind = ValueKind::file,
     .metavar = "FILE",
     .group = kPreload,
     .help = "load this file instead of the preload library that belongs to this xpurun",
     .scope = Scope::environment},
    {.name = "python-hooks",
     .kind = ValueKind::on_off,
     .default_text = "on",
     .group = kPreload,
     .help = "do not hook exceptions and torch.distributed in the Python processes of the command",
     .scope = Scope::everywhere},
    {.name = "timing",
     .kind = ValueKind::choice,
     .metavar = "LEVEL",
     .words = "off light full",
     .default_text = "light",
     .group = kTiming,
     .help = "time matmuls, collectives and memory operations of ranks that use a GPU; light: within the "
             "overhead budget",
     .scope = Scope::everywhere,
     .common = true},
    {.name = "overhead-budget",
     .kind = ValueKind::share,
     .metavar = "PERCENT",
     .default_text = "0.1%",
     .group = kTiming,
     .help = "largest share of host time that --timing light may cost",
     .scope = Scope::everywhere},
    {.name = "peak",
     .kind = ValueKind::text,
     .metavar = "FLOPS",
     .group = kTiming,
     .help =
         "the GPU's peak in FLOP/s: 989T, or by type: bf16=989T,fp8=1979T; default: a built-in table of GPUs",
     .scope = Scope::everywhere},
    {.name = "nccl-profiler",
     .kind = ValueKind::choice,
     .metavar = "WHEN",
     .words = "auto always never",
     .default_text = "auto",
     .group = kTiming,
     .help = "time collectives through NCCL's profiler interface; auto: with --timing light or full, unless "
             "the NCCL release is known to fail",
     .scope = Scope::everywhere},
    {.name = "metrics-port",
     .kind = ValueKind::port,
     .metavar = "PORT",
     .words = "off auto",
     .default_text = "auto",
     .group = kTiming,
     .help = "serve /metrics on this port of 127.0.0.1, or on the next free port; auto: 18889, once a rank "
             "is known",
     .scope = Scope::everywhere},
    {.name = "shape-metrics",
     .kind = ValueKind::on_off,
     .default_text = "off",
     .group = kTiming,
     .help = "also serve the older atorch_* names: five metric families for each matmul shape",
     .scope = Scope::everywhere},
    {.name = "events",
     .kind = ValueKind::size,
     .metavar = "SIZE",
     .words = "off",
     .default_text = "64M",
     .group = kTiming,
     .help = "size of the event files with the newest timed calls of each rank; 0 or off: no event files",
     .scope = Scope::everywhere},
    {.name = "control-port",
     .kind = ValueKind::port,
     .metavar = "PORT",
     .words = "off auto",
     .default_text = "off",
     .group = kTiming,
     .help = "also accept control requests over HTTP, on this port of 127.0.0.1 or the next free port; auto: "
             "18888",
     .scope = Scope::everywhere},
    {.name = "control-auth",
     .kind = ValueKind::choice,
     .metavar = "HOW",
     .words = "token none",
     .default_text = "token",
     .group = kTiming,
     .help = "what an HTTP request must present: the token in control.token; none: nothing, for scripts "
             "written for xpu_timer",
     .scope = Scope::everywhere},
    kHelp,
    {.name = "version",
     .short_name = 'V',
     .group = kGeneral,
     .help = "print the version and what xpurun was built with",
     .common = true},
};

constexpr OptionSpec kReport[] = {
    {.name = "from",
     .kind = ValueKind::file,
     .metavar = "FILE",
     .group = "Source",
     .help = "extract the report from this report.html, which may have come by mail; writes nothing"},
    {.name = "source",
     .group = "Source",
     .help = "include the source lines of the groups' frames, as they are on this host"},
    {.name = "out",
     .short_name = 'o',
     .kind = ValueKind::directory,
     .metavar = "DIR",
     .group = kOutput,
     .help =
         "with Flight Recorder dumps: write the report into this directory; default: xpurun-report in the "
         "directory of the dumps"},
    {.name = "quiet", .short_name = 'q', .group = kOutput, .help = "print nothing on success"},
    {.name = "json",
     .group = kOutput,
     .help = "print verdict.json (with --from: report.json) instead of text"},
    kHelp,
};

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
     .kind = ValueKind::list,
     .metavar = "PID",
     .group = kSource,
     .help = "dump this live process; several processes (repeated, or with commas) are stopped at the same "
             "moment"},
    {.name = "pid-file",
     .kind = ValueKind::list,
     .metavar = "FILE",
     .group = kSource,
     .help = "dump the processes whose numbers are in this file"},
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
     .help = "dump N times and tell stuck threads (the same frames in all samples) from moving threads"},
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
     .help = "file tree of the host that the snapshots in PATH come from; resolves them again"},
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

constexpr OptionSpec kPlain[] = {kHelp};

}  // namespace

std::span<const OptionSpec> run_options() {
  return kRun;
}
std::span<const OptionSpec> report_options() {
  return kReport;
}
std::span<const OptionSpec> stacks_options() {
  return kStacks;
}
std::span<const OptionSpec> plain_options() {
  return kPlain;
}

const OptionSpec* find_option(std::span<const OptionSpec> table, std::string_view name) {
  for (const OptionSpec& o : table) {
    if (o.name == name) {
      return &o;
    }
  }
  return nullptr;
}

const OptionSpec* find_option(std::span<const OptionSpec> table, char short_name) {
  for (const OptionSpec& o : table) {
    if (o.short_name != 0 && o.short_name == short_name) {
      return &o;
    }
  }
  return nullptr;
}

std::string flag(const OptionSpec& o) {
  const bool negated = o.kind == ValueKind::on_off && o.default_text == "on";
  return std::string(negated ? "--no-" : "--") + std::string(o.name);
}

std::string env_name(const OptionSpec& o) {
  std::string out = "XPURUN_";
  for (char c : o.name) {
    out += c == '-' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return out;
}

}  // namespace xpurun::launcher
