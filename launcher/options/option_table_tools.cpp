// Options of the commands that look after runs and hosts: report, top, ctl, runs, events, analyze, doctor,
// selftest, env, version.
#include "launcher/options/option_table.h"

#include <vector>

namespace xpurun::launcher {

namespace {

constexpr std::string_view kWhich = "Which runs";
constexpr std::string_view kRemoving = "Removing (prune)";

constexpr std::string_view kServing = "Browser on another machine";

constexpr OptionSpec kQuery[] = {
    {.name = "ask",
     .kind = ValueKind::text,
     .metavar = "NAME",
     .words =
         "time longest matmuls collectives late gaps launches stages functions batches steps slowest-steps "
         "load communication captured idle idle-gaps links memory failures",
     .group = "Question",
     .help = "ask this ready question"},
    {.name = "list", .group = "Question", .help = "print the ready questions and the tables"},
    {.name = "format",
     .kind = ValueKind::choice,
     .metavar = "FORMAT",
     .words = "table csv json",
     .default_text = "table",
     .group = kOutput,
     .help = "json: one object per line"},
    {.name = "save",
     .kind = ValueKind::file,
     .metavar = "FILE",
     .group = kOutput,
     .help = "also write the SQLite database to this new file; without a question: only that"},
    kHelp,
};

constexpr OptionSpec kRecord[] = {
    {.name = "run",
     .kind = ValueKind::directory,
     .metavar = "DIR",
     .words = "latest",
     .group = "Source",
     .help = "record all ranks of the live run in this run directory"},
    {.name = "pid",
     .short_name = 'p',
     .kind = ValueKind::processes,
     .metavar = "PID",
     .group = "Source",
     .help = "record this live process; for several, repeat the option or use commas"},
    {.name = "children", .group = "Source", .help = "with --pid: also record all descendants"},
    {.name = "workers",
     .group = "Source",
     .help =
         "with --run: also record the Python processes that the ranks have started, such as data loaders"},
    {.name = "ranks",
     .kind = ValueKind::text,
     .metavar = "RANKS",
     .group = "Source",
     .help = "with --run: only these ranks, such as 0-3,7"},
    {.name = "duration",
     .short_name = 'd',
     .kind = ValueKind::duration,
     .metavar = "DURATION",
     .default_text = "10s",
     .group = "Sampling",
     .help = "length of the recording; Ctrl-C ends it early"},
    {.name = "rate",
     .short_name = 'r',
     .kind = ValueKind::number,
     .metavar = "N",
     .default_text = "100",
     .group = "Sampling",
     .help = "samples a second of each process, at most 1000; 10 with --native"},
    {.name = "threads",
     .kind = ValueKind::choice,
     .metavar = "WHICH",
     .words = "main gil all",
     .default_text = "main",
     .group = "Sampling",
     .help = "which threads count: the main thread, waiting or not; the holder of the GIL; all"},
    {.name = "off-cpu",
     .group = "Sampling",
     .help = "only samples off the CPU, with the reason as the innermost frame"},
    {.name = "native",
     .group = "Sampling",
     .help = "also native functions, and operations of PyTorch (aten::mm, autograd: MmBackward0); stops the "
             "processes for about a millisecond per sample"},
    {.name = "compare",
     .kind = ValueKind::text,
     .metavar = "RANKS",
     .group = kOutput,
     .help = "these ranks beside the others: text lists the functions whose share of the time differs, svg "
             "colours "
             "the frames by it, speedscope has a profile of each group"},
    {.name = "format",
     .short_name = 'f',
     .kind = ValueKind::choice,
     .metavar = "FORMAT",
     .words = "text folded speedscope svg json",
     .default_text = "text",
     .group = kOutput,
     .help =
         "text: tables; folded: stacks for flame graph tools; speedscope: for speedscope.app; svg: a flame "
         "graph; json: xpurun's own, for programs; default by the ending of --out, else text"},
    {.name = "reason",
     .kind = ValueKind::text,
     .metavar = "WORD",
     .group = kOutput,
     .help = "the reason, kept in the JSON"},
    {.name = "out",
     .short_name = 'o',
     .kind = ValueKind::file,
     .metavar = "FILE",
     .group = kOutput,
     .help = "write to this file instead of standard output"},
    {.name = "quiet", .short_name = 'q', .group = kOutput, .help = "print no notes"},
    kHelp,
};

constexpr OptionSpec kCapture[] = {
    {.name = "run",
     .kind = ValueKind::directory,
     .metavar = "DIR",
     .words = "latest",
     .default_text = "latest",
     .group = "Source",
     .help = "directory of the live run"},
    {.name = "node",
     .kind = ValueKind::text,
     .metavar = "NAME",
     .words = "all",
     .group = "Source",
     .help =
         "capture this node of the job (its number, host or name, see xpurun nodes), or all nodes; default: "
         "this node"},
    {.name = "steps",
     .short_name = 's',
     .kind = ValueKind::number,
     .metavar = "N",
     .group = "Sampling",
     .help = "capture as long as this many steps take; the run must show steps"},
    {.name = "duration",
     .short_name = 'd',
     .kind = ValueKind::duration,
     .metavar = "DURATION",
     .default_text = "10s",
     .group = "Sampling",
     .help = "capture for this long, at most 5m"},
    {.name = "ranks",
     .kind = ValueKind::text,
     .metavar = "RANKS",
     .group = "Sampling",
     .help = "capture these ranks only, such as 0-3,7"},
    {.name = "rate",
     .short_name = 'r',
     .kind = ValueKind::number,
     .metavar = "N",
     .default_text = "50",
     .group = "Sampling",
     .help = "samples a second of each process, at most 1000"},
    {.name = "json", .group = kOutput, .help = "print the functions as JSON"},
    kHelp,
};

constexpr OptionSpec kReport[] = {
    {.name = "from",
     .kind = ValueKind::file,
     .metavar = "FILE",
     .group = "Source",
     .help = "extract the report from this report.html, which may have come by mail; writes nothing"},
    {.name = "source",
     .kind = ValueKind::on_off,
     .group = "Source",
     .help = "also read source lines that the run directory does not hold from the files of this host; "
             "--no-source: show no source lines"},
    {.name = "out",
     .short_name = 'o',
     .kind = ValueKind::directory,
     .metavar = "DIR",
     .group = kOutput,
     .help =
         "with Flight Recorder dumps: write the report into this directory; default: xpurun-report in the "
         "directory of the dumps"},
    {.name = "quiet", .short_name = 'q', .group = kOutput, .help = "print nothing on success"},
    {.name = "format",
     .kind = ValueKind::choice,
     .metavar = "FORMAT",
     .words = "text json markdown",
     .default_text = "text",
     .group = kOutput,
     .help = "what is printed: text; json: verdict.json (with --from: report.json); markdown: for an issue "
             "or a chat"},
    {.name = "json", .group = kOutput, .help = "the same as --format json"},
    {.name = "lang",
     .kind = ValueKind::choice,
     .metavar = "LANGUAGE",
     .words = "auto en zh",
     .default_text = "auto",
     .group = kOutput,
     .help = "language of the verdict and the report page; auto: Chinese if the locale "
             "(LC_ALL, LC_MESSAGES, LANG) begins with zh"},
    {.name = "share",
     .kind = ValueKind::choice,
     .metavar = "WITH",
     .words = "private group",
     .default_text = "private",
     .group = kOutput,
     .help =
         "who may read the report, the verdict and the merged stacks; group: also the group of these files"},
    {.name = "verdict-only",
     .group = kOutput,
     .help = "write verdict.json, and no page, pictures or other files"},
    {.name = "steps-only",
     .group = kOutput,
     .help = "write nothing; say whether the steps of a job that runs show a slow rank"},
    {.name = "serve",
     .group = kServing,
     .help = "serve the page on 127.0.0.1, behind an address with a random token, until Ctrl-C"},
    {.name = "port",
     .kind = ValueKind::port,
     .metavar = "PORT",
     .default_text = "18890",
     .group = kServing,
     .help = "with --serve: the port, or the next free one"},
    kHelp,
};

constexpr OptionSpec kTop[] = {
    {.name = "interval",
     .kind = ValueKind::duration,
     .metavar = "DURATION",
     .default_text = "1s",
     .group = kOutput,
     .help = "time between two refreshes"},
    {.name = "once",
     .group = kOutput,
     .help = "print the table once and exit; the default without a terminal"},
    {.name = "machine", .group = kOutput, .help = "show this host, and what each rank gets of it, instead"},
    kLang,
    kHelp,
};

constexpr std::string_view kTracing = "Tracing (trace)";

constexpr OptionSpec kCtl[] = {
    {.name = "run",
     .kind = ValueKind::directory,
     .metavar = "DIR",
     .words = "latest",
     .default_text = "latest",
     .group = kWhich,
     .help = "the run directory; latest: in xpurun-runs"},
    {.name = "node",
     .kind = ValueKind::text,
     .metavar = "NAME",
     .words = "all",
     .group = kWhich,
     .help = "ask this node of the job (its number, host or name, see xpurun nodes), or all nodes; default: "
             "this node"},
    {.name = "count",
     .kind = ValueKind::number,
     .metavar = "N",
     .default_text = "1000",
     .group = kTracing,
     .help = "number of timed calls to record per rank"},
    {.name = "at",
     .kind = ValueKind::text,
     .metavar = "TIME",
     .group = kTracing,
     .help = "begin at this second since 1970 (UTC), the same on all hosts, or after +DURATION; default: the "
             "next full second"},
    {.name = "kinds",
     .kind = ValueKind::list,
     .metavar = "LIST",
     .group = kTracing,
     .help =
         "record only these, separated by commas: matmul, collective, memory, host; default: all but host"},
    {.name = "timeout",
     .kind = ValueKind::duration,
     .metavar = "DURATION",
     .default_text = "60s",
     .group = kTracing,
     .help = "end the trace after this time, complete or not"},
    {.name = "name",
     .kind = ValueKind::text,
     .metavar = "NAME",
     .group = kTracing,
     .help = "name of the trace, part of the name of its directory"},
    {.name = "background",
     .group = kTracing,
     .help = "return at once, without waiting for the trace to complete"},
    {.name = "json", .group = kOutput, .help = "print the answer as one line of JSON"},
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
     .help = "remove runs that ended more than this time ago"},
    {.name = "max-size",
     .kind = ValueKind::size,
     .metavar = "SIZE",
     .group = kRemoving,
     .help = "remove the oldest runs until the others take at most this size on disk"},
    {.name = "dry-run",
     .short_name = 'n',
     .group = kRemoving,
     .help = "only print which runs would be removed"},
    {.name = "yes", .short_name = 'y', .group = kRemoving, .help = "do not ask"},
    kJson,
    kLang,
    kHelp,
};

constexpr OptionSpec kNodesOptions[] = {kJson, kHelp};
constexpr std::string_view kWhichFaults = "Which faults";

constexpr OptionSpec kSelftest[] = {
    {.name = "gpu",
     .group = kWhichFaults,
     .help = "one rank per GPU, with NCCL, and also GPU faults; default: the CPU, with gloo"},
    {.name = "inject",
     .kind = ValueKind::list,
     .metavar = "NAME",
     .group = kWhichFaults,
     .help = "only these injections, separated by commas; default: all faults, or all slow jobs"},
    {.name = "slow",
     .group = kWhichFaults,
     .help = "slow jobs instead of faults: which rank and why must be right"},
    {.name = "list", .group = kWhichFaults, .help = "print the injections and run none"},
    {.name = "keep",
     .group = kOutput,
     .help = "keep the run directories and the output of the jobs in ./xpurun-selftest-TIME"},
    kJson,
    kHelp,
};
constexpr OptionSpec kEnv[] = {kJson, kHelp};
constexpr OptionSpec kEvents[] = {
    {.name = "json",
     .group = kOutput,
     .help = "print one JSON object per line: first the file, then each event"},
    kHelp,
};

constexpr OptionSpec kAnalyze[] = {
    {.name = "format",
     .kind = ValueKind::choice,
     .metavar = "FORMAT",
     .words = "text json systrace",
     .default_text = "text",
     .group = kOutput,
     .help = "systrace: JSON lines of openEuler's sysTrace, with scheduler events (L3) if any"},
    {.name = "baseline",
     .kind = ValueKind::directory,
     .metavar = "RUN",
     .group = "Comparison",
     .help = "also say what differs from this earlier run, as xpurun diff does"},
    kHelp,
};

constexpr std::string_view kSelection = "Selection";

constexpr OptionSpec kDiff[] = {
    {.name = "ranks-a",
     .kind = ValueKind::text,
     .metavar = "LIST",
     .group = kSelection,
     .help = "only these ranks of A: 0-7,12"},
    {.name = "ranks-b",
     .kind = ValueKind::text,
     .metavar = "LIST",
     .group = kSelection,
     .help = "only these ranks of B, or of the one run"},
    {.name = "format",
     .kind = ValueKind::choice,
     .metavar = "FORMAT",
     .words = "text json html",
     .default_text = "text",
     .group = kOutput,
     .help = "html: one page that needs no other file and no network"},
    {.name = "out",
     .short_name = 'o',
     .kind = ValueKind::file,
     .metavar = "FILE",
     .group = kOutput,
     .help = "write to this file instead of the standard output"},
    kHelp,
};

constexpr OptionSpec kReplay[] = {
    {.name = "ranks",
     .kind = ValueKind::text,
     .metavar = "LIST",
     .group = kSelection,
     .help = "only these ranks of the run: 0-7,12"},
    {.name = "top",
     .kind = ValueKind::number,
     .metavar = "N",
     .default_text = "10",
     .group = kSelection,
     .help = "replay the N operations of each kind that took the most time"},
    {.name = "collectives",
     .group = kSelection,
     .help = "also replay collectives with NCCL, across all GPUs of this machine"},
    {.name = "factor",
     .kind = ValueKind::text,
     .metavar = "P",
     .default_text = "0.9",
     .group = "Judgement",
     .help = "ranks below P x the median speed of the ranks are slow"},
    {.name = "device",
     .kind = ValueKind::text,
     .metavar = "N",
     .default_text = "0",
     .group = "Replay",
     .help = "the GPU for the matmuls, by CUDA's index"},
    {.name = "python",
     .kind = ValueKind::text,
     .metavar = "PROGRAM",
     .default_text = "python3",
     .group = "Replay",
     .help =
         "use the CUDA libraries among the packages of this Python; otherwise those that the loader finds"},
    {.name = "format",
     .kind = ValueKind::choice,
     .metavar = "FORMAT",
     .words = "text json",
     .default_text = "text",
     .group = kOutput,
     .help = "what is printed"},
    kHelp,
};

constexpr OptionSpec kVersion[] = {
    {.name = "verbose",
     .short_name = 'v',
     .group = kOutput,
     .help = "also print the paths of its parts, its output formats and this host"},
    kJson,
    kHelp,
};

}  // namespace

