// Content written by Python becomes facts; content written by anything else does no harm.
#include "launcher/collect/calls/call_lanes.h"
#include "launcher/collect/python_segments.h"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <random>
#include <sys/mman.h>

using namespace xpurun;
using namespace xpurun::launcher;
using model::CallStage;

namespace {

constexpr base::MonoNs kNow = 10'000'000'000;

class WrittenSegment {
 public:
  WrittenSegment() : memory_(std::make_unique<wire::PythonSegment>()) {
    std::memset(memory_.get(), 0, sizeof *memory_);
    memory_->groups = 1;
    wire::TorchGroup& g = group();
    g.state = 1;
    g.rank = 1;
    g.size = 2;
    const int32_t members[] = {4, 6};
    g.members = bytes(members, sizeof members);
    g.id = text("abc.0");
    g.name = text("0");
  }

  wire::PythonSegment& memory() { return *memory_; }
  wire::TorchGroup& group() { return memory_->group[0]; }
  uint32_t text(const char* value) { return bytes(value, std::strlen(value)); }
  wire::TorchCall call(uint64_t sequence, const char* op, bool left) {
    return {.sequence = sequence,
            .called_ns = 9'000'000'000,
            .left_ns = left ? 9'500'000'000U : 0,
            .count = 5,
            .op = text(op),
            .dtype = text("float32"),
            .root = -1,
            .peer = -1,
            .file = text("/home/u/train.py"),
            .function = text("step"),
            .line = 12};
  }
  void collective(uint64_t sequence, const char* op, bool left) {
    group().collectives[sequence % wire::kTorchCollectives] = call(sequence, op, left);
    group().called = sequence;
    group().left = left ? sequence : sequence - 1;
  }
  void point_to_point(const char* op, int32_t peer, bool left, uint32_t flags) {
    wire::TorchCall c = call(1, op, left);
    c.peer = peer;
    c.flags = flags;
    group().others[group().point_to_point++ % wire::kTorchPointToPoint] = c;
  }
  std::vector<model::Communicator> read() { return read_groups(*memory_, kNow); }
  // As the diagnosis gets them.
  model::RankCollectives arranged() {
    model::RankCollectives rank{.rank = 4, .communicators = read()};
    arrange_calls(rank);
    return rank;
  }

 private:
  uint32_t bytes(const void* data, size_t size) {
    const uint32_t ref = used_;
    const auto length = static_cast<uint32_t>(size);
    std::memcpy(memory_->text + ref, &length, sizeof length);
    std::memcpy(memory_->text + ref + sizeof length, data, size);
    used_ += sizeof length + (length + 3) / 4 * 4;
    return ref;
  }

  std::unique_ptr<wire::PythonSegment> memory_;
  uint32_t used_ = 4;
};

}  // namespace

TEST_CASE("a gloo group and its latest calls") {
  WrittenSegment w;
  for (uint64_t s = 1; s <= 20; ++s) {
    w.collective(s, "all_reduce", true);
  }
  w.collective(21, "broadcast", false);
  const model::RankCollectives rank = w.arranged();
  REQUIRE(rank.communicators.size() == 1);
  const model::Communicator& c = rank.communicators[0];
  CHECK(c.source == model::CallSource::torch);
  CHECK(c.id == "abc.0");
  CHECK(c.rank == 1);
  CHECK(c.members == std::vector<base::Rank>{4, 6});
  CHECK(c.called == 21);
  CHECK(c.done == 20);
  CHECK(c.done_known);
  REQUIRE(c.calls.size() == 8);
  CHECK(c.calls.front().sequence == 14);
  CHECK(c.calls.front().stage == CallStage::done);
  CHECK(c.calls.back().op == "broadcast");
  CHECK(c.calls.back().stage == CallStage::called);
  CHECK(c.calls.back().age_s == doctest::Approx(1));
  CHECK(c.calls.back().where.line == 12);
  CHECK(c.calls.back().where.function == "step");
  REQUIRE(rank.lanes.size() == 1);
  CHECK(rank.lanes[0].kinds.size() == 2);
  CHECK(rank.lanes[0].order.size() == 21);
  CHECK(rank.lanes[0].order.back() == 1);
  CHECK(rank.lanes[0].numbers.front() == 1);
}

