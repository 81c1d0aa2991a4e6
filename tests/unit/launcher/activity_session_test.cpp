#include "launcher/capture/activity_session.h"

#include "common/model/timing/event_file.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>

#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::launcher;
using model::ActivityStatus;
using test::kRank0;
using test::kRank1;

namespace {

// The rank's end of its memory.
class RankEnd {
 public:
  explicit RankEnd(int descriptor)
      : memory_(static_cast<wire::CaptureSegment*>(::mmap(
            nullptr, sizeof(wire::CaptureSegment), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0))) {
    REQUIRE(memory_ != MAP_FAILED);
  }
  ~RankEnd() { ::munmap(memory_, sizeof(wire::CaptureSegment)); }
  RankEnd(const RankEnd&) = delete;
  RankEnd& operator=(const RankEnd&) = delete;

  wire::CaptureHeader& header() { return memory_->header; }
  uint32_t name(uint32_t offset, const char* text) {
    const uint32_t index = header().names++;
    std::memcpy(memory_->text + offset, text, std::strlen(text));
    memory_->names[index] = {offset, static_cast<uint32_t>(std::strlen(text))};
    return index;
  }
  void spoil(uint32_t index) { memory_->names[index] = {wire::kCaptureText - 1, 4000}; }
  void record(wire::CapturedRecord r) {
    r.begin_ns = test::kStart + 1000 * header().records;
    r.duration_ns = 500;
    memory_->records[header().records] = r;
    ++header().records;
  }
  void end(wire::CaptureProblem problem = wire::CaptureProblem::none) {
    header().begin_ns = test::kStart;
    header().end_ns = test::kStart + 2'000'000'000;
    header().problem = static_cast<uint32_t>(problem);
    header().state = static_cast<uint32_t>(
        problem == wire::CaptureProblem::none ? wire::CaptureState::done : wire::CaptureState::failed);
  }

 private:
  wire::CaptureSegment* memory_;
};

struct ActivitySessionScene : test::JobScene {
  Collector collector{wire::Level::light, 1000};
  ActivitySession session{
      {loop, storage, table, collector}, "node-a", {.step_s = [](base::MonoNs from, base::MonoNs) {
        return from < test::kStart ? 0.1 : 0.12;
      }}};
  std::optional<model::GpuCapture> result;
  std::string directory;

  explicit ActivitySessionScene(std::string place) : directory("run/captures/" + std::move(place)) {
    for (const base::Pid pid : {kRank0, kRank1}) {
      REQUIRE(collector.attach(pid));
      collector.sent(pid);
    }
  }
  void start(model::RankSet ranks = {}) {
    session.start({.seconds = 2, .directory = directory, .ranks = std::move(ranks)},
                  [this](const model::GpuCapture& done) { result = done; });
  }
  int attach(base::Pid pid) {
    int out = -2;
    session.attach(pid, [&out](int fd) { out = fd < 0 ? fd : ::dup(fd); });
    return out;
  }
};

wire::CapturedRecord record_of(wire::CapturedKind kind, uint32_t name, uint64_t bytes = 0) {
  return {.bytes = bytes, .name = name, .correlation = 9, .lane = 7, .kind = static_cast<uint8_t>(kind)};
}

}  // namespace

