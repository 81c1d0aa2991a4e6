// The commands that look after runs and hosts.
#include "launcher/cli/command_table.h"

namespace xpurun::launcher {

std::vector<CommandSpec> tool_commands() {
  return {
      {.name = "top",
       .group = "Looking after",
       .summary = "watch the ranks of a run that is going on",
       .synopsis = {"xpurun top [OPTION]... [DIR]"},
       .description =
           "Shows every rank of the run in DIR (latest, unless another is named): its state, where its main "
           "thread is, for how long it has not moved and how much CPU it uses. It asks the xpurun of that "
           "run "
           "and touches no rank. q quits.",
       .options = top_options(),
       .operands = Operands::directories,
       .examples = {{"xpurun top", "the last run below ./xpurun-runs"},
                    {"xpurun top --once /mnt/job-17", "one table, for a pipe"}},
       .manual = "xpurun-top(1)"},
      {.name = "ctl",
       .group = "Looking after",
       .summary = "ask the xpurun of a run that is going on",
       .synopsis = {"xpurun ctl [OPTION]... [status]", "xpurun ctl [OPTION]... timing off|light|full",
                    "xpurun ctl [OPTION]... dump", "xpurun ctl [OPTION]... trace",
                    "xpurun ctl [OPTION]... reset"},
       .description =
           "status: the ranks, as in top. timing: how much ranks that use a GPU time from now on. dump: the "
           "stacks of every process. trace: the next timed calls of every rank, from one moment on, into "
           "event files; timing is full meanwhile. reset: ends a trace and puts the level of timing back to "
           "that of the command line.",
       .options = ctl_options(),
       .operands = Operands::actions,
       .actions = "status timing dump trace reset off light full",
       .examples = {{"xpurun ctl timing full", "time more calls of the last run below ./xpurun-runs"},
                    {"xpurun ctl trace --count 5000 --at +10s", "five thousand calls of each rank"},
                    {"xpurun ctl dump --run /mnt/job-17", "where is everybody?"}},
       .manual = "xpurun-ctl(1)"},
      {.name = "runs",
       .group = "Looking after",
       .summary = "list, show and remove run directories",
       .synopsis = {"xpurun runs [OPTION]... [list]", "xpurun runs [OPTION]... show [RUN]",
                    "xpurun runs [OPTION]... prune --keep N | --older-than DURATION | --max-size SIZE"},
       .description =
           "Lists the runs below xpurun-runs, shows what is known of one (an id, a directory or latest), or "
           "removes old ones. prune says what it will remove and asks first. It never removes a run whose "
           "xpurun or processes still live, nor anything that is not a run directory, and follows no links.",
       .options = runs_options(),
       .operands = Operands::actions,
       .actions = "list show prune",
       .examples = {{"xpurun runs", "what has been run here, and how it ended"},
                    {"xpurun runs show latest", "one run"},
                    {"xpurun runs prune --older-than 14d --dry-run", "what two weeks would remove"},
                    {"xpurun runs prune --keep 20 --max-size 10G --yes", "for a cron job"}},
       .manual = "xpurun-runs(1)"},
      {.name = "doctor",
       .group = "Looking after",
       .summary = "try out what xpurun needs on this host",
       .synopsis = {"xpurun doctor [OPTION]... [--] [COMMAND [ARGUMENT]...]"},
       .description =
           "Really attaches to a process, really preloads the library, really reads a Python, and looks at "
           "the "
           "limits, the container, the GPU driver and NCCL. Every line says ok, warn or fail, what is lost "
           "and "
           "what to do. With COMMAND, also looks whether the library reaches it and which Python it uses; "
           "COMMAND is not run.",
       .options = doctor_options(),
       .operands = Operands::program,
       .examples = {{"xpurun doctor", "is this host fit?"},
                    {"xpurun doctor -- torchrun train.py", "and for this command?"},
                    {"xpurun doctor --json",
                     "for a program, such as `srun --ntasks-per-node=1` over all nodes"}},
       .manual = "xpurun-doctor(1)"},
      {.name = "env",
       .group = "Looking after",
       .summary = "show every option of run, its value and where that was set",
       .synopsis = {"xpurun env [OPTION]..."},
       .description =
           "Shows what `xpurun run` would use here: from the environment, ./xpurun.conf, the user's "
           "xpurun.conf or the defaults, and which variables XPURUN_* it does not know. To run the program "
           "env under xpurun: xpurun -- env ...",
       .options = env_options(),
       .examples = {{"xpurun env", "what counts, and why"}},
       .manual = "xpurun-env(1)"},
  };
}

}  // namespace xpurun::launcher