TEST_CASE("the calls of several groups and threads in the order in which they were made") {
  WrittenSegment w;
  w.memory().groups = 2;
  w.memory().group[1] = w.group();
  w.memory().group[1].id = w.text("abc.1");
  const uint32_t worker = w.text("worker");
  for (uint64_t s = 1; s <= 4; ++s) {
    w.collective(s, "all_reduce", true);
    w.group().collectives[s].called_ns = 1000 * s;
  }
  w.group().collectives[4].thread = worker;
  w.group().collectives[3].flags = wire::kTorchInHandler;
  w.memory().group[1].collectives[1] = w.call(1, "broadcast", true);
  w.memory().group[1].collectives[1].called_ns = 1500;
  w.memory().group[1].called = 1;
  const model::RankCollectives rank = w.arranged();
  REQUIRE(rank.lanes.size() == 2);
  const model::CallLane& main = rank.lanes[0];
  CHECK(main.thread.empty());
  REQUIRE(main.order.size() == 4);
  CHECK(main.kinds[static_cast<size_t>(main.order[1])].communicator == "abc.1");
  CHECK(main.kinds[static_cast<size_t>(main.order[3])].call.in_handler);
  CHECK(main.numbers == std::vector<uint64_t>{1, 1, 2, 3});
  CHECK(rank.lanes[1].thread == "worker");
  CHECK(rank.lanes[1].numbers == std::vector<uint64_t>{4});
}

TEST_CASE("what a call has beside its size: the ranks of a new group, the sizes per peer") {
  WrittenSegment w;
  w.collective(1, "new_group", true);
  w.group().collectives[1].detail = w.text("0,2");
  w.collective(2, "all_to_all", false);
  w.group().collectives[2].detail = 65;
  wire::TorchSplits& splits = w.memory().splits[65 % wire::kTorchSplits];
  splits.number = 65;
  splits.peers = 2;
  splits.sent[1] = 7;
  splits.received[0] = 9;
  auto calls = w.read()[0].calls;
  CHECK(calls[0].group_ranks == "0,2");
  CHECK(calls[1].sent == std::vector<uint64_t>{0, 7});
  CHECK(calls[1].received == std::vector<uint64_t>{9, 0});
  splits.number = 65 + wire::kTorchSplits;  // overwritten
  CHECK(w.read()[0].calls[1].sent.empty());
  splits = {.number = 65, .peers = 1U << 31};
  CHECK(w.read()[0].calls[1].sent.empty());
}

TEST_CASE("of older calls, those whose sizes per peer changed are kept") {
  model::RankCollectives rank{.rank = 0};
  model::Communicator torch{
      .source = model::CallSource::torch, .id = "t", .rank = 0, .size = 2, .called = 200};
  for (uint64_t i = 1; i <= 200; ++i) {
    model::CollectiveCall call{.sequence = i, .op = "all_to_all", .age_s = 1000 - static_cast<double>(i)};
    call.sent = {8, i == 101 ? uint64_t{4} : 8};
    call.received = {8, 8};
    torch.calls.push_back(call);
  }
  rank.communicators = {torch};
  arrange_calls(rank);
  std::vector<uint64_t> kept;
  for (const model::CollectiveCall& call : rank.communicators[0].calls) {
    kept.push_back(call.sequence);
  }
  CHECK(kept == std::vector<uint64_t>{1, 101, 102, 193, 194, 195, 196, 197, 198, 199, 200});
  // Of programs whose sizes always change, no more than fit.
  for (model::CollectiveCall& call : torch.calls) {
    call.sent.assign(64, call.sequence);
    call.received.assign(64, 8);
  }
  rank.communicators = {torch};
  arrange_calls(rank);
  CHECK(rank.communicators[0].calls.size() == 8 + 16);
}

