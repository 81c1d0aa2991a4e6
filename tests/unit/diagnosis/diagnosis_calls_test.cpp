// Hangs that the recorded calls decide.
#include "report/diagnosis/collectives/analysis.h"
#include "report/diagnosis/collectives/open_calls.h"
#include "report/diagnosis/diagnose.h"
#include "tests/unit/diagnosis/calls.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::CallSource;
using model::CallStage;
using model::RankSet;
using model::Verdict;

namespace {

const Group kAll{.members = {0, 1, 2, 3}};
const Group kTwo{.members = {0, 1}};
const Group kNccl{.members = {0, 1, 2, 3}, .source = CallSource::nccl};

Stack in_store() {
  return {py("TCPStore.get", "/x/torch/distributed/elastic/utils/store.py", 4), py("sync", "/u/t.py", 9)};
}

// Rank 2 waits for something other than a call.
Verdict hang_with_store(const Calls& calls) {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_store()).hang_dump();
  job.facts.collectives = calls.facts;
  return diagnose(job.facts);
}

// Ranks 0, 2 and 3 in one call, rank 1 in another.
Verdict differing(const model::CollectiveCall& most, const model::CollectiveCall& odd) {
  return hang(Calls().past(kAll, 28).enter({0, 2, 3}, kAll, most).enters(1, kAll, odd));
}

}  // namespace

TEST_CASE("another operation: the minority is named with both calls") {
  const Verdict v = differing(all_reduce(), broadcast());
  CHECK(v.id == "hang.mismatch");
  CHECK(v.level == model::VerdictLevel::confirmed);
  CHECK(v.confidence == model::Confidence::high);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.pid == 101);
  CHECK(v.where.line == 31);
  CHECK(v.sentence ==
        "hang: rank 1 called broadcast of 4096 float32 from root 0 (train.py:31) where ranks 0,2-3 called "
        "all_reduce of 4096 float32 (train.py:33), call 29 of group \"default\"; before, rank 1 had called "
        "all_reduce of 4096 float32 (train.py:33) there 28 times");
  CHECK(v.collective.name == "default");
  CHECK(v.collective.kind == model::CommunicatorKind::world);
  CHECK(v.collective.ranks == RankSet{0, 1, 2, 3});
  CHECK(v.collective.op == "all_reduce");
  CHECK(v.collective.sequence == 29);
  REQUIRE(v.collective.calls.size() == 2);
  CHECK(v.collective.calls[0].op == "broadcast");
  CHECK(v.collective.calls[0].root == 0);
  CHECK(v.collective.calls[1].ranks == RankSet{0, 2, 3});
  REQUIRE(v.waiting.size() == 1);
  CHECK(v.waiting[0].ranks == RankSet{0, 2, 3});
}

TEST_CASE("two ranks that differ are a tie: both calls, no rank accused") {
  const Verdict v = hang(Calls().past(kTwo, 2).enters(0, kTwo, all_reduce()).enters(1, kTwo, broadcast()), 2);
  CHECK(v.id == "hang.mismatch");
  CHECK(v.level == model::VerdictLevel::confirmed);
  CHECK(v.confidence == model::Confidence::medium);
  CHECK(v.ranks.empty());
  CHECK(
      v.sentence ==
      "hang: ranks have made different calls in call 3 of group \"default\", with different operations: "
      "rank 0 called all_reduce of 4096 float32 (train.py:33), rank 1 called broadcast of 4096 float32 from "
      "root 0 (train.py:31)");
}

TEST_CASE("a rank that does not create a group with the others is the culprit, not the others") {
  const Verdict v = differing(operation("new_group", 20, 0), all_reduce());
  CHECK(v.id == "hang.mismatch");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence.find("where ranks 0,2-3 called new_group") != std::string::npos);
}

TEST_CASE("size, type and root") {
  Verdict v = differing(all_reduce(4096), all_reduce(2048, 33));
  CHECK(v.id == "hang.mismatch_size");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence ==
        "hang: rank 1 called all_reduce of 2048 float32 (train.py:33) where ranks 0,2-3 called all_reduce of "
        "4096 float32 (train.py:33), call 29 of group \"default\"; before, rank 1 had called all_reduce of "
        "4096 "
        "float32 (train.py:33) there 28 times");
  v = differing(all_reduce(), all_reduce(4096, 33, "float64"));
  CHECK(v.id == "hang.mismatch_type");
  CHECK(v.ranks == RankSet{1});
  v = differing(broadcast(0), broadcast(2));
  CHECK(v.id == "hang.mismatch_root");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence.find(
            "from root 2 (train.py:31) where ranks 0,2-3 called broadcast of 4096 float32 from root "
            "0") != std::string::npos);
}

