#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::RankSet;
using model::Verdict;

TEST_CASE("a rank that sleeps while the others are in all_reduce is named with its line") {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_sleep()).hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.sentence ==
        "hang: rank 2 has been in load_batch (train.py:31: time.sleep) for 10 s; "
        "ranks 0-1,3 wait for it in all_reduce (train.py:44)");
  CHECK(v.id == "hang.stuck");
  CHECK(v.kind == model::VerdictKind::hang);
  CHECK(v.level == model::VerdictLevel::confirmed);
  CHECK(v.state == model::RankState::stuck);
  CHECK(v.confidence == model::Confidence::high);
  CHECK(v.ranks == RankSet{2});
  CHECK(v.pid == 102);
  CHECK(v.host == "a");
  CHECK(v.where.function == "load_batch");
  CHECK(v.where.line == 31);
  CHECK(v.where.callee == "time.sleep");
  CHECK(v.seconds == 10);
  CHECK(v.dump == "dumps/1-hang");
  CHECK(v.next.empty());  // the sentence has said it; the report adds how to see the stacks
  REQUIRE(v.waiting.size() == 1);
  CHECK(v.waiting[0].ranks == RankSet{0, 1, 3});
  CHECK(v.waiting[0].what == "all_reduce");
  CHECK(v.waiting[0].where.line == 44);
}

TEST_CASE("rank 0 can be the culprit like any other rank") {
  Job job(4);
  job.all(in_all_reduce()).rank(0, in_sleep()).hang_dump();
  CHECK(diagnose(job.facts).ranks == RankSet{0});
}

TEST_CASE("a DDP backward pass on gloo is a wait although no Python frame says so") {
  Job job(4);
  job.all(in_ddp_backward()).rank(3, in_sleep()).hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{3});
  REQUIRE(v.waiting.size() == 1);
  CHECK(v.waiting[0].what == "backward (all_reduce)");
  CHECK(v.sentence.ends_with("ranks 0-2 wait for it in backward (all_reduce) at train.py:40"));
}

TEST_CASE("a backward pass without native frames is a wait if it uses no CPU, else work") {
  Stack backward = in_ddp_backward();
  std::erase_if(backward, [](const auto& f) { return f.kind == model::FrameKind::native; });
  Job idle(2);
  idle.all(backward).rank(1, in_sleep()).hang_dump();
  CHECK(diagnose(idle.facts).ranks == RankSet{1});
  Job working(2);
  working.all(in_all_reduce()).rank(1, backward).cpu(1, 1).hang_dump();
  CHECK(diagnose(working.facts).id == "hang.busy");
}

namespace {

Stack in_kernel(const std::string& name) {
  model::Frame kernel{.kind = model::FrameKind::gpu, .func = name, .module = "GPU 0"};
  return {kernel, native("cudaStreamSynchronize", "libcudart.so.13"),
          py("train", "train.py", 50, "loss.item")};
}

}  // namespace

TEST_CASE("the running GPU kernel distinguishes a wait for peers from endless work") {
  const Stack in_nccl = in_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL");
  Job peers(3);
  peers.all(in_nccl).cpu(0, 1).cpu(2, 1).rank(1, in_sleep()).hang_dump();
  const Verdict v = diagnose(peers.facts);
  CHECK(v.ranks == RankSet{1});
  REQUIRE(v.waiting.size() == 1);
  CHECK(v.waiting[0].what == "GPU synchronize (all_reduce)");

  Stack beside = in_nccl;
  beside.insert(beside.begin(), in_kernel("elementwise_kernel").front());
  Job overlapped(3);
  overlapped.all(beside).rank(1, in_sleep()).hang_dump();
  CHECK(diagnose(overlapped.facts).ranks == RankSet{1});
  CHECK(diagnose(overlapped.facts).waiting[0].what == "GPU synchronize (all_reduce)");

  Job own(3);
  own.all(in_nccl).rank(1, in_kernel("flash_fwd_kernel")).cpu(1, 1).hang_dump();
  const Verdict stuck = diagnose(own.facts);
  CHECK(stuck.ranks == RankSet{1});
  CHECK(stuck.id == "hang.kernel");
  CHECK(stuck.sentence.find("waiting for a kernel flash_fwd_kernel on GPU 0 in train") != std::string::npos);
}

