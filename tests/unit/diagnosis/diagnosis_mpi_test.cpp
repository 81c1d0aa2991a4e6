// Hangs in MPI: messages from any rank, other tags, locks of windows, and what a rank waits for.
#include "report/diagnosis/call_words.h"
#include "report/diagnosis/diagnose.h"
#include "tests/unit/diagnosis/calls.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::CallStage;
using model::RankSet;
using model::Verdict;

namespace {

const Group kWorld{.name = "MPI_COMM_WORLD", .members = {0, 1, 2, 3}, .source = model::CallSource::mpi};

model::CollectiveCall mpi(model::CollectiveCall call, std::string name) {
  call.name = std::move(name);
  return call;
}
model::CollectiveCall past(model::CollectiveCall call) {
  call.stage = CallStage::done;
  call.name.clear();
  return call;
}
model::CollectiveCall any_recv(int peer = -1, int tag = model::kAnyTag) {
  model::CollectiveCall call = mpi(recv(peer, 0), "MPI_Recv");
  call.tag = tag;
  return call;
}
model::CollectiveCall tagged(model::CollectiveCall call, int tag) {
  call.tag = tag;
  return call;
}

}  // namespace

TEST_CASE("a job that ended well has left requests") {
  Calls calls;
  model::CollectiveCall left = mpi(recv(2, 1, 40, 64), "MPI_Irecv");
  left.stage = CallStage::launched;
  calls.passes(1, kWorld, past(send(2, 1)));
  model::Communicator& world = calls.comm(1, kWorld);
  world.point_to_point.insert(world.point_to_point.end(), {left, left});
  const auto found = model::requests_left(calls.facts);
  REQUIRE(found.size() == 1);
  CHECK((found[0].rank == 1 && found[0].count == 2 && found[0].first.peer == 2));
  Job job(4);
  for (base::Rank r = 0; r < 4; ++r) {
    job.died(r, exited(0), 58);
  }
  job.agent_died(0, 59).ended(0);
  job.facts.at_end = calls.facts;
  const Verdict v = diagnose(job.facts);
  CHECK((v.id == "none.requests_left" && v.ranks == RankSet::of({1})));
  CHECK(v.sentence.find("rank 1 never completed 2 requests of MPI: MPI_Irecv of 64 float32 from rank 2") !=
        std::string::npos);
}

TEST_CASE("the sentence has the program's function") {
  Calls calls;
  calls.past(kWorld, 3)
      .enters(2, kWorld, mpi(all_reduce(), "MPI_Allreduce"))
      .enter({0, 1, 3}, kWorld, mpi(operation("comm_split", 41), "MPI_Comm_split"));
  CHECK(hang(calls).sentence ==
        "hang: rank 2 called MPI_Allreduce of 4096 float32 (train.py:33) where ranks 0-1,3 called "
        "MPI_Comm_split (train.py:41), call 4 of group \"MPI_COMM_WORLD\"");
}

TEST_CASE("a receive from any rank waits for all that may send") {
  Calls calls;
  calls.message(0, kWorld, any_recv());
  for (const base::Rank rank : {1, 2, 3}) {
    calls.message(rank, kWorld, mpi(recv(0, 1), "MPI_Recv"));
  }
  Verdict v = hang(calls);
  CHECK(v.id == "hang.p2p");
  CHECK(v.ranks.empty());
  CHECK(v.sentence.find("rank 0 waits in MPI_Recv of 8 float32 from any rank with any tag (train.py:24), "
                        "which none has sent") != std::string::npos);
  // A message that was sent and not received ends the wait.
  Calls sent = calls;
  sent.message(3, kWorld, past(send(0, 2))).message(0, kWorld, past(recv(3, 1)));
  CHECK(hang(sent).id != "hang.p2p");
  sent.message(0, kWorld, past(tagged(recv(3, 1), 5)));
  CHECK(hang(sent).id == "hang.p2p");
}

TEST_CASE("a message with another tag has arrived") {
  Calls calls;
  calls.past(kWorld, 3)
      .message(1, kWorld, mpi(tagged(recv(0, 1), 8), "MPI_Recv"))
      .message(0, kWorld, past(tagged(send(1, 1), 7)))
      .enter({0, 2, 3}, kWorld, mpi(operation("barrier", 50), "MPI_Barrier"));
  const Verdict v = hang(calls);
  CHECK(v.id == "hang.p2p");
  CHECK(v.sentence.find("rank 1 called MPI_Recv of 8 float32 from rank 0 with tag 8 (train.py:24)") !=
        std::string::npos);
  CHECK(v.sentence.find("rank 0 called send of 8 float32 to rank 1 with tag 7") != std::string::npos);
  // It was received: then the receive itself is the fault.
  Calls received = calls;
  received.message(1, kWorld, past(tagged(recv(0, 1), 7)));
  CHECK(hang(received).id == "hang.mismatch");
}

TEST_CASE("receives may be larger than their messages") {
  Calls calls;
  calls.message(0, kWorld, mpi(send(1, 1, 20, 8), "MPI_Send"))
      .message(1, kWorld, mpi(recv(0, 1, 24, 100), "MPI_Recv"));
  CHECK(hang(calls, 2).sentence.find("differ") == std::string::npos);
}