TEST_CASE("sizes may differ if the operation allows it") {
  for (const char* op : {"all_to_all", "all_gather_object", "barrier"}) {
    CAPTURE(op);
    CHECK(differing(operation(op, 33, 4096), operation(op, 33, 2048)).id == "hang.network");
  }
  for (const char* op : {"reduce_scatter", "all_gather", "reduce", "broadcast", "gather", "scatter",
                         "all_reduce_coalesced", "all_gather_coalesced"}) {
    CAPTURE(op);
    CHECK(differing(operation(op, 33, 4096), operation(op, 33, 2048)).id == "hang.mismatch_size");
  }
  CHECK(differing(all_reduce(0), all_reduce(2048)).id == "hang.network");  // 0: unknown
}

TEST_CASE("a call that has ended on all ranks may differ in size but not in operation") {
  Calls calls;
  calls.past(kAll, 3);
  for (const base::Rank r : kAll.members) {
    calls.finishes(r, kAll, all_reduce(r == 1 ? 7 : 8));
  }
  calls.enter({0, 1, 2, 3}, kAll, all_reduce());
  CHECK(hang(calls).id == "hang.network");
  // Here the root of a broadcast has left it and is in the next call.
  Calls ahead;
  ahead.past(kAll, 28).enter({0, 2, 3}, kAll, all_reduce());
  ahead.finishes(1, kAll, broadcast(1)).enters(1, kAll, all_reduce());
  const Verdict v = hang(ahead);
  CHECK(v.id == "hang.mismatch");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.collective.sequence == 29);
}

TEST_CASE("two calls of one group in opposite order") {
  Calls calls;
  calls.past(kAll, 28);
  for (const base::Rank r : kAll.members) {
    calls.enters(r, kAll, r == 1 ? broadcast() : all_reduce());
    calls.enters(r, kAll, r == 1 ? all_reduce() : broadcast());
  }
  const Verdict v = hang(calls);
  CHECK(v.id == "hang.order");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence ==
        "hang: ranks made calls 29 and 30 of group \"default\" in opposite order: rank 1 called broadcast of "
        "4096 float32 from root 0 (train.py:31), ranks 0,2-3 called all_reduce of 4096 float32 (train.py:33) "
        "first");
}

TEST_CASE("a rank outside any call is named by its stack, with the call that it has not entered") {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_sleep()).hang_dump();
  job.facts.collectives = Calls().past(kAll, 28).enter({0, 1, 3}, kAll, all_reduce()).facts;
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.stuck");
  CHECK(v.ranks == RankSet{2});
  CHECK(v.where.function == "load_batch");
  CHECK(v.collective.sequence == 29);
  CHECK(std::find(v.evidence.begin(), v.evidence.end(),
                  "rank 2 has not entered call 29 of group \"default\"") != v.evidence.end());
  // As always, busy ranks are only suspected.
  job.cpu(2, 0.9);
  v = diagnose(job.facts);
  CHECK(v.id == "hang.busy");
  CHECK(v.level == model::VerdictLevel::suspected);
  CHECK(v.collective.present());
  // Dead ranks come first.
  job.died(0, exited(3), 40);
  CHECK(diagnose(job.facts).id == "hang.dead");
}

TEST_CASE("a rank that waits elsewhere has not entered the call of the others") {
  const Verdict v = hang_with_store(Calls().past(kAll, 28).enter({0, 1, 3}, kAll, all_reduce()));
  CHECK(v.id == "hang.not_entered");
  CHECK(v.ranks == RankSet{2});
  CHECK(
      v.sentence ==
      "hang: rank 2 has not entered all_reduce of 4096 float32 (train.py:33), call 29 of group \"default\"; "
      "ranks 0-1,3 wait for it; rank 2 waits in store (t.py:9)");
}