TEST_CASE("activity: what a rank records becomes an event file, and gpu.json says so") {
  ActivitySessionScene s("activity-1");
  s.start();
  CHECK(s.session.active());
  const base::UniqueFd fd(s.attach(kRank0));
  CHECK(s.attach(kRank0) == -1);
  CHECK(s.attach(4711) == -1);
  RankEnd rank(fd.get());
  CHECK(rank.header().duration_ms == 2000);
  const uint32_t kernel = rank.name(0, "gemm");
  const uint32_t copy = rank.name(10, "Memcpy HtoD");
  const uint32_t call = rank.name(30, "cudaLaunchKernel");
  rank.record(record_of(wire::CapturedKind::kernel, kernel));
  rank.record(record_of(wire::CapturedKind::copy, copy, 4096));
  s.run_for(0.5);
  rank.record(record_of(wire::CapturedKind::runtime, call));
  rank.header().dropped = 2;
  rank.end();
  s.run_for(0.5);
  CHECK_FALSE(s.result);  // rank 1 has not answered
  s.run_for(6);
  REQUIRE(s.result);
  CHECK_FALSE(s.session.active());
  REQUIRE(s.result->ranks.size() == 2);
  const model::RankActivity& r = s.result->ranks[0];
  CHECK(r.status == ActivityStatus::lossy);
  CHECK(r.records == 3);
  CHECK(r.lost == 2);
  CHECK(r.seconds == doctest::Approx(2));
  CHECK(s.result->ranks[1].status == ActivityStatus::no_answer);
  CHECK(s.result->step_before_s == 0.1);
  CHECK(s.result->step_during_s == 0.12);
  CHECK(model::load_gpu_capture(s.directory + "/gpu.json")->ranks.size() == 2);
  const auto file = model::load_event_file(s.directory + "/rank-0.xev");
  REQUIRE(file);
  REQUIRE(file->events.size() == 3);
  CHECK(file->lost == 2);
  CHECK(file->ops.at(file->events[0].event.op).function == "gemm");
  CHECK(file->events[0].event.stream == 7);
  CHECK(file->events[1].event.begin_ns == test::kStart + 1000);
  CHECK(file->ops.at(file->events[1].event.op).work == 4096);
  CHECK(file->events[2].event.delay_us == 7);
  CHECK(file->events[2].event.sequence == 9);
  CHECK(file->ops.at(file->events[2].event.op).key.op_class == static_cast<uint8_t>(wire::OpClass::host));
}

TEST_CASE("activity: chosen ranks, and why there is nothing") {
  ActivitySessionScene s("activity-2");
  s.start({1});
  CHECK(s.attach(kRank0) == -1);
  const base::UniqueFd fd(s.attach(kRank1));
  RankEnd rank(fd.get());
  rank.end(wire::CaptureProblem::other_client);
  s.run_for(0.3);
  REQUIRE(s.result);
  REQUIRE(s.result->ranks.size() == 1);
  CHECK(s.result->ranks[0].rank == 1);
  CHECK(s.result->ranks[0].status == ActivityStatus::other_client);
  CHECK_FALSE(s.result->ranks[0].has_records());
}

TEST_CASE("activity: nonsense of a rank is bounded") {
  ActivitySessionScene s("activity-3");
  s.start({0});
  const base::UniqueFd fd(s.attach(kRank0));
  RankEnd rank(fd.get());
  rank.name(0, "kernel");
  rank.spoil(0);
  rank.record(record_of(wire::CapturedKind::kernel, 0));
  rank.record(record_of(wire::CapturedKind::kernel, 0xffffffff));
  rank.record(record_of(static_cast<wire::CapturedKind>(200), 0));
  rank.header().records = ~uint64_t{0};
  rank.end(static_cast<wire::CaptureProblem>(99));
  s.run_for(10);
  REQUIRE(s.result);
  CHECK(s.result->ranks[0].status == ActivityStatus::failed);
  const auto file = model::load_event_file(s.directory + "/rank-0.xev");
  REQUIRE(file);
  CHECK(file->complete);
  CHECK(file->events.size() == wire::kCaptureRecords);
}

TEST_CASE("activity: more kinds of work than entries") {
  ActivitySessionScene s("activity-4");
  s.start({0});
  const base::UniqueFd fd(s.attach(kRank0));
  RankEnd rank(fd.get());
  const uint32_t copy = rank.name(0, "Memcpy HtoD");
  for (uint64_t bytes = 1; bytes <= 3000; ++bytes) {
    rank.record(record_of(wire::CapturedKind::copy, copy, bytes));
  }
  rank.end();
  s.run_for(1);
  REQUIRE(s.result);
  CHECK(s.result->ranks[0].records == 3000);
  CHECK(model::load_event_file(s.directory + "/rank-0.xev")->events.size() == 3000);
}
