#include "launcher/options/command_table.h"

#include <algorithm>

namespace xpurun::launcher {

namespace {

std::vector<CommandSpec> make_table() {
  std::vector<CommandSpec> out{
      {.name = "run",
       .group = "Running",
       .summary = "run a command and supervise it (`run` may be left out)",
       .synopsis = {"xpurun [OPTION]... [--] COMMAND [ARGUMENT]...",
                    "xpurun run [OPTION]... [--] COMMAND [ARGUMENT]..."},
       .description = "Runs COMMAND and watches all its processes. When COMMAND hangs or crashes, xpurun "
                      "takes the Python and C++ stacks of every rank, names the culprit in one sentence and "
                      "writes one HTML report. Everything from the first word that is not an option, or "
                      "after --, is passed to COMMAND byte for byte.",
       .options = run_options(),
       .operands = Operands::program,
       .examples = {{"xpurun torchrun --nproc-per-node 8 train.py --lr 1e-4", "supervise a training job"},
                    {"xpurun --hang-timeout 5m --on-hang kill -- torchrun train.py",
                     "end it when it hangs (exit status 124)"},
                    {"xpurun --dump-signal USR2 --out /tmp/r1 -- python3 train.py",
                     "dump its stacks on kill -USR2"}},
       .manual = "xpurun-run(1)",
       .usage_status = 125},
      {.name = "now",
       .group = "Running",
       .summary = "say where the newest job on this host stands, at once",
       .synopsis = {"xpurun now [OPTION]..."},
       .description =
           "Finds the newest job of this user on this host, whether xpurun has started it or not: processes "
           "with the variables of torchrun, mpirun or srun, else the newest tree of Python processes with "
           "several workers. Takes the stacks of all its ranks and says which ranks stand still, where, and "
           "who waits for whom. Needs about three seconds; the job goes on. For another job: xpurun attach "
           "--now PID.",
       .options = now_options(),
       .examples = {{"xpurun now", "my job seems to hang: who, and where?"}},
       .manual = "xpurun-now(1)",
       .usage_status = 125},
      {.name = "attach",
       .group = "Running",
       .summary = "watch a job that already runs without xpurun",
       .synopsis = {"xpurun attach [OPTION]... PID...", "xpurun attach [OPTION]... --slurm-step JOB[.STEP]"},
       .description =
           "Watches the processes PID, or those of a Slurm step on this node, and all their descendants as "
           "run does, from now on: hangs, deaths, stacks, verdict, report, top and ctl. The job is not "
           "changed: nothing is loaded into it, signals to xpurun do not reach it, and Ctrl-C ends only the "
           "watch. Without the library in the training processes there are no exceptions, no calls of "
           "torch.distributed and no timing, and a crash has no stack. An exit status is known only until "
           "the parent collects it. Needs the right to trace the processes: as root, or as the same user "
           "where kernel.yama.ptrace_scope is 0.",
       .options = attach_options(),
       .operands = Operands::processes,
       .examples = {{"xpurun attach $(pgrep -o torchrun)", "all ranks of a torchrun job"},
                    {"xpurun attach --hang-timeout 1m 4711 4712", "two ranks without a common parent"},
                    {"xpurun attach --slurm-step 4242.0", "the ranks of a Slurm step on this node"},
                    {"xpurun attach --on-hang kill 4711", "end the job when it hangs (exit status 124)"}},
       .manual = "xpurun-attach(1)",
       .usage_status = 125},
      {.name = "report",
       .group = "Looking",
       .summary = "rebuild the verdict and the HTML report of a run directory",
       .synopsis = {"xpurun report [OPTION]... DIR", "xpurun report [OPTION]... DIR1 DIR2...",
                    "xpurun report --from FILE [--json]"},
       .description =
           "Reads the run directory DIR (or latest), prints the verdict, and writes verdict.json, "
           "report.json, report.html and stacks/ into it. Works on any machine, also for runs that were "
           "killed or are still live. DIR may also hold only dumps of PyTorch's Flight Recorder, one file "
           "per rank: the verdict then rests on these alone. Several run directories, those of the nodes of "
           "one job, give one report in DIR1/xpurun-report, or in the directory that --out names.",
       .options = report_options(),
       .operands = Operands::directories,
       .examples = {{"xpurun report latest", "the last run below ./xpurun-runs"},
                    {"xpurun report --json latest", "the verdict for a program"},
                    {"xpurun report /mnt/shared/job-17", "a run directory from elsewhere"},
                    {"xpurun report --out job17 node*", "one verdict on the nodes of a job"},
                    {"xpurun report /shared/nccl_traces", "Flight Recorder dumps of all ranks"},
                    {"xpurun report --format markdown latest", "for an issue or a chat"},
                    {"xpurun report --serve latest", "look at it from another machine"},
                    {"xpurun report --from report.html", "print a mailed report on the terminal"}},
       .manual = "xpurun-report(1)"},
      {.name = "stacks",
       .group = "Looking",
       .summary = "merge stack dumps, dump a live run, or read core files",
       .synopsis = {"xpurun stacks [OPTION]... PATH...", "xpurun stacks [OPTION]... --run DIR",
                    "xpurun stacks [OPTION]... --pid PID", "xpurun stacks [OPTION]... --core FILE [PROGRAM]"},
       .description =
           "Merges all stacks found below each PATH, which may have been copied together from several hosts, "
           "into flame graphs and text: dumps of xpurun, and files of py-spy, pystack, gdb, pstack, flame "
           "graph tools and xpu_timer. With --run, xpurun first dumps every process of that live run. With "
           "--pid, it dumps live processes, all at the same moment, and prints their stacks. With --core, it "
           "shows the processes of core files, the thread that got the signal first. For a run directory it "
           "uses the dump that the verdict rests on.",
       .options = stacks_options(),
       .operands = Operands::directories,
       .examples = {{"xpurun stacks --run latest", "where is every rank now?"},
                    {"xpurun stacks --pid 4711 --children", "any live process and its descendants"},
                    {"xpurun stacks --pid 4711 --samples 3", "which of its threads are stuck?"},
                    {"xpurun stacks --core core.4711", "what killed this process, and where?"},
                    {"xpurun stacks --format speedscope --out job.json dumps/1-hang",
                     "one dump, for speedscope"},
                    {"xpurun stacks --out merged host-a host-b", "dumps of two hosts in one picture"}},
       .manual = "xpurun-stacks(1)"},
      {.name = "analyze",
       .group = "Looking",
       .summary = "say which rank is slow, since when and why",
       .synopsis = {"xpurun analyze [OPTION]... [DIR...]"},
       .description =
           "Divides the run in DIR (default: latest) into training steps, without changes to the program, "
           "and says since which step the job is slower, which ranks keep the others waiting and why, and "
           "how much shorter a step would be without them. Names no rank if none is slow, and no step if the "
           "run has none. Tables of matmuls, collectives and memory operations follow. Several run "
           "directories, those of the nodes of one job, give one analysis.",
       .options = analyze_options(),
       .operands = Operands::directories,
       .examples = {{"xpurun analyze", "the last run below ./xpurun-runs"},
                    {"xpurun analyze --format json latest | jq .findings", "for a program"},
                    {"xpurun analyze --baseline before after", "and the differences from an earlier run"}},
       .manual = "xpurun-analyze(1)"},
      {.name = "diff",
       .group = "Looking",
       .summary = "say what became slower from one run to another",
       .synopsis = {"xpurun diff [OPTION]... A B",
                    "xpurun diff [OPTION]... --ranks-a LIST --ranks-b LIST DIR"},
       .description =
           "Compares the steps, their stages, matmuls, collectives, memory operations and calls of "
           "torch.distributed of two runs, or of two groups of ranks of one run. Says in one sentence what "
           "differs significantly, by how much and on which ranks, or that nothing does.",
       .options = diff_options(),
       .operands = Operands::directories,
       .examples = {{"xpurun diff xpurun-runs/before xpurun-runs/after", "what did the new version change?"},
                    {"xpurun diff --ranks-a 0-7 --ranks-b 8-15 latest",
                     "are the second host's ranks slower?"},
                    {"xpurun diff --format html -o changes.html before after", "a page with a plot"}},
       .manual = "xpurun-diff(1)"},
      {.name = "pipeline",
       .group = "Looking",
       .summary = "show the stages of a training pipeline and their bubbles",
       .synopsis = {"xpurun pipeline [OPTION]... [DIR]..."},
       .description =
           "Shows the forward, backward and optimizer jobs of each stage: how long it works, for which share "
           "of a step it is idle (bubbles), and which stage sets the pace. Reads run directories, and the "
           "logs of Paddle's schedule profiler (workerlog.N, also below machineK). Jobs come from marks of "
           "the program, from traced functions, or from sends, receives and backward passes.",
       .options = pipeline_options(),
       .operands = Operands::directories,
       .examples = {{"xpurun pipeline", "the last run below ./xpurun-runs"},
                    {"xpurun pipeline --groups tp2-dp2-pp4 latest", "which rank is which stage"},
                    {"xpurun pipeline --format svg -o pipeline.svg latest", "a picture"},
                    {"xpurun pipeline --format paddle log/",
                     "the files of Paddle's own tool, beside its logs"}},
       .manual = "xpurun-pipeline(1)"},
      {.name = "help",
       .group = "General",
       .summary = "explain a command",
       .synopsis = {"xpurun help [COMMAND]"},
       .description = "Prints the overview, or all options of COMMAND.",
       .options = help_options(),
       .operands = Operands::commands,
       .examples = {{"xpurun help run", "all options"}},
       .manual = "xpurun(1)"},
      {.name = "version",
       .group = "General",
       .summary = "print the version and what xpurun was built with",
       .synopsis = {"xpurun version [OPTION]..."},
       .description = "The first line is `xpurun` and the version; the rest is for bug reports.",
       .options = version_options(),
       .examples = {{"xpurun version", "the version"},
                    {"xpurun version --verbose", "also its parts, its formats and this host"}},
       .manual = "xpurun(1)"},
      {.name = "completions",
       .group = "General",
       .summary = "print the completion script for a shell",
       .synopsis = {"xpurun completions bash|zsh|fish"},
       .description = "After the command word, the scripts hand over to the command's own completion.",
       .options = plain_options(),
       .operands = Operands::shells,
       .examples = {{"source <(xpurun completions bash)", "for this bash"}},
       .manual = "xpurun(1)"},
  };
  const auto general =
      std::find_if(out.begin(), out.end(), [](const auto& c) { return c.group == "General"; });
  const std::vector<CommandSpec> tools = tool_commands();
  out.insert(general, tools.begin(), tools.end());
  return out;
}

}  // namespace

const std::vector<CommandSpec>& command_table() {
  static const std::vector<CommandSpec> table = make_table();
  return table;
}

const CommandSpec* find_command(std::string_view name) {
  for (const CommandSpec& c : command_table()) {
    if (c.name == name) {
      return &c;
    }
  }
  return nullptr;
}

}  // namespace xpurun::launcher