TEST_CASE("a rank without any call on the group has not entered it either") {
  const Group other{.name = "other", .members = {2}};
  const Verdict v = hang_with_store(Calls().enter({0, 1, 3}, kAll, all_reduce()).past(other, 1));
  CHECK(v.id == "hang.not_entered");
  CHECK(v.ranks == RankSet{2});
}

TEST_CASE("torch does not record calls made by C++: the stacks decide") {
  Job job(2);
  job.all(in_all_reduce()).rank(1, in_ddp_backward()).hang_dump();
  Calls calls;
  calls.past(kTwo, 28).enters(0, kTwo, all_reduce());
  job.facts.collectives = calls.facts;
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.mismatch");
  CHECK(v.ranks.empty());
  // NCCL has both calls.
  const Group nccl{.members = {0, 1}, .source = CallSource::nccl};
  calls.past(nccl, 56).enters(0, nccl, all_reduce(4096)).enters(1, nccl, all_reduce(250'000));
  job.facts.collectives = calls.facts;
  v = diagnose(job.facts);
  CHECK(v.id == "hang.mismatch_size");
  CHECK(v.ranks == RankSet{1});
}

TEST_CASE("a rank that waits for another waiting rank is a victim") {
  const Group tp{.name = "tp", .members = {0, 1}};
  const Group dp{.name = "dp", .members = {1, 2, 3}};
  // 0 waits in tp for 1, 1 waits in dp for 2, and 2 is in no call.
  Calls calls;
  calls.past(tp, 4).past(dp, 6).enters(0, tp, all_reduce()).enter({1, 3}, dp, all_reduce(64, 50));
  const Verdict v = hang_with_store(calls);
  CHECK(v.id == "hang.not_entered");
  CHECK(v.ranks == RankSet{2});
  CHECK(v.collective.name == "dp");
}

TEST_CASE("the name that the program gave a group says its kind, before the ranks do") {
  using model::CommunicatorKind;
  const std::vector<std::pair<std::string, CommunicatorKind>> names = {
      {"mesh_tp", CommunicatorKind::tensor},   {"mesh_dp_shard", CommunicatorKind::data},
      {"fsdp", CommunicatorKind::data},        {"PIPELINE_MODEL_PARALLEL_GROUP", CommunicatorKind::pipeline},
      {"mesh_dim_0", CommunicatorKind::world}, {"dp_tp", CommunicatorKind::world},
      {"adapter", CommunicatorKind::world}};
  for (const auto& one : names) {
    CAPTURE(one.first);
    const Group group{.name = one.first, .members = {0, 1, 2, 3}};
    CHECK(hang(Calls().past(group, 3).enter({0, 1, 2, 3}, group, all_reduce())).collective.kind ==
          one.second);
  }
}

TEST_CASE("two groups in opposite order: the minority, or a tie") {
  const Group tp{.name = "tp", .members = {0, 1, 2, 3}};
  const Group dp{.name = "dp", .members = {0, 1, 2, 3}};
  Calls calls;
  calls.past(tp, 4).past(dp, 6).enter({0, 2, 3}, tp, all_reduce(8, 41)).enters(1, dp, all_reduce(64, 50));
  Verdict v = hang(calls);
  CHECK(v.id == "hang.order");
  CHECK(v.ranks == RankSet{1});
  CHECK(
      v.sentence ==
      "hang: ranks use communicators in opposite order and wait for each other: rank 1 called all_reduce of "
      "64 float32 (train.py:50) on group \"dp\" first, ranks 0,2-3 called all_reduce of 8 float32 "
      "(train.py:41) on group \"tp\" first");
  const Group a{.name = "a", .members = {0, 1}};
  const Group b{.name = "b", .members = {0, 1}};
  Calls two;
  two.past(a, 1).past(b, 1).enters(0, a, all_reduce()).enters(1, b, all_reduce());
  v = hang(two, 2);
  CHECK(v.id == "hang.order");
  CHECK(v.ranks.empty());
  REQUIRE(v.evidence.size() >= 2);
  CHECK(v.evidence[0] == "rank 0 called all_reduce of 4096 float32 (train.py:33) as call 2 of group \"a\"");
  CHECK(v.evidence[1] == "rank 1 called all_reduce of 4096 float32 (train.py:33) as call 2 of group \"b\"");
}

TEST_CASE("GPUs that run two groups in opposite order") {
  const Group tp{.name = "tp", .members = {0, 1, 2}, .source = CallSource::nccl};
  const Group dp{.name = "dp", .members = {0, 1, 2}, .source = CallSource::nccl};
  Calls calls;
  calls.past(tp, 4).past(dp, 6);
  for (const base::Rank r : {0, 1, 2}) {
    auto first = all_reduce(8);
    first.age_s = r == 2 ? 9 : 10;
    auto second = all_reduce(64);
    second.age_s = r == 2 ? 10 : 9;
    calls.enters(r, tp, first).reaches(r, tp, CallStage::launched);
    calls.enters(r, dp, second).reaches(r, dp, CallStage::launched);
  }
  const Verdict v = hang(calls, 3);
  CHECK(v.id == "hang.order");
  CHECK(v.ranks == RankSet{2});
}

TEST_CASE("NCCL: entered and not launched, queued, not finished") {
  const auto at = [](CallStage most, CallStage odd) {
    Calls calls;
    calls.past(kNccl, 28).enter({0, 1, 2, 3}, kNccl, all_reduce());
    for (const base::Rank r : kNccl.members) {
      calls.reaches(r, kNccl, r == 1 ? odd : most);
    }
    return hang(calls);
  };
  Verdict v = at(CallStage::launched, CallStage::called);
  CHECK(v.id == "hang.not_launched");
  CHECK(v.ranks == RankSet{1});
  v = at(CallStage::started, CallStage::launched);
  CHECK(v.id == "hang.queued");
  CHECK(v.ranks == RankSet{1});
  v = at(CallStage::done, CallStage::started);
  CHECK(v.id == "hang.not_finished");
  CHECK(v.ranks == RankSet{1});
  v = at(CallStage::called, CallStage::called);
  CHECK(v.id == "hang.not_launched");
  CHECK(v.ranks.empty());
  v = at(CallStage::started, CallStage::started);
  CHECK(v.id == "hang.network");
  CHECK(v.ranks.empty());
  CHECK(v.sentence ==
        "hang: all 4 ranks have entered all_reduce of 4096 float32 (train.py:33), call 29 of group "
        "\"default\", "
        "and none has finished it, which points to the network or a GPU");
}

TEST_CASE("NCCL: a call queued behind another call leads to that call") {
  const Group tp{.name = "tp", .members = {0, 1}, .source = CallSource::nccl};
  Calls calls;
  calls.past(kNccl, 3).past(tp, 3);
  for (const base::Rank r : kNccl.members) {
    calls.enters(r, kNccl, all_reduce()).reaches(r, kNccl, r < 2 ? CallStage::launched : CallStage::started);
  }
  for (const base::Rank r : tp.members) {
    auto call = operation("all_gather", 12, 16);
    call.age_s = 11;
    calls.enters(r, tp, call).reaches(r, tp, CallStage::started);
  }
  const Verdict v = hang(calls);
  CHECK(v.id == "hang.network");
  CHECK(v.collective.name == "tp");
}

TEST_CASE("an incomparable record accuses no rank") {
  Calls calls;
  calls.past(kAll, 28).enter({0, 2, 3}, kAll, all_reduce());
  calls.comm(1, kAll).comparable = false;
  const Verdict v = hang(calls);
  CHECK(v.id == "hang.all_waiting");
  CHECK(v.ranks.empty());
  CHECK(v.sentence.find("points to the network") == std::string::npos);
}

TEST_CASE("ranks of other hosts may be missing: the network is not mentioned") {
  Group wide{.members = {0, 1, 2, 3, 4, 5, 6, 7}};
  Job job(4);
  job.all(in_all_reduce()).hang_dump();
  job.facts.run.world_size = 8;
  job.facts.collectives = Calls().enter({0, 1, 2, 3}, wide, all_reduce()).facts;
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.all_waiting");
  CHECK(v.sentence.find("network") == std::string::npos);
  CHECK(v.sentence.find("4 of its 8 ranks are not seen here") != std::string::npos);
}

TEST_CASE("torch provides the lines, NCCL the stages") {
  Calls calls;
  for (Group g : {kAll, kNccl}) {
    calls.past(g, 28).enter({0, 1, 2, 3}, g, all_reduce(4096, g.source == CallSource::torch ? 33 : 0));
  }
  for (const base::Rank r : kNccl.members) {
    calls.comm(r, kNccl).calls.back().where = {};
    calls.reaches(r, kNccl, r == 1 ? CallStage::launched : CallStage::started);
  }
  const Verdict v = hang(calls);
  CHECK(v.id == "hang.queued");
  CHECK(v.collective.source == CallSource::nccl);
  CHECK(v.sentence.find("(train.py:33)") != std::string::npos);
}

TEST_CASE("a rank without a stack is in its recorded call") {
  Job job(4);
  job.all(in_all_reduce()).unreadable(1, "timeout").no_position(1).hang_dump();
  job.facts.collectives =
      Calls().past(kAll, 28).enter({0, 2, 3}, kAll, all_reduce()).enters(1, kAll, broadcast()).facts;
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.mismatch");
  CHECK(v.ranks == RankSet{1});
}

TEST_CASE("a stack outside the recorded call overrides the record") {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_sleep()).hang_dump();
  job.facts.collectives = Calls().past(kAll, 28).enter({0, 1, 2, 3}, kAll, all_reduce()).facts;
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.stuck");
  CHECK(v.ranks == RankSet{2});
}

TEST_CASE("a rank whose host is elsewhere while its GPU holds a call is judged by the call") {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_sleep()).hang_dump();
  Calls calls;
  calls.past(kNccl, 28).enter({0, 1, 3}, kNccl, all_reduce()).enters(2, kNccl, broadcast());
  for (const base::Rank r : kNccl.members) {
    calls.reaches(r, kNccl, CallStage::launched);
  }
  job.facts.collectives = calls.facts;
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.mismatch");
  CHECK(v.ranks == RankSet{2});
}

