// Hangs of ranks that wait for their GPU: NCCL's record decides.
#include "report/diagnosis/diagnose.h"
#include "tests/unit/diagnosis/calls.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::CallSource;
using model::CallStage;
using model::RankSet;
using model::Verdict;

namespace {

const Group kTwoRanks{.members = {0, 1}};
const Group kGpuNccl{.members = {0, 1, 2, 3}, .source = CallSource::nccl};

// A hang in which every rank waits in all_reduce by its stack.
Verdict gpu_hang(const Calls& calls, int ranks) {
  Job job(ranks);
  job.all(in_all_reduce()).hang_dump();
  job.facts.collectives = calls.facts;
  return diagnose(job.facts);
}

}  // namespace

TEST_CASE("without GPU frames: a rank whose calls have all ended waits for a kernel of its own") {
  const Stack sync = {native("cudaStreamSynchronize", "libcudart.so"), py("step", "/home/u/train.py", 44)};
  const auto judged = [&](const Calls& calls) {
    Job job(4);
    job.all(sync).hang_dump();
    job.facts.collectives = calls.facts;
    return diagnose(job.facts);
  };
  const auto others_wait = [] {
    Calls calls;
    calls.past(kGpuNccl, 3).enter({0, 1, 3}, kGpuNccl, all_reduce());
    for (const base::Rank r : kGpuNccl.members) {
      calls.comm(r, kGpuNccl).done_known = true;
      calls.reaches(r, kGpuNccl, r == 2 ? CallStage::done : CallStage::launched);
    }
    return calls;
  };
  Verdict v = judged(others_wait());
  CHECK(v.id == "hang.kernel");
  CHECK(v.ranks == RankSet{2});
  CHECK(v.where.line == 44);
  CHECK(v.sentence.find("waiting for a kernel of its own in step (train.py:44)") != std::string::npos);
  Calls in_message = others_wait();
  in_message.comm(2, kGpuNccl).messages = 5;
  in_message.comm(2, kGpuNccl).messages_done = 4;
  v = judged(in_message);
  CHECK(v.id == "hang.not_entered");
}

TEST_CASE("a rank that polls its GPU has not just come to a call that it launched long ago") {
  const Stack sync = {native("cuCtxSynchronize", "libcuda.so"), py("step", "/home/u/train.py", 44)};
  const Stack in_get = {native("c10d::TCPStore::doGet", "libtorch_cpu.so"),
                        py("follow", "/home/u/train.py", 6, "store.get")};
  const Group nccl{.name = "all", .members = {0, 1, 2}, .source = CallSource::nccl};
  const auto judged = [&](double age_s) {
    Calls calls;
    calls.past(nccl, 3);
    for (const base::Rank r : {0, 2}) {
      calls.enters(r, nccl, all_reduce()).reaches(r, nccl, CallStage::launched);
      calls.comm(r, nccl).calls.back().age_s = age_s;
    }
    Job job(3);
    job.all(sync, 2).rank(1, in_get).hang_dump();
    job.stacks_of(1).threads.front().target = "key shards";
    job.facts.collectives = calls.facts;
    return diagnose(job.facts);
  };
  const Verdict v = judged(10);
  CHECK(v.id == "hang.p2p");
  CHECK(v.ranks.empty());
  CHECK(v.sentence ==
        "hang: rank 1 waits for key shards of the store in follow (train.py:6: store.get), which no rank has "
        "set; ranks 0,2 wait for it in GPU synchronize (train.py:44)");
  CHECK(judged(2).id == "hang.busy");
}