std::span<const OptionSpec> now_options() {
  static const std::vector<OptionSpec> table = [] {
    std::vector<OptionSpec> out;
    for (const std::string_view name :
         {"out", "runs-dir", "name", "report", "source", "share", "lang", "quiet", "verbose", "help"}) {
      out.push_back(*find_option(run_options(), name));
    }
    return out;
  }();
  return table;
}

std::span<const OptionSpec> attach_options() {
  static const std::vector<OptionSpec> table = [] {
    constexpr std::string_view kNames[] = {"hang-timeout",
                                           "busy-timeouts",
                                           "on-hang",
                                           "hang-idle",
                                           "poll",
                                           "dump-signal",
                                           "dump-deadline",
                                           "gpu-stacks",
                                           "evidence-timeout",
                                           "grace",
                                           "on-event",
                                           "on-event-kinds",
                                           "on-event-timeout",
                                           "out",
                                           "runs-dir",
                                           "name",
                                           "report",
                                           "source",
                                           "share",
                                           "status",
                                           "lang",
                                           "quiet",
                                           "verbose",
                                           "metrics-port",
                                           "control-port",
                                           "control-auth",
                                           "help"};
    std::vector<OptionSpec> out{
        {.name = "slurm-step",
         .kind = ValueKind::text,
         .metavar = "JOB[.STEP]",
         .group = "Job",
         .help =
             "instead of PID: the processes of this Slurm step on this node, by their control groups or "
             "environment in /proc, else by scontrol; without STEP, of all steps of the job except extern"},
        {.name = "now",
         .group = "Job",
         .help = "judge the job at once and end: which ranks stand still, where, and who waits for whom, "
                 "with the stacks of all ranks"},
        {.name = "pid",
         .short_name = 'p',
         .kind = ValueKind::processes,
         .metavar = "PID",
         .group = "Job",
         .help = "the same as PID without an option; for several, repeat the option or use commas"},
        {.name = "children",
         .kind = ValueKind::processes,
         .metavar = "PID",
         .group = "Job",
         .help =
             "the children of this process, for example of a shell that has started the ranks; for several, "
             "repeat the option or use commas"}};
    for (const std::string_view name : kNames) {
      out.push_back(*find_option(run_options(), name));
      if (name == "on-hang") {
        out.back().words = "report kill";
        out.back().help =
            "report: dump, print the verdict, keep watching; kill: dump, print the verdict, end the "
            "job with exit status 124";
      }
    }
    return out;
  }();
  return table;
}

std::span<const OptionSpec> query_options() {
  return kQuery;
}
std::span<const OptionSpec> record_options() {
  return kRecord;
}
std::span<const OptionSpec> capture_options() {
  return kCapture;
}
std::span<const OptionSpec> report_options() {
  return kReport;
}
std::span<const OptionSpec> top_options() {
  return kTop;
}
std::span<const OptionSpec> ctl_options() {
  return kCtl;
}
std::span<const OptionSpec> nodes_options() {
  return kNodesOptions;
}
std::span<const OptionSpec> runs_options() {
  return kRuns;
}
std::span<const OptionSpec> selftest_options() {
  return kSelftest;
}
std::span<const OptionSpec> env_options() {
  return kEnv;
}
std::span<const OptionSpec> events_options() {
  return kEvents;
}
std::span<const OptionSpec> analyze_options() {
  return kAnalyze;
}
std::span<const OptionSpec> diff_options() {
  return kDiff;
}
std::span<const OptionSpec> replay_options() {
  return kReplay;
}
std::span<const OptionSpec> version_options() {
  return kVersion;
}

}  // namespace xpurun::launcher