TEST_CASE("a rank that waits for its own kernel keeps the others waiting") {
  const Stack sync = {native("cudaStreamSynchronize", "libcudart.so"), py("step", "/home/u/train.py", 44)};
  Job job(4);
  job.all(sync).hang_dump();
  for (const base::Rank r : kAll.members) {
    const char* kernel = r == 2 ? "spin_forever" : "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
    job.stacks_of(r).gpu_kernels.push_back({.name = kernel, .device = 0});
  }
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "hang.kernel");
  CHECK(v.ranks == RankSet{2});
  CHECK(v.sentence.find("kernel spin_forever on GPU 0") != std::string::npos);
}

TEST_CASE("a rank that gloo ended because of another rank's size is no culprit") {
  Job job(4);
  job.all(in_all_reduce()).notice(0, kAbrt, 20).crash_dump().died(0, kAbrt, 21).ended(exited(1));
  job.facts.collectives =
      Calls().past(kAll, 28).enter({0, 2, 3}, kAll, all_reduce()).enters(1, kAll, all_reduce(2048)).facts;
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "crash.mismatch");
  CHECK(v.kind == model::VerdictKind::crash);
  CHECK(v.signal == kAbrt);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence.find("because of it, rank 0 died of SIGABRT after 20 s") != std::string::npos);
  // The root of a gather aborts because of the size that another rank passed.
  auto gather = operation("gather", 39, 10);
  gather.root = 0;
  auto larger = gather;
  larger.count = 20;
  job.facts.collectives = Calls().past(kAll, 3).enters(0, kAll, gather).finishes(1, kAll, larger).facts;
  for (const base::Rank r : {2, 3}) {
    const auto of_rank = Calls().past(kAll, 3).finishes(r, kAll, gather).facts.ranks;
    job.facts.collectives.ranks[static_cast<size_t>(r)] = of_rank[static_cast<size_t>(r)];
  }
  v = diagnose(job.facts);
  CHECK(v.id == "crash.mismatch");
  CHECK(v.ranks == RankSet{1});
  CHECK(v.sentence.find("rank 1 called gather of 20 float32 to root 0 (train.py:39) where ranks 0,2-3 called "
                        "gather of 10 float32 to root 0") != std::string::npos);
  // A fault of the rank's own counts.
  job.facts.run.crashes[0].signal = kSegv;
  job.died(0, kSegv, 21);
  v = diagnose(job.facts);
  CHECK(v.id == "crash.signal");
  CHECK(v.ranks == RankSet{0});
}