TEST_CASE("NCCL messages: the record of launched calls shows which send is missing") {
  const auto launched = [](model::CollectiveCall call) {
    call.stage = CallStage::launched;
    return call;
  };
  const auto judged = [&](uint64_t sent, uint64_t sends_known) {
    Calls calls;
    calls.past(kTwoRanks, 3).enters(1, kTwoRanks, all_reduce());
    for (uint64_t n = sent + 1 - sends_known; n <= sent; ++n) {
      calls.message(1, kTwoRanks, launched(send(0, n)));
    }
    calls.comm(1, kTwoRanks).messages = sent;
    calls.message(0, kTwoRanks, launched(recv(1, 19))).message(0, kTwoRanks, launched(recv(1, 20)));
    calls.comm(0, kTwoRanks).messages = 20;
    return gpu_hang(calls, 2);
  };
  Verdict v = judged(19, 16);
  CHECK(v.id == "hang.p2p");
  CHECK(v.ranks == RankSet{1});
  // Rank 0's messages were all sent, or it is unknown.
  CHECK(judged(20, 16).id != "hang.p2p");
  CHECK(judged(30, 4).id != "hang.p2p");
  CHECK(judged(30, 0).id != "hang.p2p");
}

TEST_CASE("NCCL messages: the record of a send that has ended shows that the next one is missing") {
  // The record of open messages of rank 1 is empty; `known`: its lane has the latest one.
  const auto judged = [](uint64_t sent, bool known) {
    Calls calls;
    calls.past(kTwoRanks, 3);
    for (uint64_t n = 1; n <= sent && known; ++n) {
      calls.passes(1, kTwoRanks, send(0, n));
    }
    calls.comm(1, kTwoRanks).point_to_point.clear();
    calls.comm(1, kTwoRanks).messages = sent;
    calls.enters(1, kTwoRanks, all_reduce());
    model::CollectiveCall waits = recv(1, 2);
    waits.stage = CallStage::launched;
    calls.message(0, kTwoRanks, waits);
    calls.comm(0, kTwoRanks).messages = 2;
    return gpu_hang(calls, 2);
  };
  const Verdict v = judged(1, true);
  CHECK(v.id == "hang.p2p");
  CHECK(v.ranks == RankSet{1});
  CHECK(judged(1, false).id == "hang.p2p");  // fewer messages in all
  CHECK(judged(2, true).id != "hang.p2p");
  CHECK(judged(3, false).id != "hang.p2p");
}

TEST_CASE("NCCL messages that have all ended still match the other rank's") {
  const Stack sync = {native("cudaStreamSynchronize", "libcudart.so"), py("step", "/home/u/train.py", 44)};
  const Group nccl{.name = "pair", .members = {0, 1}, .source = CallSource::nccl};
  Calls calls;
  calls.past(kTwoRanks, 3).past(nccl, 0);
  for (const auto& [rank, call] :
       {std::pair(1, send(0, 1)), std::pair(0, recv(1, 1)), std::pair(0, recv(1, 2))}) {
    model::CollectiveCall launched = call;
    launched.stage = CallStage::launched;
    calls.message(rank, kTwoRanks, launched);
    ++calls.comm(rank, kTwoRanks).messages;
    ++calls.comm(rank, nccl).messages;
    calls.comm(rank, nccl).messages_done = 1;
  }
  Job job(2);
  job.all(sync).hang_dump();
  job.facts.collectives = calls.facts;
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.p2p");
  CHECK(v.ranks == RankSet{1});
}