TEST_CASE("only requests that a rank waits for keep it") {
  Calls calls;
  model::CollectiveCall idle = mpi(recv(1, 1), "MPI_Irecv");
  idle.stage = CallStage::launched;
  calls.past(kWorld, 3).message(0, kWorld, idle).enter({0, 1, 2}, kWorld, mpi(all_reduce(), "MPI_Allreduce"));
  const Verdict v = hang(calls);
  CHECK(v.id == "hang.not_entered");
  CHECK(v.ranks == RankSet{3});
}

TEST_CASE("a lock of a window") {
  const Group window{.name = "window", .members = {0, 1, 2, 3}, .source = model::CallSource::mpi};
  Calls calls;
  model::CollectiveCall lock = mpi(operation("win_lock", 60), "MPI_Win_lock");
  lock.sequence = 1;
  lock.peer = 2;
  lock.exclusive = true;
  calls.past(kWorld, 3).past(window, 1).enter({0, 2, 3}, kWorld,
                                              mpi(operation("barrier", 50), "MPI_Barrier"));
  calls.message(1, window, lock);
  calls.comm(0, window).locks = {{.target = 2, .exclusive = true}};
  const Verdict v = hang(calls);
  CHECK(v.id == "hang.order");
  CHECK(
      v.sentence.find("rank 1 waits in MPI_Win_lock on rank 2 (train.py:60) on communicator \"window\" for a "
                      "lock that rank 0 holds") != std::string::npos);
  // Shared locks do not exclude each other, and neither does a lock on another rank.
  Calls shared = calls;
  shared.comm(1, window).point_to_point.back().exclusive = false;
  shared.comm(0, window).locks = {{.target = 2, .exclusive = false}};
  CHECK(hang(shared).id != "hang.order");
  Calls elsewhere = calls;
  elsewhere.comm(0, window).locks = {{.target = 3, .exclusive = true}};
  CHECK(hang(elsewhere).id != "hang.order");
}

TEST_CASE("the place of a rank in MPI is the line of the program") {
  Job job(2);
  job.all({native("opal_progress", "libopen-pal.so.40"), native("PMPI_Barrier", "libmpi.so.40"),
           native("MPI_Barrier", "libxpurun_preload.so"), native("residual", "heat"), native("main", "heat")})
      .hang_dump();
  const Verdict v = diagnose(job.facts);
  REQUIRE(!v.waiting.empty());
  CHECK(v.waiting[0].where.function == "residual");
  CHECK(v.waiting[0].what == "MPI_Barrier");
}

TEST_CASE("one message without a counterpart keeps a wait for several") {
  const std::string receives = "MPI_Waitall(MPI_Irecv)";
  const std::string sends = "MPI_Waitall(MPI_Isend)";
  Calls calls;
  // Rank 1 exchanges with rank 3 and should with rank 0; the message between ranks 1 and 3 has both ends.
  calls.message(1, kWorld, mpi(send(3, 5), sends))
      .message(3, kWorld, mpi(recv(1, 5), receives))
      .message(1, kWorld, mpi(recv(2, 1), receives))
      .message(0, kWorld, mpi(recv(1, 5), receives))
      .message(2, kWorld, mpi(recv(0, 5), receives))
      .message(3, kWorld, mpi(recv(0, 5), receives));
  CHECK(hang(calls).id == "hang.p2p");
  // A wait for any of them ends.
  Calls any = calls;
  for (model::CollectiveCall& call : any.comm(1, kWorld).point_to_point) {
    call.name = "MPI_Waitany(MPI_Isend)";
  }
  CHECK(hang(any).id != "hang.p2p");
}

TEST_CASE("a rank that has come to the end owes a message") {
  Calls calls;
  calls.message(3, kWorld, any_recv(0))
      .enter({0, 1, 2}, kWorld, mpi(operation("finalize", 60), "MPI_Finalize"));
  const Verdict v = hang(calls);
  CHECK(v.id == "hang.p2p");
  CHECK(v.ranks == RankSet{0});
  CHECK_MESSAGE(
      v.sentence.find("rank 3 waits in MPI_Recv of 8 float32 from rank 0 with any tag (train.py:24)") !=
          std::string::npos,
      v.sentence);
}

TEST_CASE("a receive from any rank has no number, and is named all the same") {
  CallFinding f{.fault = CallFault::operation, .accused = {2}, .waiting = {0, 1}};
  f.collective.name = "MPI_COMM_WORLD";
  f.collective.sequence = 1;
  f.collective.calls = {{.ranks = {2}, .op = "recv", .name = "MPI_Mprobe", .peer = 0, .tag = model::kAnyTag},
                        {.ranks = {0, 1}, .sequence = 1, .op = "barrier", .name = "MPI_Barrier"},
                        {.ranks = {3}}};
  CHECK(
      fault_text(f, [](const RankSet& ranks) { return rank_words(ranks); }) ==
      "rank 2 called MPI_Mprobe from rank 0 with any tag where ranks 0-1 called MPI_Barrier, call 1 of group "
      "\"MPI_COMM_WORLD\"");
}