TEST_CASE("two culprits at one position share a clause, at two positions each gets its own") {
  Job same(8);
  same.all(in_all_reduce()).rank(2, in_sleep()).rank(5, in_sleep()).hang_dump();
  CHECK(diagnose(same.facts).sentence.starts_with("hang: ranks 2,5 have been in load_batch"));
  Job different(8);
  different.all(in_all_reduce()).rank(2, in_sleep()).rank(5, in_lock()).hang_dump();
  const Verdict v = diagnose(different.facts);
  CHECK(v.ranks == RankSet{2, 5});
  CHECK(v.sentence.find(", and rank 5 has been waiting for a lock in save_state") != std::string::npos);
  CHECK(v.sentence.find("wait for them in all_reduce") != std::string::npos);
}

TEST_CASE("an endless loop is busy: suspected at first, confirmed once the stall was escalated") {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_compute(), 0.1).cpu(2, 1).hang_dump();
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.busy");
  CHECK(v.kind == model::VerdictKind::hang);
  CHECK(v.level == model::VerdictLevel::suspected);
  CHECK(v.state == model::RankState::busy);
  CHECK(v.seconds == 10);
  CHECK(v.sentence ==
        "stall: rank 2 is still working in compute (train.py:12) after 10 s; "
        "ranks 0-1,3 wait for it in all_reduce (train.py:44)");
  job.facts.dump->escalated = true;
  v = diagnose(job.facts);
  CHECK(v.level == model::VerdictLevel::confirmed);
  CHECK(v.sentence.starts_with("hang: rank 2 has been busy in compute (train.py:12) for 10 s;"));
}

TEST_CASE("writing a checkpoint is work, even in uninterruptible sleep") {
  Job job(4);
  job.all(in_barrier()).rank(0, in_compute()).io(0, 200e6).kernel_state(0, 'D').hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.busy");
  CHECK(v.ranks == RankSet{0});
}

TEST_CASE("a spinning NCCL wait is a wait") {
  Stack nccl = {native("ncclGroupEnd", "libnccl.so.2"), py("step", "/home/u/train.py", 44)};
  Job job(2);
  job.all(nccl).cpu(0, 1).rank(1, in_sleep()).hang_dump();
  CHECK(diagnose(job.facts).ranks == RankSet{1});
}

TEST_CASE("a rank whose Python frames the dump had no time for is where the last sample saw it") {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_sleep());
  job.seen(2).function = "load_batch";
  job.seen(2).file = "/home/u/data.py";
  job.seen(2).line = 31;
  model::ProcessStacks& stacks = job.stacks_of(2);
  stacks.threads[0].frames = {native("clock_nanosleep", "libc.so.6"),
                              native("PyObject_Vectorcall", "python3.11")};
  CHECK(diagnose(job.facts).where.function == "PyObject_Vectorcall");
  stacks.status = model::DumpStatus::partial;
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{2});
  CHECK((v.where.function == "load_batch" && v.where.file == "/home/u/data.py" && v.where.line == 31));
}

TEST_CASE("a stopped rank, also one stopped inside the collective") {
  for (const Stack& stack : {in_sleep(), in_all_reduce()}) {
    Job job(4);
    job.all(in_all_reduce()).rank(1, stack).kernel_state(1, 'T').hang_dump();
    const Verdict v = diagnose(job.facts);
    CHECK(v.id == "hang.stopped");
    CHECK(v.state == model::RankState::stopped);
    CHECK(v.level == model::VerdictLevel::confirmed);
    CHECK(v.ranks == RankSet{1});
    CHECK(v.sentence.starts_with("hang: rank 1 is stopped (SIGSTOP) in "));
    CHECK(v.next.command == "kill -CONT 101");
  }
}

TEST_CASE("a rank in uninterruptible sleep without progress") {
  Job job(4);
  job.all(in_all_reduce()).rank(1, in_sleep()).kernel_state(1, 'D').hang_dump();
  CHECK(diagnose(job.facts).id == "hang.uninterruptible");
}

TEST_CASE("uninterruptible sleep that ended before the dump does not count") {
  Job job(4);
  job.all(in_all_reduce()).rank(1, in_sleep()).hang_dump();
  job.seen(1).state = 'D';
  CHECK(diagnose(job.facts).id == "hang.stuck");
}

TEST_CASE("a rank killed while the others wait") {
  Job job(4);
  job.all(in_all_reduce()).died(3, kKill, 50).hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.dead");
  CHECK(v.kind == model::VerdictKind::hang);
  CHECK(v.state == model::RankState::dead);
  CHECK(v.signal == kKill);
  CHECK(v.ranks == RankSet{3});
  CHECK(v.sentence ==
        "hang: rank 3 was killed by SIGKILL 10 s ago; ranks 0-2 wait for it in all_reduce "
        "(train.py:44)");
}