TEST_CASE("messages that NCCL has ended are not kept") {
  const auto kept = [](uint64_t made, uint64_t ended) {
    model::RankCollectives rank{.rank = 0};
    model::Communicator torch{
        .source = model::CallSource::torch, .id = "t", .rank = 0, .size = 2, .messages = 6};
    for (uint64_t i = 1; i <= 6; ++i) {
      torch.point_to_point.push_back({.sequence = (i + 1) / 2,
                                      .op = i % 2 == 1 ? "recv" : "send",
                                      .peer = 1,
                                      .stage = model::CallStage::launched,
                                      .age_s = 10 - static_cast<double>(i)});
    }
    rank.communicators = {torch, {.source = model::CallSource::nccl, .id = "n", .rank = 0, .size = 2}};
    rank.communicators[1].messages = made;
    rank.communicators[1].messages_done = ended;
    arrange_calls(rank);
    return rank.communicators[0].point_to_point;
  };
  REQUIRE(kept(6, 4).size() == 2);
  CHECK(kept(6, 4)[0].op == "recv");
  CHECK(kept(6, 4)[0].sequence == 3);
  CHECK(kept(6, 6).empty());
  CHECK(kept(6, 0).size() == 6);
  CHECK(kept(0, 0).size() == 6);  // nothing is known
  CHECK(kept(4, 4).size() == 6);  // two are of another backend
}

TEST_CASE("NCCL's calls get the line and the operation of the program's call") {
  model::RankCollectives rank{.rank = 0};
  const auto call = [](const char* op, uint64_t number, uint64_t count, double age_s) {
    model::CollectiveCall c{.sequence = number, .op = op, .count = count, .dtype = "float32", .age_s = age_s};
    return c;
  };
  const auto made = [&](const char* op, uint64_t number, uint64_t count, double age_s, int line) {
    model::CollectiveCall c = call(op, number, count, age_s);
    c.left_s = age_s - 0.0001;
    c.where = {.function = "step", .file = "train.py", .line = line};
    return c;
  };
  model::Communicator torch{.source = model::CallSource::torch, .id = "t", .rank = 0, .size = 2, .called = 2};
  torch.calls = {made("all_reduce", 1, 4, 3, 10), made("barrier", 2, 0, 1, 20)};
  model::Communicator nccl{.source = model::CallSource::nccl, .id = "n", .rank = 0, .size = 2, .called = 4};
  // A bucket of DDP, the metric, another bucket, the barrier.
  nccl.calls = {call("all_reduce", 1, 1000, 3.5), call("all_reduce", 2, 4, 3.003),
                call("all_reduce", 3, 1000, 2), call("all_reduce", 4, 1, 1.002)};
  rank.communicators = {torch, nccl};
  arrange_calls(rank);
  const auto& calls = rank.communicators[1].calls;
  CHECK(calls[0].where.file.empty());
  CHECK(calls[1].where.line == 10);
  CHECK(calls[2].where.file.empty());
  CHECK(calls[3].op == "barrier");
  CHECK(calls[3].where.line == 20);
  REQUIRE(rank.lanes.size() == 2);
  CHECK(rank.lanes[1].source == model::CallSource::nccl);
  CHECK(rank.lanes[1].order == std::vector<int>{0, 1, 0, 2});
}

TEST_CASE("a group has the name that the program has given") {
  WrittenSegment w;
  CHECK(w.read()[0].name == "0");
  w.group().description = w.text("mesh_tp");
  CHECK(w.read()[0].name == "mesh_tp");
}

TEST_CASE("asynchronous calls, and NCCL's, are not known to have ended") {
  WrittenSegment w;
  w.group().has_async = 1;
  w.collective(1, "all_reduce", true);
  w.group().collectives[1].flags = wire::kTorchAsync;
  const auto read = w.read();
  CHECK(read[0].launched == 1);
  CHECK_FALSE(read[0].done_known);
  CHECK(read[0].calls[0].stage == CallStage::launched);
}