namespace {

// Maps each rank to another rank, including the members of its communicators.
model::CollectiveFacts renumber(model::CollectiveFacts facts, const std::vector<base::Rank>& to) {
  for (model::RankCollectives& r : facts.ranks) {
    r.rank = to[static_cast<size_t>(r.rank)];
    for (model::Communicator& c : r.communicators) {
      for (base::Rank& member : c.members) {
        member = to[static_cast<size_t>(member)];
      }
    }
  }
  return facts;
}

std::vector<model::CollectiveFacts> stories() {
  const Group tp{.name = "tp", .members = {0, 1, 2, 3}};
  const Group dp{.name = "dp", .members = {0, 1, 2, 3}};
  std::vector<model::CollectiveFacts> out;
  out.push_back(
      Calls().past(kAll, 9).enter({0, 2, 3}, kAll, all_reduce()).enters(1, kAll, broadcast()).facts);
  out.push_back(
      Calls().past(kAll, 9).enter({0, 2, 3}, kAll, all_reduce()).enters(1, kAll, all_reduce(1)).facts);
  out.push_back(Calls().past(kAll, 9).enter({0, 1, 3}, kAll, all_reduce()).facts);
  out.push_back(
      Calls().past(tp, 1).past(dp, 1).enter({0, 2, 3}, tp, all_reduce()).enters(1, dp, all_reduce()).facts);
  out.push_back(
      Calls().past(kAll, 3).message(0, kAll, recv(1, 5)).enter({1, 2, 3}, kAll, all_reduce()).facts);
  out.push_back(Calls().enter({0, 1, 2, 3}, kAll, all_reduce()).facts);
  out.push_back(Calls()
                    .past(tp, 4)
                    .past(dp, 6)
                    .enters(0, tp, all_reduce())
                    .enter({1, 3}, dp, all_reduce(64, 50))
                    .facts);
  return out;
}

}  // namespace