TEST_CASE("NCCL: two communicators in opposite order accuse no innocent rank") {
  // `b_first` have launched tp's call before dp's; `came`: the others have come to tp's call as well.
  const auto opposite = [](const std::vector<base::Rank>& members, const RankSet& b_first, bool came) {
    const Group dp{.name = "dp", .members = members, .source = CallSource::nccl};
    const Group tp{.name = "tp", .members = members, .source = CallSource::nccl};
    Calls calls;
    calls.past(dp, 5).past(tp, 5);
    for (const base::Rank r : members) {
      const bool b = b_first.contains(r);
      calls.enters(r, dp, all_reduce()).reaches(r, dp, b ? CallStage::launched : CallStage::started);
      if (b || came) {
        calls.enters(r, tp, operation("all_gather", 12, 16));
        calls.reaches(r, tp, b ? CallStage::started : CallStage::launched);
      }
    }
    return calls;
  };
  for (const bool came : {true, false}) {
    CAPTURE(came);
    Verdict v = hang(opposite({0, 1}, {1}, came), 2);
    CHECK(v.id == "hang.order");
    CHECK(v.ranks.empty());
    CHECK(v.sentence.find("rank 0 called all_reduce") != std::string::npos);
    CHECK(v.sentence.find("rank 1 called all_gather") != std::string::npos);
    v = hang(opposite({0, 1, 2, 3}, {2}, came));
    CHECK(v.id == "hang.order");
    CHECK(v.ranks == RankSet{2});
    // With torch's record, the rank that had always called them in the other order has departed.
    Calls calls = opposite({0, 1}, {1}, came);
    const Group dp{.name = "torch dp", .members = {0, 1}};
    const Group tp{.name = "torch tp", .members = {0, 1}};
    for (const base::Rank r : {0, 1}) {
      for (int i = 0; i < 20; ++i) {
        calls.finishes(r, dp, all_reduce()).finishes(r, tp, operation("all_gather", 12, 16));
      }
      calls.finishes(r, r == 1 ? tp : dp, r == 1 ? operation("all_gather", 12, 16) : all_reduce());
      calls.finishes(r, r == 1 ? dp : tp, r == 1 ? all_reduce() : operation("all_gather", 12, 16));
    }
    v = hang(calls, 2);
    CHECK(v.id == "hang.order");
    CHECK(v.ranks == RankSet{1});
  }
  // A kernel of its own keeps both calls of rank 1.
  Calls busy = opposite({0, 1}, {}, true);
  const Group dp{.name = "dp", .members = {0, 1}, .source = CallSource::nccl};
  busy.comm(1, dp).started = busy.comm(1, dp).done = 5;
  busy.comm(1, dp).calls.back().stage = CallStage::launched;
  for (const base::Rank r : {0, 1}) {
    busy.comm(r, {.name = "tp", .members = {0, 1}, .source = CallSource::nccl}).calls.back().age_s = 9;
  }
  const Verdict v = hang(busy, 2);
  CHECK(v.id == "hang.queued");
  CHECK(v.ranks == RankSet{1});
}

TEST_CASE("NCCL: a rank whose record is behind that of its peers is not the one whose GPU is kept") {
  Calls calls;
  calls.past(kTwoRanks, 315);
  const Group pair{.name = "pair", .members = {0, 1}, .source = CallSource::nccl};
  calls.past(pair, 315);
  for (const base::Rank r : {0, 1}) {
    for (int i = 0; i < 5; ++i) {
      calls.enters(r, pair, all_reduce());
      calls.reaches(r, pair, r == 0 ? CallStage::launched : CallStage::done);
    }
    calls.enters(r, pair, all_reduce()).reaches(r, pair, CallStage::launched);
  }
  const Verdict v = gpu_hang(calls, 2);
  CHECK(v.id == "hang.network");
  CHECK(v.ranks.empty());
  CHECK(v.collective.sequence == 321);
}

TEST_CASE("NCCL messages: both ranks receive before they send") {
  // `batch`: the line of all messages. `older`: messages before, whose ends are known on rank 0 only.
  const auto judged = [](bool second_sends_first, int batch, uint64_t ended, uint64_t older = 0) {
    const Group nccl{.name = "pair", .members = {0, 1}, .source = CallSource::nccl};
    Calls calls;
    calls.past(kTwoRanks, 3).past(nccl, 0);
    for (const base::Rank r : {0, 1}) {
      std::vector<model::CollectiveCall> made = {recv(1 - r, 1, batch != 0 ? batch : 24),
                                                 send(1 - r, 1, batch != 0 ? batch : 25)};
      if (r == 1 && second_sends_first) {
        std::swap(made[0], made[1]);
      }
      for (uint64_t i = 0; i <= older; ++i) {
        for (model::CollectiveCall call : made) {
          call.stage = CallStage::launched;
          call.sequence = i + 1;
          if (r == 1 || i == older) {
            calls.message(r, kTwoRanks, call);
          }
        }
      }
      calls.comm(r, kTwoRanks).messages = 2;
      calls.comm(r, nccl).messages = 2;
      calls.comm(r, nccl).messages_done = ended;
    }
    return gpu_hang(calls, 2);
  };
  const Verdict v = judged(false, 0, 0);
  CHECK(v.id == "hang.p2p");
  CHECK(v.ranks.empty());
  CHECK(v.sentence.find("before their sends: rank 0 waits in recv of 8 float32 from rank 1 (train.py:24)") !=
        std::string::npos);
  CHECK(judged(false, 0, 0, 3).id == "hang.p2p");
  CHECK(judged(true, 0, 0).id != "hang.p2p");
  CHECK(judged(false, 30, 0).id != "hang.p2p");
  CHECK(judged(false, 0, 2).id != "hang.p2p");
}

