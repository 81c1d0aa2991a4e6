// The commands that look after runs and hosts.
#include "launcher/options/command_table.h"

namespace xpurun::launcher {

std::vector<CommandSpec> tool_commands() {
  return {
      {.name = "top",
       .group = "Looking after",
       .summary = "watch the ranks of a live run",
       .synopsis = {"xpurun top [OPTION]... [DIR]"},
       .description =
           "Shows every rank of the run in DIR (default: latest): its state, the position of its main "
           "thread, "
           "the time since its last progress, and its CPU use. top asks the supervisor of that run and "
           "touches no rank. q quits.",
       .options = top_options(),
       .operands = Operands::directories,
       .examples = {{"xpurun top", "the last run below ./xpurun-runs"},
                    {"xpurun top --once /mnt/job-17", "one table, for a pipe"}},
       .manual = "xpurun-top(1)"},
      {.name = "query",
       .group = "Looking after",
       .summary = "ask questions in SQL about a run",
       .synopsis = {"xpurun query [OPTION]... SQL [DIR]...", "xpurun query [OPTION]... --ask NAME [DIR]...",
                    "xpurun query --list"},
       .description =
           "Puts the timed calls, the spans of the Python program, the steps, deaths, exceptions and stalls "
           "of the runs DIR (default: latest) into tables of an SQLite database in memory, and answers one "
           "SELECT statement, or one of the ready questions. DIR may be anything that xpurun timeline reads.",
       .options = query_options(),
       .operands = Operands::directories,
       .examples = {{"xpurun query --ask late", "which rank comes last to collectives?"},
                    {"xpurun query \"SELECT rank, avg(tflops) FROM calls GROUP BY rank\"", "any question"},
                    {"xpurun query --save run.sqlite latest", "for other programs"}},
       .manual = "xpurun-query(1)"},
      {.name = "memory",
       .group = "Looking after",
       .summary = "show who holds the memory of each rank",
       .synopsis = {"xpurun memory [OPTION]... [DIR|SNAPSHOT]...", "xpurun memory --now [OPTION]... [DIR]",
                    "xpurun memory --pid PID [OPTION]..."},
       .description =
           "Shows what holds the GPU memory, the tensors on the CPU and, on request, the Python objects of "
           "the ranks of the run DIR (default: latest): parameters, gradients, the state of the optimizer, "
           "activations and other tensors, with the variable that keeps them and, where allocations were "
           "recorded, the line that allocated them; what differs between the ranks, and what grows. A rank "
           "looks at its memory in its second step, every ten minutes, when its memory grows, when its GPU "
           "is nearly full, and when no memory is left. SNAPSHOT is a file of "
           "torch.cuda.memory._dump_snapshot().",
       .options = memory_options(),
       .operands = Operands::directories,
       .examples = {{"xpurun memory", "the last run below ./xpurun-runs"},
                    {"xpurun memory --now --steps 8", "ask the ranks of the live run"},
                    {"xpurun memory --flame memory.svg --compare 3", "rank 3 beside the others"},
                    {"xpurun memory snapshot.pickle", "a snapshot of PyTorch"}},
       .manual = "xpurun-memory(1)"},
      {.name = "record",
       .group = "Looking after",
       .summary = "profile live processes without stopping them",
       .synopsis = {"xpurun record [OPTION]... --run DIR", "xpurun record [OPTION]... --pid PID"},
       .description =
           "Samples the Python stacks of all ranks of a live run, or of any live processes, and shows where "
           "the time goes: as tables, as a flame graph, or for other tools. No process is stopped, so a "
           "stack "
           "that changed while it was read may be torn; such samples are left out and counted where they can "
           "be recognised. --compare says what one rank does that the others do not.",
       .options = record_options(),
       .examples = {{"xpurun record --run latest", "where do all ranks spend their time?"},
                    {"xpurun record --run latest --compare 2", "what does rank 2 do that the others do not?"},
                    {"xpurun record --pid 4711 --threads all -o profile.svg",
                     "a flame graph of one process"}},
       .manual = "xpurun-record(1)"},
      {.name = "capture",
       .group = "Looking after",
       .summary = "say where the ranks of a live run spend their time",
       .synopsis = {"xpurun capture [OPTION]..."},
       .description =
           "Samples the Python stacks of all ranks of this node and of the processes that they started, "
           "without stopping them, and says in which functions a rank spends more of its time than the "
           "others; with --node all, the ranks of all nodes. Meanwhile, ranks with a GPU also record every "
           "kernel, copy and call of the CUDA runtime through CUPTI, and the GPUs' clocks. The result stays "
           "in captures/ of the run directory, for xpurun analyze and the report. xpurun starts a capture "
           "by itself when the job has become slower (--slow-capture).",
       .options = capture_options(),
       .examples = {{"xpurun capture", "the next ten seconds of the latest run"},
                    {"xpurun capture --steps 20 --run /mnt/job-17", "as long as twenty steps take"},
                    {"xpurun capture --node all", "all nodes of the job"}},
       .manual = "xpurun-capture(1)"},
      {.name = "ctl",
       .group = "Looking after",
       .summary = "send a request to the supervisor of a live run",
       .synopsis = {"xpurun ctl [OPTION]... [status]", "xpurun ctl [OPTION]... timing off|light|full",
                    "xpurun ctl [OPTION]... dump", "xpurun ctl [OPTION]... trace",
                    "xpurun ctl [OPTION]... trace-python add|remove NAME...",
                    "xpurun ctl [OPTION]... trace-python [list]", "xpurun ctl [OPTION]... reset"},
       .description =
           "status: the ranks, as in top. timing: the timing level from now on. dump: the stacks of every "
           "process. trace: record the next timed calls of every rank in event files; meanwhile, the timing "
           "level is full. trace-python: the Python functions whose calls are recorded from now on, named as "
           "for --trace-python. reset: end a trace and return to the timing level of the command line.",
       .options = ctl_options(),
       .operands = Operands::actions,
       .actions = "status timing=off,light,full dump trace trace-python=add,remove,list reset",
       .examples = {{"xpurun ctl timing full", "time more calls of the last run below ./xpurun-runs"},
                    {"xpurun ctl trace --count 5000 --at +10s", "five thousand calls of each rank"},
                    {"xpurun ctl trace-python add train:collate", "each call of collate() from now on"},
                    {"xpurun ctl dump --run /mnt/job-17", "where is every rank?"},
                    {"xpurun ctl dump --node all", "the same on all nodes of the job"}},
       .manual = "xpurun-ctl(1)"},
      {.name = "nodes",
       .group = "Looking after",
       .summary = "list the nodes of a live job",
       .synopsis = {"xpurun nodes [OPTION]... [DIR]"},
       .description =
           "Shows every node of the job of the live run in DIR (default: latest), as this node knows it: the "
           "state of its ranks, the age of its latest message, the difference of its clock, and which node "
           "judges. The nodes of a job know each other if its xpuruns run with --nats.",
       .options = nodes_options(),
       .operands = Operands::directories,
       .examples = {{"xpurun nodes", "the last run below ./xpurun-runs"},
                    {"xpurun nodes --json /mnt/job-17", "for a program"}},
       .manual = "xpurun-nodes(1)"},
      {.name = "runs",
       .group = "Looking after",
       .summary = "list, show and remove run directories",
       .synopsis = {"xpurun runs [OPTION]... [list]", "xpurun runs [OPTION]... show [RUN]",
                    "xpurun runs [OPTION]... prune --keep N | --older-than DURATION | --max-size SIZE"},
       .description =
           "Lists the runs below xpurun-runs, shows one run (an id, a directory or latest), or removes old "
           "runs. "
           "prune prints what it will remove and asks first. It never removes a live run or anything that "
           "is not a run directory, and follows no links.",
       .options = runs_options(),
       .operands = Operands::actions,
       .actions = "list=@ show=@ prune=@",
       .examples = {{"xpurun runs", "the runs of this directory and how they ended"},
                    {"xpurun runs show latest", "one run"},
                    {"xpurun runs prune --older-than 14d --dry-run", "which runs are older than two weeks"},
                    {"xpurun runs prune --keep 20 --max-size 10G --yes", "for a cron job"}},
       .manual = "xpurun-runs(1)"},
      {.name = "events",
       .group = "Looking after",
       .summary = "print the timed calls and stages of each rank",
       .synopsis = {"xpurun events [OPTION]... FILE|DIR..."},
       .description =
           "Prints each call of the event files that --timing and `xpurun ctl trace` write: begin, duration, "
           "stream, function and arguments. Prints each span of the span files: begin, duration, CPU time, "
           "stage of the step, function and place. For a directory, such as a run directory, prints every "
           "such file below it. A truncated file is printed up to the end of its last block.",
       .options = events_options(),
       .operands = Operands::directories,
       .examples = {{"xpurun events xpurun-runs/latest/ranks/3", "the timed calls of rank 3"},
                    {"xpurun events --json rank-0.xev | jq .duration_ns", "for a program"}},
       .manual = "xpurun-events(1)"},
      {.name = "timeline",
       .group = "Looking after",
       .summary = "make a trace of all ranks for Perfetto",
       .synopsis = {"xpurun timeline [OPTION]... [DIR|FILE]..."},
       .description =
           "Puts the timed calls and spans of all ranks on one time line: a trace for ui.perfetto.dev, or "
           "JSON for each rank as torch.profiler writes it. Reads run directories (several hosts), "
           "directories of `xpurun ctl trace`, event files, and the traces of xpu_timer and torch.profiler. "
           "The clocks of the hosts are aligned by the ends of common collectives. A damaged file is named "
           "and left out, or shown up to the damage; the exit status is then 1.",
       .options = timeline_options(),
       .operands = Operands::directories,
       .examples = {{"xpurun timeline", "the last run below ./xpurun-runs"},
                    {"xpurun timeline --compress -o job.gz node*/latest", "all hosts of a job"},
                    {"xpurun timeline --groups tp8-dp4-pp2 --first-group --time 60:70 DIR",
                     "ten seconds of one group of each type"},
                    {"xpurun timeline --format chrome -o json/ xpurun-runs/latest/traces/1",
                     "for HolisticTraceAnalysis"}},
       .manual = "xpurun-timeline(1)"},
      {.name = "replay",
       .group = "Looking after",
       .summary = "repeat the matmuls of a run on this machine's GPU",
       .synopsis = {"xpurun replay [OPTION]... [DIR]..."},
       .description =
           "Repeats the matmuls that took the most time in the run DIR (default: latest) on a GPU of this "
           "machine, through cuBLAS and cuBLASLt, with the same shapes, types, transposes and epilogues, and "
           "prints for each the speed in the run and in the replay. Says which ranks of the run are slower "
           "than the others, and whether all are slower than this GPU.",
       .options = replay_options(),
       .operands = Operands::directories,
       .examples = {{"xpurun replay", "the last run below ./xpurun-runs"},
                    {"xpurun replay --collectives --top 20 /mnt/job-17", "also the speed of NCCL here"},
                    {"xpurun replay --ranks 3 --device 3 latest", "the GPU of rank 3, on its own host"}},
       .manual = "xpurun-replay(1)"},
      {.name = "doctor",
       .group = "Looking after",
       .summary = "check that xpurun can work on this host",
       .synopsis = {"xpurun doctor [OPTION]... [--] [COMMAND [ARGUMENT]...]"},
       .description =
           "Attaches to a test process, preloads the library, reads a Python process, and checks "
           "the limits, the container, the GPU driver and NCCL. Each line says ok, warn or fail, "
           "what is lost and what to do. With COMMAND, also checks that the library reaches "
           "COMMAND and which Python it uses; COMMAND is not run. With --burn, the GPUs of this host "
           "work for a while and are compared with each other.",
       .options = doctor_options(),
       .operands = Operands::program,
       .examples = {{"xpurun doctor", "check this host"},
                    {"xpurun doctor -- torchrun train.py", "check this host and this command"},
                    {"xpurun doctor --burn 60s", "is a GPU of this host slower than the others, or wrong?"},
                    {"xpurun doctor --json",
                     "for a program, such as `srun --ntasks-per-node=1` over all nodes"}},
       .manual = "xpurun-doctor(1)"},
      {.name = "selftest",
       .group = "Looking after",
       .summary = "inject faults into a small job and check the verdicts",
       .synopsis = {"xpurun selftest [OPTION]... [--] [PYTHON [ARGUMENT]...]"},
       .description = "Runs a small training job under xpurun repeatedly, each time with another fault: "
                      "ranks wait in different collectives, stand still, crash or are killed. Compares kind, "
                      "ranks and place of each verdict with the expected verdict and prints the seconds from "
                      "the fault to the verdict. PYTHON is an interpreter that has torch; default: python3. "
                      "A fault that cannot be injected here is skipped.",
       .options = selftest_options(),
       .operands = Operands::program,
       .examples = {{"xpurun selftest", "all faults that need no GPU, in a minute or two"},
                    {"xpurun selftest --gpu", "with NCCL, on the GPUs of this host"},
                    {"xpurun selftest --inject wrong-size --keep", "one fault, and its run directory"},
                    {"xpurun selftest -- /opt/venv/bin/python", "the torch of another Python"}},
       .manual = "xpurun-selftest(1)"},
      {.name = "env",
       .group = "Looking after",
       .summary = "show every option of run, its value and where the value was set",
       .synopsis = {"xpurun env [OPTION]..."},
       .description =
           "Shows the settings that `xpurun run` would use here, from the environment, ./xpurun.conf, the "
           "user's xpurun.conf or the defaults, and names unknown XPURUN_* variables. To run the program env "
           "under xpurun: xpurun -- env ...",
       .options = env_options(),
       .examples = {{"xpurun env", "the settings and their sources"}},
       .manual = "xpurun-env(1)"},
  };
}

}  // namespace xpurun::launcher