TEST_CASE("a rank that exited cleanly while the others wait") {
  Job job(4);
  job.all(in_all_reduce()).died(0, exited(0), 49).ended_as_hang();
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.left_early");
  CHECK(v.state == model::RankState::dead);
  CHECK(v.exit_code == 0);
  CHECK(v.confidence == model::Confidence::high);
  CHECK(v.sentence.starts_with("hang: rank 0 left early (exit status 0) 11 s ago; ranks 1-3 wait"));
}

TEST_CASE("a rank that exited cleanly before another began to wait for a process of the host") {
  const auto judged = [](const std::string& target, double ended_s) {
    Job job(2);
    job.rank(0, in_sleep(), 10).died(1, exited(0), ended_s).ended_as_hang();
    job.stacks_of(0).threads.front().target = target;
    return diagnose(job.facts);
  };
  const Verdict v = judged("127.0.0.1:47272", 49);
  CHECK(v.id == "hang.left_early");
  CHECK(v.level == model::VerdictLevel::confirmed);
  CHECK(v.ranks == RankSet{1});
  CHECK_MESSAGE(v.sentence.starts_with("hang: rank 1 left early (exit status 0) 11 s ago; rank 0 is in "
                                       "load_batch (train.py:31: time.sleep 127.0.0.1:47272)"),
                v.sentence);
  // Another host, or an end long before.
  CHECK(judged("10.0.0.7:443", 49).ranks == RankSet{0});
  Job early(2);
  early.rank(0, in_sleep(), 10).died(1, exited(0), 10).ended_as_hang();
  early.stacks_of(0).threads.front().target = "127.0.0.1:47272";
  CHECK_MESSAGE(diagnose(early.facts).ranks == RankSet{0}, diagnose(early.facts).sentence);
}

TEST_CASE("ranks that exited cleanly are not culprits if another rank is stuck") {
  Job job(4);
  job.all(in_all_reduce()).died(0, exited(0), 49).rank(2, in_sleep()).hang_dump();
  CHECK(diagnose(job.facts).ranks == RankSet{2});
}

TEST_CASE("a rank that waits for a lock, a queue or a dataloader is the culprit") {
  Job lock(4);
  lock.all(in_all_reduce()).rank(2, in_lock()).hang_dump();
  Verdict v = diagnose(lock.facts);
  CHECK(v.id == "hang.lock");
  CHECK(v.state == model::RankState::stuck);
  CHECK(v.ranks == RankSet{2});
  CHECK(v.where.function == "save_state");
  Job queue(4);
  queue.all(in_all_reduce()).rank(2, in_queue()).hang_dump();
  v = diagnose(queue.facts);
  CHECK(
      v.sentence.starts_with("hang: rank 2 has been waiting for a queue in next_item "
                             "(train.py:70: Queue.get) for 10 s;"));
  Job loader(4);
  loader.all(in_all_reduce())
      .rank(2, in_dataloader())
      .worker(2, in_sleep())
      .worker(0, in_sleep())
      .hang_dump();
  v = diagnose(loader.facts);
  CHECK(v.ranks == RankSet{2});
  CHECK(v.sentence.find("waiting for a dataloader worker in batches (train.py:25: ") != std::string::npos);
  const auto named = std::count_if(v.evidence.begin(), v.evidence.end(), [](const std::string& e) {
    return e == "worker of rank 2 (pid 902) in load_batch (train.py:31: time.sleep)";
  });
  CHECK(named == 1);
}

TEST_CASE("the training may run in a thread that the main thread joins") {
  Job job(3);
  job.all(in_queue());
  for (base::Rank r : {0, 1}) {
    model::ThreadStack trainer;
    trainer.tid = 500 + r;
    trainer.frames = in_all_reduce();
    job.stacks_of(r).threads.push_back(trainer);
  }
  job.hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{2});
  CHECK(v.waiting.at(0).what == "all_reduce");
}

TEST_CASE("on a GPU the wait of a backward pass is in the autograd thread") {
  Stack main = {native("c10::ivalue::Future::wait", "libtorch_cpu.so"),
                native("torch::autograd::Engine::execute_with_graph_task", "libtorch_cpu.so"),
                py("backward", "/opt/lib/python3.11/site-packages/torch/autograd/__init__.py", 200),
                py("step", "/home/u/train.py", 40)};
  Job job(2);
  job.all(main).rank(1, in_sleep());
  model::ThreadStack autograd;
  autograd.comm = "pt_autograd_0";
  autograd.frames = {native("cudaStreamSynchronize", "libcudart.so.12"),
                     native("c10d::Reducer::sync_bucket_indices", "libtorch_cuda.so")};
  job.stacks_of(0).threads.push_back(autograd);
  job.hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.waiting.at(0).where.line == 40);
}