TEST_CASE("NCCL messages: those that can meet are not the ones that hang") {
  // Hosts that run ahead: neither record knows an end.
  const auto judged = [](bool both_receive) {
    const Group nccl{.name = "pair", .members = {0, 1}, .source = CallSource::nccl};
    Calls calls;
    calls.past(kTwoRanks, 3).past(nccl, 0);
    const auto launch = [&](base::Rank r, model::CollectiveCall call) {
      call.stage = CallStage::launched;
      calls.message(r, kTwoRanks, call);
    };
    for (uint64_t n = 1; n <= 6; ++n) {
      const bool safe = n < 6 || !both_receive;
      launch(0, safe ? send(1, n, 10) : recv(1, n, 13));
      launch(0, safe ? recv(1, n, 11) : send(1, n, 14));
      launch(1, recv(0, n, 13));
      launch(1, send(0, n, 14));
    }
    for (const base::Rank r : {0, 1}) {
      calls.comm(r, kTwoRanks).messages = calls.comm(r, nccl).messages = 12;
      calls.comm(r, nccl).messages_done = 4;
    }
    return gpu_hang(calls, 2);
  };
  const Verdict v = judged(true);
  CHECK(v.id == "hang.p2p");
  CHECK(v.ranks.empty());
  CHECK(v.sentence.find("before their sends: rank 0 waits in recv of 8 float32 from rank 1 (train.py:13)") !=
        std::string::npos);
  CHECK(judged(false).id != "hang.p2p");
}

TEST_CASE("NCCL messages: a rank that waits in the next collective is the victim of such messages") {
  const Group three{.members = {0, 1, 2}};
  const Group all{.name = "all", .members = {0, 1, 2}, .source = CallSource::nccl};
  const Group nccl{.name = "pair", .members = {1, 2}, .source = CallSource::nccl};
  const auto judged = [&](bool of_messages) {
    Calls calls;
    calls.past(three, 3).past(all, 3).past(nccl, 0);
    for (const base::Rank r : {1, 2}) {
      for (model::CollectiveCall call : {recv(3 - r, 1, 24), send(3 - r, 1, 25)}) {
        call.stage = CallStage::launched;
        calls.message(r, three, call);
      }
      calls.comm(r, three).messages = calls.comm(r, nccl).messages = 2;
      calls.comm(r, nccl).messages_done = of_messages ? 0 : 2;
    }
    calls.enters(0, three, all_reduce()).enters(0, all, all_reduce()).reaches(0, all, CallStage::launched);
    return gpu_hang(calls, 3);
  };
  const Verdict v = judged(true);
  CHECK(v.id == "hang.p2p");
  CHECK(v.ranks.empty());
  CHECK_MESSAGE(v.sentence.find("before their sends: rank 1 waits in recv") != std::string::npos, v.sentence);
  CHECK(judged(false).id != "hang.p2p");
}