TEST_CASE("point-to-point calls: calls in progress, and asynchronous calls without a later call") {
  WrittenSegment w;
  w.point_to_point("send", 0, true, wire::kTorchAsync);
  w.point_to_point("recv", 0, true, 0);
  w.point_to_point("send", 1, true, wire::kTorchAsync);
  w.point_to_point("recv", 1, false, 0);
  w.group().others[3].tag = 7;
  const auto calls = w.arranged().communicators[0].point_to_point;
  REQUIRE(calls.size() == 2);
  CHECK(calls[0].op == "send");
  CHECK(calls[0].peer == 1);
  CHECK(calls[1].stage == CallStage::called);
  CHECK(calls[0].tag == 0);
  CHECK(calls[1].tag == 7);
}

TEST_CASE("a destroyed group keeps its calls, and none of them is open") {
  WrittenSegment w;
  w.collective(1, "all_reduce", false);
  w.point_to_point("recv", 0, false, 0);
  w.group().state = 2;
  const auto rank = w.arranged();
  REQUIRE(rank.communicators.size() == 1);
  CHECK(rank.communicators[0].calls[0].stage == CallStage::done);
  CHECK(rank.communicators[0].done == 1);
  CHECK(rank.communicators[0].point_to_point.empty());
  CHECK(rank.lanes[0].order.size() == 2);
}

TEST_CASE("any bytes are read without harm") {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    WrittenSegment w;
    auto* bytes = reinterpret_cast<unsigned char*>(&w.memory());
    const size_t head = offsetof(wire::PythonSegment, group) + 3 * sizeof(wire::TorchGroup);
    for (size_t i = 16; i < head; ++i) {
      bytes[i] = static_cast<unsigned char>(random());
    }
    for (int g = 0; g < 3; ++g) {
      w.memory().group[g].state = 1;
      w.memory().group[g].called = UINT64_MAX - static_cast<uint64_t>(round % 3);
    }
    CHECK(w.read().size() >= 3);
  }
}

TEST_CASE("a process gets memory of a fixed size on request, and its facts outlive it") {
  PythonSegments segments;
  const auto fd = segments.attach(42);
  REQUIRE(fd);
  CHECK(::ftruncate(*fd, 1) != 0);
  void* mapped = ::mmap(nullptr, sizeof(wire::PythonSegment), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
  REQUIRE(mapped != MAP_FAILED);
  auto* memory = static_cast<wire::PythonSegment*>(mapped);
  CHECK(memory->magic == wire::kPythonSegmentMagic);
  memory->groups = 1;
  memory->group[0].state = 1;
  ::munmap(mapped, sizeof(wire::PythonSegment));
  segments.sent(42);
  model::CollectiveFacts facts;
  segments.add_to(facts, 42, 3, kNow);
  segments.add_to(facts, 43, 4, kNow);
  REQUIRE(facts.ranks.size() == 1);
  CHECK(facts.ranks[0].rank == 3);
  CHECK(facts.ranks[0].communicators.size() == 1);
}

TEST_CASE("what a process has passed to init_process_group, until the group exists") {
  WrittenSegment s;
  s.memory().groups = 0;
  CHECK_FALSE(default_group(s.memory()));
  s.memory().join_rank = 1;
  s.memory().join_size = 4;
  s.memory().join_place = s.text("127.0.0.1:29500");
  const auto member = default_group(s.memory());
  REQUIRE(member);
  CHECK((member->rank == 1 && member->size == 4));
  for (const int32_t rank : {-1, 4, INT32_MAX}) {
    s.memory().join_rank = rank;
    CHECK_FALSE(default_group(s.memory()));
  }
  s.memory().join_rank = 0;
  s.memory().join_size = UINT32_MAX;
  CHECK_FALSE(default_group(s.memory()));
  s.memory().groups = 1;
  CHECK(default_group(s.memory())->rank == 6);
}
