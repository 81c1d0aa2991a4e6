#include "launcher/collect/collector.h"

#include <doctest/doctest.h>

#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace xpurun::launcher;
namespace base = xpurun::base;
namespace wire = xpurun::wire;

namespace {

// The rank's side.
wire::Segment* map(int fd) {
  void* memory = ::mmap(nullptr, sizeof(wire::Segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  REQUIRE(memory != MAP_FAILED);
  return static_cast<wire::Segment*>(memory);
}

void make_op(wire::Segment& rank, uint32_t index, uint64_t calls, uint64_t work_each) {
  wire::OpEntry& op = rank.ops[index];
  op.key.op_class = static_cast<uint8_t>(wire::OpClass::matmul);
  op.key.dtype[0] = 14;
  op.calls = calls;
  op.work = calls * work_each;
  op.state = static_cast<uint32_t>(wire::SlotState::ready);
}

void write_event(wire::Segment& rank, uint32_t op, uint64_t duration_ns) {
  const uint64_t head = rank.header.ring_head;
  wire::Event& event = rank.ring[head % wire::kRingSlots];
  event.op = op;
  event.duration_ns = duration_ns;
  rank.header.ring_head = head + 1;
}

}  // namespace

TEST_CASE("a rank's data is readable even after its death") {
  Collector collector(wire::Level::light, 1000);
  const auto fd = collector.attach(42);
  REQUIRE(fd);
  wire::Segment* rank = map(*fd);
  CHECK(rank->header.magic == wire::kSegmentMagic);
  CHECK(rank->header.to_rank.level == 1);
  CHECK(rank->header.to_rank.budget_ppm == 1000);
  // The rank cannot change the size of the memory.
  CHECK(::ftruncate(*fd, 0) != 0);
  CHECK(::ftruncate(*fd, 1 << 24) != 0);
  std::strcpy(rank->header.device_name, "NVIDIA H200");
  make_op(*rank, 9, 2, 989'400'000'000);
  write_event(*rank, 9, 1'000'000);  // 1 ms at the peak
  write_event(*rank, 9, 3'000'000);
  write_event(*rank, 5, 1);     // an entry that is not ready
  write_event(*rank, 5000, 1);  // and one that does not exist
  ::munmap(rank, sizeof(wire::Segment));
  collector.sent(42);

  collector.drain(base::s_to_ns(1));
  const RankTiming* t = collector.read({.pid = 42, .rank = 7, .local_rank = 1, .alive = false});
  REQUIRE(t != nullptr);
  CHECK(t->rank == 7);
  CHECK(t->device_name == "NVIDIA H200");
  REQUIRE(t->ops.size() == 1);
  CHECK(t->ops[0].calls == 2);
  CHECK(t->matmul_durations.at("bf16").total() == 2);
  REQUIRE(t->recent.size() == 2);
  CHECK(t->recent.begin()->first.level == 4);
  CHECK(t->recent.rbegin()->first.level == 10);
  CHECK(collector.read({.pid = 43}) == nullptr);

  collector.drain(base::s_to_ns(302));
  CHECK(collector.read({.pid = 42})->recent.empty());
  CHECK(collector.read({.pid = 42})->matmul_durations.at("bf16").total() == 2);
}

TEST_CASE("a ring with an invalid head") {
  Collector collector(wire::Level::full, 1000);
  const auto fd = collector.attach(42);
  REQUIRE(fd);
  wire::Segment* rank = map(*fd);
  rank->header.ring_head = UINT64_MAX - 3;
  collector.drain(0);
  rank->header.ring_head = 5;
  collector.drain(0);
  CHECK(rank->header.ring_tail == 5);
  ::munmap(rank, sizeof(wire::Segment));
}

TEST_CASE("events are passed on, and rates come from exact counts") {
  Collector collector(wire::Level::light, 1000);
  collector.keep_shapes();
  size_t handed = 0;
  collector.on_events([&](base::Pid pid, const RankTiming& timing, std::span<const wire::Event> events,
                          const wire::Segment& memory) {
    CHECK(pid == 42);
    CHECK(timing.health.ring_dropped == 5);
    CHECK(memory.ops[9].calls.load() == 2);
    handed += events.size();
  });
  const auto fd = collector.attach(42);
  REQUIRE(fd);
  wire::Segment* rank = map(*fd);
  rank->header.health.ring_dropped = 5;
  make_op(*rank, 9, 2, 1000);
  rank->ops[9].key.m = 64;
  write_event(*rank, 9, 1'000);
  write_event(*rank, 5, 1);     // an entry that is not ready
  write_event(*rank, 5000, 1);  // and one that does not exist
  collector.drain(base::s_to_ns(1));
  CHECK(handed == 1);
  rank->ops[9].calls = 22;
  rank->ops[9].work = 22'000;
  collector.drain(base::s_to_ns(1.5));  // too early for a new mark
  collector.drain(base::s_to_ns(5));
  const RankTiming* t = collector.read({.pid = 42});
  CHECK(t->rates.flops_per_s == doctest::Approx(5000));
  const ShapeSeries& shape = t->shapes.at({.batch = 0, .m = 64, .n = 0, .k = 0});
  CHECK(shape.calls == 22);
  CHECK(shape.calls_per_s == doctest::Approx(5));
  CHECK(shape.samples.size() == 1);
  ::munmap(rank, sizeof(wire::Segment));
}

TEST_CASE("the level is set in all segments") {
  Collector collector(wire::Level::light, 1000);
  const auto fd = collector.attach(42);
  REQUIRE(fd);
  wire::Segment* rank = map(*fd);
  collector.set_level(wire::Level::off);
  CHECK(rank->header.to_rank.level == 0);
  const auto later = collector.attach(43);
  REQUIRE(later);
  wire::Segment* other = map(*later);
  CHECK(other->header.to_rank.level == 0);
  ::munmap(rank, sizeof(wire::Segment));
  ::munmap(other, sizeof(wire::Segment));
}