namespace {

// torch's record of a call that the GPU has not ended, as far as torch knows.
void launches(Calls& calls, base::Rank r, const Group& group, const model::CollectiveCall& call,
              double age_s) {
  calls.enters(r, group, call);
  model::Communicator& c = calls.comm(r, group);
  c.done_known = false;
  c.launched = c.called;
  c.calls.back().stage = CallStage::launched;
  c.calls.back().age_s = age_s;
}

// NCCL's record shows that all ranks have launched a call of the world, and nothing of the other groups.
// `world_first`: make the newest two calls in the other order. `before`: have always made them so.
Calls statistics(int ranks, const RankSet& world_first, const RankSet& before, int rounds) {
  std::vector<base::Rank> all;
  for (base::Rank r = 0; r < ranks; ++r) {
    all.push_back(r);
  }
  const Group world{.name = "world", .members = all};
  const Group nccl{.name = "nccl", .members = all, .source = CallSource::nccl};
  Calls calls;
  for (const base::Rank r : all) {
    calls.enters(r, nccl, all_reduce(4096, 226)).reaches(r, nccl, CallStage::launched);  // first, as recorded
    const Group tensor{.name = r < 2 ? "t01" : "t23",
                       .members = r < 2 ? std::vector{0, 1} : std::vector{2, 3}};
    double age_s = 30;
    for (int i = 0; i < 8; ++i) {
      launches(calls, r, tensor, all_reduce(1024, 76), age_s -= 0.1);
      launches(calls, r, world, broadcast(0, 207, 1), age_s -= 0.1);
    }
    for (int i = 0; i < rounds; ++i) {
      const bool reversed = (i + 1 < rounds ? before : world_first).contains(r);
      launches(calls, r, reversed ? world : tensor, all_reduce(4096, 226), age_s -= 0.1);
      launches(calls, r, reversed ? tensor : world, all_reduce(4096, 226), age_s -= 0.1);
    }
  }
  return calls;
}

}  // namespace

TEST_CASE("torch's record has the order of the calls of two groups, which NCCL's has not") {
  Verdict v = hang(statistics(4, {1}, {}, 1));
  CHECK(v.id == "hang.order");
  CHECK(v.ranks == RankSet{1});
  v = hang(statistics(4, {3}, {}, 1));
  CHECK(v.ranks == RankSet{3});
  // Of two ranks nobody, unless one of them has always had the other order.
  v = hang(statistics(2, {1}, {}, 1), 2);
  CHECK(v.id == "hang.order");
  CHECK(v.ranks.empty());
  CHECK(hang(statistics(2, {0}, {}, 1), 2).ranks.empty());
  v = hang(statistics(2, {0}, {}, 9), 2);
  CHECK(v.id == "hang.order");
  CHECK(v.ranks == RankSet{0});
  CHECK(hang(statistics(2, {1}, {}, 9), 2).ranks == RankSet{1});
  // The order has always differed, or never.
  CHECK(hang(statistics(2, {1}, {1}, 9), 2).id == "hang.network");
  CHECK(hang(statistics(4, {}, {}, 1)).id == "hang.network");
}

namespace {

struct Counters {
  double active;
  double warps;  // of each multiprocessor that works
};

// All hosts wait for their GPUs after the same calls, whose ends are not recorded. Rank r has GPU r, and a
// context on GPU 0, too.
Job all_synchronize(const std::vector<Counters>& gpus, uint64_t count = 1 << 24) {
  // CUDA looks at the clock while it spins.
  const Stack sync = {native("clock_gettime", "[vdso]"), native("cudaStreamSynchronize", "libcudart.so"),
                      py("step", "/home/u/train.py", 44)};
  Job job(static_cast<int>(gpus.size()));
  job.all(sync).hang_dump();
  Calls calls;
  std::vector<base::Rank> all;
  for (base::Rank r = 0; r < static_cast<base::Rank>(gpus.size()); ++r) {
    all.push_back(r);
  }
  const Group nccl{.members = all, .source = CallSource::nccl};
  for (const base::Rank r : all) {
    model::CollectiveCall call = all_reduce(count);
    call.stage = CallStage::launched;
    calls.enters(r, nccl, call);
    calls.comm(r, nccl).done_known = false;
    calls.comm(r, nccl).launched = 1;
    const Counters& c = gpus[static_cast<size_t>(r)];
    model::GpuDevice gpu{.index = r};
    gpu.sm_active_percent = c.active;
    gpu.sm_occupancy_percent = c.active < 0 ? -1 : c.active * c.warps / 64;
    gpu.processes = {{.pid = Job::pid_of(r), .memory_bytes = 2 << 20}};
    job.facts.gpus.devices.push_back(gpu);
  }
  for (size_t r = 1; r < gpus.size(); ++r) {
    job.facts.gpus.devices[0].processes.push_back(
        {.pid = Job::pid_of(static_cast<base::Rank>(r)), .memory_bytes = 1 << 20});
  }
  job.facts.collectives = calls.facts;
  return job;
}

constexpr Counters kInNccl{18.182, 17};
constexpr Counters kOneThread{0.758, 1};

}  // namespace

