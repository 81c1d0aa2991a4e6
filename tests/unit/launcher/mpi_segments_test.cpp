// Content written by the preload library becomes facts; content written by anything else does no harm.
#include "launcher/mpi/mpi_segments.h"

#include "common/wire/mpi_functions.h"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <random>

using namespace xpurun;
using namespace xpurun::launcher;
using model::CallStage;
using wire::MpiFunction;

namespace {

constexpr base::MonoNs kSegmentNow = 10'000'000'000;

struct WrittenCalls {
  std::unique_ptr<wire::MpiSegment> memory = std::make_unique<wire::MpiSegment>();

  WrittenCalls() {
    std::memset(static_cast<void*>(memory.get()), 0, sizeof *memory);
    wire::MpiComm& world = memory->comms[0];
    world.state = static_cast<uint32_t>(wire::MpiCommState::live);
    world.rank = 1;
    world.size = 4;
    std::strcpy(world.name, "MPI_COMM_WORLD");
    memory->threads[0].tid = 7;
    memory->threads[0].steps = 100;
  }
  static void call(wire::MpiCall& c, MpiFunction function, int peer, int tag, uint64_t sequence) {
    c.function = static_cast<uint32_t>(function);
    c.comm = 0;
    c.peer = peer;
    c.tag = tag;
    c.count = 8;
    c.type = static_cast<uint32_t>(wire::MpiType::INT);
    c.sequence = sequence;
    c.called_ns = 9'000'000'000;
  }
  wire::MpiRequest& request(uint32_t at, MpiFunction function, int peer, uint64_t sequence) {
    wire::MpiRequest& r = memory->requests[at];
    r.handle = 100 + at;
    r.state = static_cast<uint32_t>(wire::MpiRequestState::pending);
    call(r.call, function, peer, 3, sequence);
    return r;
  }
  void channel(uint32_t at, bool receives, int peer, int tag, uint64_t started) {
    memory->channels[at].key = wire::channel_key({0, receives, peer, tag});
    memory->channels[at].started = started;
  }
  model::Communicator read() const { return read_mpi_calls(*memory, kSegmentNow).at(0); }
};

}  // namespace

TEST_CASE("a rank inside of a collective of MPI") {
  WrittenCalls w;
  wire::MpiComm& world = w.memory->comms[0];
  world.called = 2;
  world.open = 1;
  WrittenCalls::call(world.collectives[1], MpiFunction::MPI_Barrier, wire::kMpiNoRank, 0, 1);
  WrittenCalls::call(world.collectives[2], MpiFunction::MPI_Bcast, 3, 0, 2);
  const model::Communicator c = w.read();
  CHECK(c.source == model::CallSource::mpi);
  CHECK(c.members == std::vector<base::Rank>{0, 1, 2, 3});
  REQUIRE(c.calls.size() == 2);
  CHECK((c.called == 2 && c.done == 1 && c.done_known));
  CHECK((c.calls[0].stage == CallStage::done && c.calls[0].op == "barrier"));
  const model::CollectiveCall& open = c.calls[1];
  CHECK((open.stage == CallStage::called && open.op == "broadcast" && open.name == "MPI_Bcast"));
  CHECK((open.root == 3 && open.count == 8 && open.dtype == "int32"));
  CHECK(open.age_s == doctest::Approx(1));
}

TEST_CASE("a request is awaited while its thread has done nothing else since the wait") {
  WrittenCalls w;
  wire::MpiRequest& r = w.request(5, MpiFunction::MPI_Irecv, 2, 4);
  r.waited_by = static_cast<uint32_t>(MpiFunction::MPI_Test);
  r.waited_at = 100;
  w.request(6, MpiFunction::MPI_Isend, 3, 1);
  model::Communicator c = w.read();
  REQUIRE(c.point_to_point.size() == 2);
  CHECK(
      (c.point_to_point[0].stage == CallStage::called && c.point_to_point[0].name == "MPI_Test(MPI_Irecv)"));
  CHECK((c.point_to_point[0].peer == 2 && c.point_to_point[0].tag == 3 && c.point_to_point[0].sequence == 4));
  CHECK((c.point_to_point[1].stage == CallStage::launched && c.point_to_point[1].op == "send"));
  w.memory->threads[0].steps = 101;
  c = w.read();
  CHECK(c.point_to_point[0].stage == CallStage::launched);
}

TEST_CASE("calls of messages, and how many went to each peer") {
  WrittenCalls w;
  w.channel(1, true, 0, 8, 2);
  w.channel(2, false, 0, 7, 5);
  SUBCASE("a probe looks for the next message") {
    WrittenCalls::call(w.memory->threads[0].call, MpiFunction::MPI_Probe, 0, 8, 0);
  }
  SUBCASE("a loop that polls, too") {
    WrittenCalls::call(w.memory->threads[0].polled, MpiFunction::MPI_Iprobe, 0, 8, 0);
    w.memory->threads[0].polled_at = 100;
  }
  const model::Communicator c = w.read();
  REQUIRE(c.point_to_point.size() == 3);
  CHECK((c.point_to_point[0].stage == CallStage::called && c.point_to_point[0].sequence == 3));
  CHECK((c.point_to_point[1].op == "recv" && c.point_to_point[1].sequence == 2));
  CHECK((c.point_to_point[2].op == "send" && c.point_to_point[2].tag == 7 &&
         c.point_to_point[2].sequence == 5));
}