TEST_CASE("renumbering the ranks changes only the numbers, and the order of the facts changes nothing") {
  std::mt19937 random(7);
  for (const model::CollectiveFacts& story : stories()) {
    const auto told = find_call_fault(story);
    REQUIRE(told);
    for (int round = 0; round < 24; ++round) {
      std::vector<base::Rank> to = {0, 1, 2, 3};
      std::shuffle(to.begin(), to.end(), random);
      model::CollectiveFacts other = renumber(story, to);
      std::shuffle(other.ranks.begin(), other.ranks.end(), random);
      for (model::RankCollectives& r : other.ranks) {
        std::shuffle(r.communicators.begin(), r.communicators.end(), random);
      }
      const auto again = find_call_fault(other);
      REQUIRE(again);
      CHECK(again->fault == told->fault);
      CHECK(again->tie == told->tie);
      CHECK(again->accused == renumbered(told->accused, to));
      CHECK(again->waiting == renumbered(told->waiting, to));
      CHECK(again->collective.id == told->collective.id);
      CHECK(again->collective.sequence == told->collective.sequence);
      CHECK(again->collective.op == told->collective.op);
      CHECK(again->collective.calls.size() == told->collective.calls.size());
    }
  }
}

TEST_CASE("calls that explain no hang") {
  CHECK_FALSE(find_call_fault({}));
  CHECK_FALSE(find_call_fault(Calls().past(kAll, 5).facts));
}

TEST_CASE("the ranks of open calls, as the supervisor groups still ranks by them") {
  const Group pair{.name = "pair", .members = {0, 1}};
  const auto calls = ranks_of_open_calls(Calls()
                                             .past(kAll, 3)
                                             .past(pair, 2)
                                             .enter({2, 3}, kAll, all_reduce())
                                             .enters(1, pair, all_reduce())
                                             .message(0, kAll, recv(3, 1))
                                             .facts);
  CHECK(calls ==
        std::map<base::Rank, RankSet>{{0, {0, 3}}, {1, {0, 1}}, {2, {0, 1, 2, 3}}, {3, {0, 1, 2, 3}}});
  // A rank of another node may be the one that they wait for.
  model::CollectiveFacts part = Calls().past(kAll, 3).enter({2, 3}, kAll, all_reduce()).facts;
  for (model::RankCollectives& r : part.ranks) {
    for (model::Communicator& c : r.communicators) {
      c.size = 8;
    }
  }
  CHECK(ranks_of_open_calls(part).empty());
  CHECK(ranks_of_open_calls({}).empty());
}
