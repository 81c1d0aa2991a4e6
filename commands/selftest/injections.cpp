// The table of injections. The sentences' words for calls that differ are what the ranks passed: op, count,
// type.
#include "commands/selftest/injection.h"

#include <algorithm>
#include <csignal>

namespace xpurun::launcher {

namespace {

// Marks of the lines where a rank of NCCL waits for its GPU, after any collective.
constexpr std::string_view kGpuWait = "wait";

Expectation healthy() {
  return {.ids = {"none.finished"}, .blame = Blame::nobody};
}

Expectation outside_collective(std::string_view place, std::string_view id = "hang.stuck") {
  return {.ids = {id}, .places = {place}};
}

Expectation other_call(std::string_view place, std::vector<std::string_view> ids,
                       std::vector<std::string_view> words) {
  return {.ids = std::move(ids),
          .blame = Blame::minority,
          .places = {place, kGpuWait},
          .words = std::move(words)};
}

// What gloo does with a message that it did not expect: it waits, aborts, or raises an error in the peer.
std::vector<std::string_view> gloo_ends(std::string_view hang) {
  return {hang, "crash.mismatch", "exit.mismatch"};
}

Expectation killed_by(int signal, std::string_view place, std::vector<std::string_view> words) {
  return {.ids = {signal == SIGKILL ? "crash.killed" : "crash.signal"},
          .places = place.empty() ? std::vector<std::string_view>{} : std::vector{place},
          .words = std::move(words),
          .signal = signal};
}

Expectation raised(std::string_view place, std::vector<std::string_view> words) {
  return {.ids = {"exit.exception"}, .places = {place}, .words = std::move(words)};
}

std::vector<Injection> healthy_jobs() {
  return {
      {.name = "healthy",
       .summary = "no fault; one rank is five times slower than the others",
       .recovers = true,
       // In a run that is long enough for a verdict on its speed, the rank is named as slow.
       .expected = {.ids = {"none.finished", "slow.rank"}, .blame = Blame::at_most}},
      {.name = "late-enters",
       .summary = "a rank enters the collective after the hang timeout",
       .recovers = true,
       .expected = healthy()},
  };
}

std::vector<Injection> collectives() {
  return {
      {.name = "never-enters",
       .summary = "a rank sleeps and never enters the collective",
       .expected = outside_collective("never-enters")},
      {.name = "fewer-batches",
       .summary = "a rank has fewer batches and goes to the last barrier",
       .expected = other_call("finish", {"hang.mismatch"}, {"barrier", "all_reduce"})},
      {.name = "skipped-branch",
       .summary = "a rank skips an all_gather",
       .expected = other_call("average-gradients", {"hang.mismatch"}, {"all_reduce", "all_gather"})},
      {.name = "wrong-size",
       .summary = "a rank reduces 1000 elements, the others more",
       .expected = other_call("wrong-size", gloo_ends("hang.mismatch_size"), {"all_reduce", "1000", "4096"}),
       .expected_on_gpu =
           other_call("wrong-size", {"hang.mismatch_size"}, {"all_reduce", "1000", "4194304"})},
      {.name = "wrong-type",
       .summary = "a rank reduces float64, the others float32",
       .expected =
           other_call("wrong-type", gloo_ends("hang.mismatch_type"), {"all_reduce", "float64", "float32"})},
      {.name = "wrong-op",
       .summary = "a rank broadcasts, the others reduce",
       .expected = other_call("wrong-op", gloo_ends("hang.mismatch"), {"broadcast", "all_reduce"})},
      {.name = "wrong-root",
       .summary = "a rank broadcasts from another root",
       .expected = other_call("wrong-root", {"hang.mismatch_root"}, {"broadcast", "root 0"})},
      {.name = "communicator-order",
       .summary = "a rank uses two communicators in the other order",
       .expected = other_call("communicator-order", {"hang.order"}, {"all_reduce"})},
      {.name = "missing-send",
       .summary = "a rank does not send what its peer receives",
       .expected = {.ids = {"hang.p2p"},
                    .places = {"average-gradients", kGpuWait},
                    .words = {"recv", "send"}}},
      {.name = "lazy-new-group",
       .summary = "a rank does not call new_group with the others",
       .expected = other_call("average-gradients", {"hang.mismatch", "hang.not_entered"},
                              {"new_group", "all_reduce"})},
      {.name = "extra-call",
       .summary = "a rank makes one call of equal shape more",
       .expected = {.ids = {"hang.mismatch", "hang.mismatch_size", "crash.mismatch", "exit.mismatch"},
                    .places = {"metrics-loop", "average-gradients", kGpuWait},
                    .words = {"all_reduce"}}},
      {.name = "skipped-call",
       .summary = "a rank leaves out one of many equal calls",
       .expected = {.ids = {"hang.mismatch", "hang.mismatch_size", "crash.mismatch", "exit.mismatch"},
                    .places = {"skipped-call", "average-gradients", kGpuWait},
                    .words = {"all_reduce"}}},
      {.name = "silent-mismatch",
       .summary = "a rank reduces another type of equal size: nothing hangs, and the data are wrong",
       .recovers = true,
       .expected = {.ids = {"mismatch.silent"},
                    .places = {"silent-mismatch"},
                    .words = {"all_reduce", "int32", "float32"}}},
      {.name = "uneven-all-to-all",
       .summary = "a rank sends its peers more than they expect",
       .expected = {.ids = gloo_ends("hang.mismatch_size"),
                    .places = {"uneven-all-to-all", kGpuWait},
                    .words = {"all_to_all", "12 to rank", "8 expected"}}},
      {.name = "backend-timeout",
       .summary = "the backend of the others gives up while a rank sleeps",
       // Where ranks that have raised need as long to end as the hang timeout, xpurun ends the job before
       // them.
       .expected = {.ids = {"exit.not_entered", "hang.stuck"},
                    .places = {"backend-timeout"},
                    .words = {"all_reduce"}}},
      {.name = "ghost-rank",
       .summary = "a rank is never started",
       .expected = {.ids = {"hang.not_joined"}, .words = {"was never started"}}},
      {.name = "wrong-group-list",
       .summary = "a rank creates a group with another list of ranks",
       .ranks = 4,
       .least_ranks = 4,
       .expected = other_call("wrong-group-list", {"hang.mismatch"}, {"new_group", "of ranks"}),
       // NCCL may find the connection of another group, and fail.
       .expected_on_gpu =
           other_call("wrong-group-list", {"hang.mismatch", "exit.mismatch"}, {"new_group", "of ranks"})},
      {.name = "send-send",
       .summary = "two ranks receive from each other before they send",
       .expected = {.ids = {"hang.p2p", "hang.not_entered"},
                    .blame = Blame::nobody,
                    .words = {"recv", "has not called the send"}},
       .expected_on_gpu = Expectation{.ids = {"hang.p2p", "hang.not_entered"},
                                      .blame = Blame::nobody,
                                      .words = {"recv", "before their sends"}}},
      {.name = "nested-groups",
       .summary = "ranks of tensor and data groups wait for each other and for one rank",
       .ranks = 4,
       .least_ranks = 4,
       .expected = outside_collective("nested-groups")},
      {.name = "store-never-reached",
       .summary = "rank 0 stops before it serves the store",
       .culprit = 0,
       .expected = outside_collective("store-never-reached")},
      {.name = "store-key-never-set",
       .summary = "a rank waits in the store for a key that nobody sets",
       .ranks = 3,
       .least_ranks = 3,  // of two, the other one is the only rank that can set the key
       .expected = {.ids = {"hang.p2p"},
                    .blame = Blame::nobody,
                    .words = {"key shards of the store", "no rank has set"}}},
  };
}

std::vector<Injection> standing_still() {
  return {
      {.name = "stopped",
       .summary = "a rank is stopped by SIGSTOP",
       .ranks = 2,
       .expected = outside_collective("stopped", "hang.stopped")},
      {.name = "gil-in-c",
       .summary = "a thread holds the GIL in C, the main thread waits for it",
       .ranks = 2,
       .expected = {.ids = {"hang.stuck"}, .places = {"gil-in-c"}, .words = {"holds the GIL"}}},
      {.name = "lock-order",
       .summary = "two threads take two locks in opposite order",
       .ranks = 2,
       .expected = {.ids = {"hang.lock"},
                    .places = {"lock-order"},
                    .words = {"save_checkpoint", "flush_metrics"}}},
      {.name = "dead-feeder",
       .summary = "the thread that feeds a queue has ended",
       .ranks = 2,
       .expected = outside_collective("dead-feeder", "hang.lock")},
      {.name = "stuck-worker",
       .summary = "a dataloader worker reads forever",
       .ranks = 2,
       .expected = {.ids = {"hang.lock"},
                    .places = {"read-sample"},
                    .words = {"dataloader worker pid", "read_sample"}}},
      {.name = "blocked-read",
       .summary = "a rank reads a FIFO that nobody writes to",
       .ranks = 2,
       .expected = outside_collective("blocked-read")},
      {.name = "blocked-write",
       .summary = "a rank writes to a full pipe",
       .ranks = 2,
       .expected = outside_collective("blocked-write")},
      {.name = "python-loop",
       .summary = "an endless loop in Python",
       .ranks = 2,
       .expected = outside_collective("python-loop", "hang.busy")},
      {.name = "c-loop",
       .summary = "an endless loop in C",
       .ranks = 2,
       .expected = outside_collective("c-loop", "hang.busy")},
      {.name = "native-spin",
       .summary = "a spin lock in C that is never given back",
       .ranks = 2,
       .expected = {.ids = {"hang.stuck"}, .places = {"native-spin"}, .words = {"spun"}}},
  };
}

std::vector<Injection> on_the_gpu() {
  return {
      {.name = "endless-kernel",
       .summary = "a rank waits for a kernel of its own that never ends",
       .needs_gpu = true,
       .expected = outside_collective("endless-kernel", "hang.kernel")},
      {.name = "stuck-before-launch",
       .summary = "the collective is queued behind a kernel that never ends",
       .needs_gpu = true,
       .expected = {.ids = {"hang.kernel", "hang.queued", "hang.not_launched"},
                    .places = {"stuck-before-launch", kGpuWait}}},
      {.name = "kernel-before-collective",
       .summary = "all ranks have launched their collectives; between those of a rank, a kernel never ends",
       .needs_gpu = true,
       .expected = {.ids = {"hang.kernel", "hang.queued"}, .places = {"kernel-before-collective", kGpuWait}}},
      {.name = "cuda-oom",
       .summary = "a rank asks for more GPU memory than there is",
       .needs_gpu = true,
       .expected = raised("cuda-oom", {"CUDA out of memory"})},
      {.name = "device-assert",
       .summary = "a kernel fails an assertion",
       .needs_gpu = true,
       .expected = raised("device-assert", {"device-side assert"})},
  };
}

std::vector<Injection> failing() {
  return {
      {.name = "exception",
       .summary = "an exception ends a rank",
       .ranks = 2,
       .expected = raised("exception", {"KeyError: 'label'", "collate"})},
      {.name = "thread-exception",
       .summary = "an exception ends a thread that the main thread waits for",
       .ranks = 2,
       .expected = {.ids = {"hang.lock"},
                    .places = {"thread-exception"},
                    .words = {"ValueError: shard 17 is truncated"}}},
      {.name = "swallowed-exception",
       .summary = "what cleans up after an exception hangs",
       .ranks = 2,
       .expected = {.ids = {"hang.stuck"},
                    .places = {"swallowed-exception"},
                    .evidence = {"ValueError: record 17 is damaged"}}},
      {.name = "exit-status",
       .summary = "a rank calls sys.exit with a text",
       .ranks = 2,
       .expected = {.ids = {"exit.error"}, .words = {"no such data set"}}},
      {.name = "early-exit",
       .summary = "a rank exits with status 0 before the others",
       .ranks = 2,
       .expected = {.ids = {"exit.left_early"}},
       .expected_on_gpu = Expectation{.ids = {"hang.left_early"}}},
      {.name = "segv",
       .summary = "a null pointer in a C++ library",
       .ranks = 2,
       .expected = killed_by(SIGSEGV, "segv", {"SIGSEGV"})},
      {.name = "terminate",
       .summary = "a C++ exception that nobody catches",
       .ranks = 2,
       .expected = killed_by(SIGABRT, "terminate", {"std::runtime_error", "tokenizer table is damaged"})},
      {.name = "abort",
       .summary = "a rank says why and calls abort",
       .ranks = 2,
       .expected = {.ids = {"crash.signal"},
                    .places = {"abort"},
                    .evidence = {"the table of merges is damaged"},
                    .signal = SIGABRT}},
      {.name = "rank-killed",
       .summary = "a rank dies of SIGKILL",
       .ranks = 2,
       .expected = killed_by(SIGKILL, "", {"SIGKILL"})},
      {.name = "oom-kill",
       .summary = "the kernel kills a rank at a limit of memory, or else of CPU time",
       .ranks = 2,
       .expected = killed_by(SIGKILL, "", {"SIGKILL"})},
  };
}

std::vector<Injection> in_native_programs() {
  return {
      {.name = "mpi-ring",
       .summary = "ranks of MPI send large messages in a ring before they receive",
       .least_ranks = 3,
       .needs_mpi = true,
       .expected = {.ids = {"hang.p2p"}, .blame = Blame::nobody, .words = {"MPI_Send", "mpi_faults.py"}}},
      {.name = "mpi-missing-collective",
       .summary = "a rank of MPI calls another collective",
       .least_ranks = 3,
       .needs_mpi = true,
       .expected = {.ids = {"hang.mismatch"},
                    .places = {"mpi-missing-collective"},
                    .words = {"MPI_Barrier", "MPI_Allreduce"}}},
      {.name = "mpi-window-lock",
       .summary = "a rank of MPI waits for the lock of a window, whose holder waits for that rank",
       .least_ranks = 3,
       .culprit = 0,
       .needs_mpi = true,
       .expected = {.ids = {"hang.order"}, .words = {"MPI_Win_lock", "a lock that rank 0 holds"}}},
  };
}

std::vector<Injection> make_table() {
  std::vector<Injection> out;
  for (const auto part :
       {healthy_jobs, collectives, standing_still, on_the_gpu, in_native_programs, failing, slow_jobs}) {
    for (Injection& injection : part()) {
      out.push_back(std::move(injection));
    }
  }
  return out;
}

}  // namespace

const std::vector<Injection>& injections() {
  static const std::vector<Injection> table = make_table();
  return table;
}

const Injection* find_injection(std::string_view name) {
  const auto& all = injections();
  const auto at = std::find_if(all.begin(), all.end(), [&](const Injection& i) { return i.name == name; });
  return at == all.end() ? nullptr : &*at;
}

model::RankSet blamed(const Injection& injection, const Expectation& expected, int ranks) {
  switch (expected.blame) {
    case Blame::nobody:
    case Blame::at_most:
      return {};
    case Blame::culprit:
      return {injection.culprit};
    case Blame::minority:
      return ranks > 2 ? model::RankSet{injection.culprit} : model::RankSet();
  }
  return {};
}

}  // namespace xpurun::launcher