TEST_CASE("a user's own function named all_reduce is not a wait") {
  const Stack own = {native("clock_nanosleep", "libc.so.6"),
                     py("all_reduce", "/home/u/comm.py", 7, "time.sleep")};
  Job job(4);
  job.all(in_all_reduce()).rank(1, own).hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.where.file == "/home/u/comm.py");
}

TEST_CASE("user code called from inside DDP or FSDP is the user's") {
  const std::string packages = "/opt/lib/python3.11/site-packages/torch/";
  const Stack forward = {native("clock_nanosleep", "libc.so.6"),
                         py("Net.forward", "/home/u/net.py", 5, "time.sleep"),
                         py("Module._call_impl", packages + "nn/modules/module.py", 1500),
                         py("DistributedDataParallel.forward", packages + "nn/parallel/distributed.py", 1000),
                         py("step", "/home/u/train.py", 38)};
  Job job(4);
  job.all(in_all_reduce()).rank(1, forward).hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.where.function == "Net.forward");
}

TEST_CASE("a rank without stacks is judged by its observed position") {
  Job waits(4);
  waits.all(in_all_reduce()).rank(2, in_sleep()).unreadable(0, "permission denied").hang_dump();
  Verdict v = diagnose(waits.facts);
  CHECK(v.ranks == RankSet{2});
  CHECK(v.waiting.at(0).ranks == RankSet{0, 1, 3});
  Job guilty(4);
  guilty.all(in_all_reduce()).rank(2, in_sleep()).unreadable(2, "permission denied").hang_dump();
  v = diagnose(guilty.facts);
  CHECK(v.ranks == RankSet{2});
  CHECK(v.confidence == model::Confidence::medium);
  CHECK(v.where.function == "load_batch");
}

TEST_CASE("an unreadable rank is suspected only if no other rank is") {
  Job job(4);
  job.all(in_all_reduce()).unreadable(1, "timeout").no_position(1).hang_dump();
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.silent");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.confidence == model::Confidence::low);
  CHECK(v.sentence.starts_with("hang: rank 1 gives no sign of life: no stack could be read (timeout);"));
  job.rank(3, in_sleep());
  v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{3});
}

TEST_CASE("the minority in another collective is named, rank 0 included") {
  Job job(4);
  job.all(in_all_reduce()).rank(0, in_barrier()).hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.mismatch");
  CHECK(v.state == model::RankState::waiting);
  CHECK(v.ranks == RankSet{0});
  CHECK(v.waiting.at(0).ranks == RankSet{1, 2, 3});
  CHECK(v.sentence ==
        "hang: rank 0 has waited in barrier (train.py:51) for 10 s while ranks 1-3 wait in "
        "all_reduce (train.py:44)");
}

TEST_CASE("the same collective on two lines is a mismatch too") {
  Job job(4);
  job.all(in_all_reduce(44)).rank(3, in_all_reduce(46)).hang_dump();
  CHECK(diagnose(job.facts).ranks == RankSet{3});
}

TEST_CASE("for MPI the program's call is named, not an inner step") {
  const auto in_mpi = [](const char* call, const char* algorithm) -> Stack {
    return {native("opal_progress", "libopen-pal.so.40"),
            native("ompi_request_default_wait", "libmpi.so.40"),
            native("ompi_coll_base_sendrecv_zero", "libmpi.so.40"),
            native(algorithm, "libmpi.so.40"),
            native(call, "libmpi.so.40"),
            native("solve", "solver")};
  };
  Job job(4);
  job.all(in_mpi("PMPI_Allreduce", "ompi_coll_base_allreduce_intra_recursivedoubling"))
      .rank(2, in_mpi("MPI_Barrier", "ompi_coll_base_barrier_intra_doublering"))
      .hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.mismatch");
  CHECK(v.ranks == RankSet{2});
  CHECK(v.sentence.find("has waited in MPI_Barrier") != std::string::npos);
  CHECK(v.waiting.at(0).what == "MPI_Allreduce");
}