TEST_CASE("counters of the multiprocessors: a GPU runs another kernel than NCCL's") {
  Verdict v = diagnose(all_synchronize({kInNccl, kOneThread}).facts);
  CHECK(v.where.function == "step");
  CHECK(v.next.text.find("CUDA_LAUNCH_BLOCKING=1") != std::string::npos);
  CHECK(v.id == "hang.kernel");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence.find("waiting for a kernel of its own in step (train.py:44)") != std::string::npos);
  CHECK(std::find(v.evidence.begin(), v.evidence.end(),
                  "GPU 0: that of rank 0; 18.2 % of its multiprocessors work, with 17 warps each") !=
        v.evidence.end());
  CHECK(std::find(v.evidence.begin(), v.evidence.end(),
                  "GPU 1: that of rank 1; 0.8 % of its multiprocessors work, with 1 warp each") !=
        v.evidence.end());
  CHECK(v.title.starts_with("rank 1 waits for its own GPU in step (train.py:44"));
  CHECK(diagnose(all_synchronize({{100, 8}, kInNccl}).facts).ranks == RankSet{0});
  CHECK(diagnose(all_synchronize({kInNccl, kInNccl, {6.1, 4}, kInNccl}).facts).ranks == RankSet{2});
  v = diagnose(all_synchronize({kInNccl, {0, 0}}).facts);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence.find("waiting for a kernel that does not start in step (train.py:44)") !=
        std::string::npos);
}

TEST_CASE("counters of the multiprocessors: nobody is accused where they do not tell") {
  const auto id = [](const Job& job) { return diagnose(job.facts).id; };
  CHECK(id(all_synchronize({kInNccl, {12.1, 19}})) == "hang.all_waiting");
  CHECK(id(all_synchronize({kInNccl, {-1, -1}})) == "hang.all_waiting");
  CHECK(id(all_synchronize({kOneThread, kOneThread})) == "hang.all_waiting");
  // One block of three warps, as for the smallest sizes.
  CHECK(id(all_synchronize({kInNccl, {0.758, 3}}, 1)) == "hang.all_waiting");
  CHECK(id(all_synchronize({kInNccl, {0.758, 3}})) == "hang.kernel");
  // Before the calls in the record, there were others that have not ended.
  Job ahead = all_synchronize({kInNccl, {0.758, 3}});
  for (model::RankCollectives& r : ahead.facts.collectives.ranks) {
    r.communicators[0].called = r.communicators[0].launched = r.communicators[0].calls[0].sequence = 40;
  }
  CHECK(id(ahead) == "hang.all_waiting");
  // Another program computes on the GPU, or two ranks share it.
  Job shared = all_synchronize({kInNccl, kOneThread});
  shared.facts.gpus.devices[1].processes.push_back({.pid = 7, .memory_bytes = 1});
  CHECK(id(shared) == "hang.all_waiting");
  Job two = all_synchronize({kInNccl, kOneThread});
  two.facts.gpus.devices[0].processes[1].memory_bytes = 4 << 20;
  CHECK(id(two) == "hang.all_waiting");
}