TEST_CASE("MPI_Sendrecv is a send and a receive; a small send ends without its receiver") {
  WrittenCalls w;
  wire::MpiThread& main = w.memory->threads[0];
  WrittenCalls::call(main.call, MpiFunction::MPI_Sendrecv, 0, 1, 1);
  WrittenCalls::call(main.other, MpiFunction::MPI_Sendrecv, 2, 1, 1);
  CHECK(w.read().point_to_point.size() == 1);
  CHECK(w.read().point_to_point[0].op == "recv");
  main.call.count = 1 << 20;
  REQUIRE(w.read().point_to_point.size() == 2);
  CHECK(w.read().point_to_point[0].op == "send");
}

TEST_CASE("any content is read without harm") {
  WrittenCalls w;
  std::minstd_rand random(5);
  auto* bytes = static_cast<unsigned char*>(static_cast<void*>(w.memory.get()));
  for (int round = 0; round < 20; ++round) {
    for (size_t i = 0; i < sizeof *w.memory; i += 1 + random() % 40) {
      bytes[i] = static_cast<unsigned char>(random());
    }
    for (wire::MpiComm& comm : w.memory->comms) {
      comm.state = static_cast<uint32_t>(wire::MpiCommState::live);
    }
    CHECK(read_mpi_calls(*w.memory, kSegmentNow).size() == wire::kMpiComms);
  }
}

TEST_CASE("both groups of an intercommunicator are one list of ranks, the same on both sides") {
  const auto of_group = [](bool second) {
    WrittenCalls w;
    wire::MpiComm& both = w.memory->comms[3];
    both.state = static_cast<uint32_t>(wire::MpiCommState::live);
    both.flags = wire::kMpiCommInter;
    both.identity = 5;
    both.rank = 0;
    both.size = second ? 1 : 2;
    both.remote_size = second ? 2 : 1;
    both.members = 1;
    const std::vector<int> members = second ? std::vector<int>{1, 0, 2} : std::vector<int>{0, 2, 1};
    std::copy(members.begin(), members.end(), w.memory->members);
    both.called = 1;
    WrittenCalls::call(both.collectives[1], MpiFunction::MPI_Bcast, 0, 0, 1);
    wire::MpiCall& message = w.memory->threads[0].call;
    WrittenCalls::call(message, MpiFunction::MPI_Recv, 0, 4, 1);
    message.comm = 3;
    return read_mpi_calls(*w.memory, kSegmentNow, {}).at(1);
  };
  const model::Communicator first = of_group(false);
  const model::Communicator second = of_group(true);
  CHECK(first.members == std::vector<base::Rank>{0, 2, 1});
  CHECK(second.members == first.members);
  CHECK((first.rank == 0 && second.rank == 2 && first.size == 3 && second.size == 3));
  CHECK((first.point_to_point.at(0).peer == 2 && second.point_to_point.at(0).peer == 0));
  CHECK((first.comparable && first.calls.at(0).root == -1 && first.calls.at(0).count == 0));
}

TEST_CASE("a persistent collective has a number for its creation and for each start") {
  WrittenCalls w;
  wire::MpiComm& world = w.memory->comms[0];
  world.called = 2;
  WrittenCalls::call(world.collectives[1], MpiFunction::MPI_Allreduce_init, wire::kMpiNoRank, 0, 1);
  WrittenCalls::call(world.collectives[2], MpiFunction::MPI_Allreduce_init, wire::kMpiNoRank,
                     wire::kMpiStarted, 2);
  wire::MpiRequest& r = w.request(5, MpiFunction::MPI_Allreduce_init, wire::kMpiNoRank, 2);
  r.waited_by = static_cast<uint32_t>(MpiFunction::MPI_Wait);
  r.waited_at = 100;
  const model::Communicator c = w.read();
  REQUIRE(c.calls.size() == 2);
  CHECK((c.calls[0].op == "all_reduce_init" && c.calls[0].stage == CallStage::done));
  CHECK((c.calls[1].op == "all_reduce" && c.calls[1].name == "MPI_Wait(MPI_Allreduce_init)" &&
         c.calls[1].stage == CallStage::called));
}

TEST_CASE("a message goes when all of its partitions are ready; one of an epoch has the name of its wait") {
  WrittenCalls w;
  wire::MpiRequest& part = w.request(5, MpiFunction::MPI_Psend_init, 2, 1);
  part.partitions = 4;
  part.ready = 3;
  wire::MpiRequest& epoch = w.request(6, MpiFunction::MPI_Win_post, 3, 1);
  epoch.waited_by = static_cast<uint32_t>(MpiFunction::MPI_Win_wait);
  epoch.waited_at = 100;
  CHECK(w.read().point_to_point.size() == 1);
  part.ready = 4;
  const model::Communicator c = w.read();
  REQUIRE(c.point_to_point.size() == 2);
  CHECK((c.point_to_point[0].op == "send" && c.point_to_point[0].name == "MPI_Psend_init"));
  CHECK((c.point_to_point[1].op == "recv" && c.point_to_point[1].name == "MPI_Win_wait"));
}