TEST_CASE("in a tie no single rank is the culprit") {
  Job job(4);
  job.all(in_all_reduce()).rank(0, in_barrier()).rank(1, in_barrier()).hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.mismatch");
  CHECK(v.confidence == model::Confidence::low);
  CHECK(v.ranks.empty());
  CHECK(v.waiting.size() == 2);
  CHECK(v.sentence ==
        "hang: ranks have waited for each other in different calls for 10 s: ranks 0-1 in barrier "
        "(train.py:51), "
        "ranks 2-3 in all_reduce (train.py:44)");
}

TEST_CASE("all ranks in the same collective: arguments are unknown, or ranks are on other nodes") {
  Job job(4);
  job.all(in_all_reduce()).hang_dump();
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.all_waiting");
  CHECK(v.ranks.empty());
  CHECK(v.confidence == model::Confidence::low);
  CHECK(
      v.sentence ==
      "hang: all 4 ranks have waited in all_reduce (train.py:44) for 10 s; none is missing; it was not "
      "recorded whether they called it with the same size, type and root, or wait for the network or a GPU");
  job.facts.run.world_size = 8;
  v = diagnose(job.facts);
  CHECK(v.id == "hang.all_waiting");
  CHECK(v.sentence.find("the others of 8 are not on this host or never started") != std::string::npos);
}

namespace {

constexpr const char* kDistributed =
    "/opt/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py";

Stack in_recv(int line = 20) {
  return {py("recv", kDistributed, 1200, "work.wait"), py("stage", "/home/u/train.py", line)};
}

Stack in_send(int line = 24) {
  return {py("send", kDistributed, 1100, "work.wait"), py("stage", "/home/u/train.py", line)};
}

// work = dist.irecv(...); work.wait(): no Python frame of torch shows the operation.
Stack in_irecv() {
  return {native("pthread_cond_wait", "libc.so.6"),
          native("gloo::transport::tcp::UnboundBuffer::waitRecv", "libgloo.so.0"),
          native("c10d::ProcessGroupGloo::RecvWork::wait", "libtorch_cpu.so"),
          py("stage", "/home/u/train.py", 28, "work.wait")};
}

}  // namespace

TEST_CASE("send and recv may differ between pipeline stages") {
  Job job(4);
  job.all(in_recv()).rank(0, in_send()).hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.all_waiting");
  CHECK(v.sentence ==
        "hang: all 4 ranks have waited in recv (train.py:20) and other calls for 10 s; none is missing, so a "
        "send or recv may lack its counterpart");
  CHECK(v.next.text.find("nvidia-smi") == std::string::npos);
}

TEST_CASE("a rank in recv or send has not entered the collective of the others") {
  struct {
    Stack stack;
    const char* what;
  } const cases[] = {{in_recv(), "recv (train.py:20)"},
                     {in_send(), "send (train.py:24)"},
                     {in_irecv(), "recv (train.py:28)"}};
  for (const auto& c : cases) {
    CAPTURE(c.what);
    Job job(4);
    job.all(in_all_reduce()).rank(1, c.stack).hang_dump();
    const Verdict v = diagnose(job.facts);
    CHECK(v.id == "hang.mismatch");
    CHECK(v.confidence == model::Confidence::medium);
    CHECK(v.ranks == RankSet{1});
    REQUIRE(v.waiting.size() == 1);
    CHECK(v.waiting[0].ranks == RankSet{0, 2, 3});
    CHECK(v.sentence == std::string("hang: rank 1 has waited in ") + c.what +
                            " for 10 s while ranks 0,2-3 wait in all_reduce (train.py:44)");
    CHECK(v.next.text.find("nvidia-smi") == std::string::npos);
  }
}

TEST_CASE("all sends and receives form one side against a collective") {
  Job job(5);
  job.all(in_recv()).rank(1, in_recv(21)).rank(2, in_send());
  job.rank(3, in_all_reduce()).rank(4, in_all_reduce()).hang_dump();
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.mismatch");
  CHECK(v.ranks == RankSet{3, 4});
  job.rank(2, in_all_reduce());
  CHECK(diagnose(job.facts).ranks == RankSet{0, 1});
}

TEST_CASE("recv against a collective is a tie with equal numbers of ranks") {
  Job job(4);
  job.all(in_all_reduce()).rank(0, in_recv()).rank(1, in_send()).hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.mismatch");
  CHECK(v.confidence == model::Confidence::low);
  CHECK(v.ranks.empty());
  CHECK(v.sentence ==
        "hang: ranks have waited for each other in different calls for 10 s: ranks 2-3 in all_reduce "
        "(train.py:44), rank 0 in recv (train.py:20), rank 1 in send (train.py:24)");
}

TEST_CASE("a long C call on all ranks is reported as such") {
  Job job(4);
  job.all(in_compute()).hang_dump();
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.long_call");
  CHECK(v.level == model::VerdictLevel::suspected);
  CHECK(v.state == model::RankState::stuck);
  CHECK(v.ranks == RankSet{0, 1, 2, 3});
  CHECK(v.sentence ==
        "stall: all 4 ranks have been in compute (train.py:12) for 10 s; no rank waits for another");
  for (base::Rank r = 0; r < 4; ++r) {
    job.cpu(r, 0.9);
  }
  v = diagnose(job.facts);
  CHECK(v.id == "hang.long_call");
  CHECK(v.state == model::RankState::busy);
}

TEST_CASE("a process alone is its own culprit") {
  Job stuck(1);
  stuck.all(in_sleep()).hang_dump();
  Verdict v = diagnose(stuck.facts);
  CHECK(v.id == "hang.stuck");
  CHECK(v.level == model::VerdictLevel::confirmed);
  CHECK(v.sentence == "hang: rank 0 has been in load_batch (train.py:31: time.sleep) for 10 s");
  Job busy(1);
  busy.all(in_compute()).cpu(0, 1).hang_dump();
  v = diagnose(busy.facts);
  CHECK(v.id == "hang.busy");
  CHECK(v.level == model::VerdictLevel::suspected);
  CHECK(v.sentence == "stall: rank 0 is still working in compute (train.py:12) after 10 s");
  SUBCASE("also if other processes leave little CPU for the loop") {
    busy.cpu(0, 0.05).seen(0).main_queue_share = 0.6;
    CHECK(diagnose(busy.facts).id == "hang.busy");
    busy.cpu(0, 0).seen(0).main_queue_share = 0.9;  // less than one tick of CPU time
    CHECK(diagnose(busy.facts).id == "hang.busy");
    busy.cpu(0, 0.05).seen(0).main_queue_share = 0.3;  // sleeps in between
    CHECK(diagnose(busy.facts).id == "hang.stuck");
  }
  Job lock(1);
  lock.all(in_lock()).hang_dump();
  CHECK(diagnose(lock.facts).id == "hang.lock");
}

TEST_CASE("ranks of an unknown library: the rank at another position is at most suspected") {
  Job job(4);
  job.all(in_compute()).rank(2, in_sleep()).hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{2});
  CHECK(v.level == model::VerdictLevel::suspected);
  CHECK(v.confidence == model::Confidence::low);
}

TEST_CASE("a death explains a stall of ranks in unknown code") {
  Job job(4);
  job.all(in_compute()).died(1, kKill, 50).hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.dead");
  CHECK(v.ranks == RankSet{1});
}

TEST_CASE("with an unreadable dump only the supervisor's record, or the bare stall, remains") {
  Job job(4);
  job.all(in_all_reduce()).hang_dump();
  job.facts.run.outcome = model::RunOutcome::hang;
  job.facts.dump.reset();
  job.facts.stacks.clear();
  job.facts.dump_dir.clear();
  CHECK(diagnose(job.facts).id == "hang.unknown");
  CHECK(diagnose(job.facts).kind == model::VerdictKind::hang);
  job.facts.run.stalls[0].verdict = {.id = "hang.stuck", .kind = model::VerdictKind::hang, .ranks = {2}};
  CHECK(diagnose(job.facts).ranks == RankSet{2});
  job.facts.run.stalls.clear();
  CHECK(diagnose(job.facts).id == "hang.unknown");
}

TEST_CASE("a thousand ranks take one line per group") {
  Job job(1024);
  job.all(in_all_reduce()).rank(777, in_sleep()).hang_dump();
  const Verdict v = diagnose(job.facts);
  CHECK(v.ranks == RankSet{777});
  CHECK(v.sentence.ends_with("; ranks 0-776,778-1023 wait for it in all_reduce (train.py:44)"));
  CHECK(v.evidence.size() < 10);
}

TEST_CASE("stacks of launchers and workers never count as a rank's stacks") {
  Job job(2);
  job.all(in_all_reduce()).rank(1, in_sleep()).worker(0, in_sleep());
  model::ProcessStacks agent;
  agent.role = model::ProcessRole::agent;
  agent.pid = Job::kAgentPid;
  job.facts.stacks.push_back(agent);
  job.hang_dump();
  CHECK(diagnose(job.facts).ranks == RankSet{1});
}
