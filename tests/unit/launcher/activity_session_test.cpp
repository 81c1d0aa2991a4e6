#include "launcher/capture/activity_session.h"

#include "common/model/resources/resource_file.h"
#include "common/model/timing/event_file.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>

#include <algorithm>
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
  void metric(wire::Resource resource, const std::string& name) {
    const size_t length = std::min<size_t>(name.size(), wire::kMetricText);
    std::memcpy(header().sampling.metrics[static_cast<size_t>(resource)], name.data(), length);
    header().sampling.resources |= 1U << static_cast<uint32_t>(resource);
  }
  void sample(uint64_t begin_ns, float value) {
    wire::ResourceSample& s = memory_->samples[header().sampling.samples];
    s.begin_ns = begin_ns;
    s.duration_ns = 100'000;
    std::fill(std::begin(s.values), std::end(s.values), value);
    ++header().sampling.samples;
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

TEST_CASE("activity: samples of hardware counters become a resource file") {
  ActivitySessionScene s("activity-5");
  s.start();
  const base::UniqueFd fd(s.attach(kRank0));
  const base::UniqueFd other(s.attach(kRank1));
  RankEnd rank(fd.get());
  RankEnd without(other.get());
  rank.record(record_of(wire::CapturedKind::kernel, rank.name(0, "gemm")));
  rank.metric(wire::Resource::dram, "dram__throughput");
  rank.header().sampling.asked_ns = 100'000;
  rank.header().sampling.setup_ns = 500'000'000;
  rank.sample(test::kStart, 0.5F);
  s.run_for(0.3);
  rank.sample(test::kStart + 100'000, 0.25F);
  rank.sample(test::kStart + 300'000, 0.125F);
  rank.end();
  without.record(record_of(wire::CapturedKind::kernel, without.name(0, "gemm")));
  without.header().sampling.problem = static_cast<uint32_t>(wire::SamplingProblem::refused);
  without.header().sampling.step = static_cast<uint32_t>(wire::SamplingStep::set_config);
  without.header().sampling.error = 27;
  without.end();
  s.run_for(1);
  REQUIRE(s.result);
  const model::ResourceSampling& told = s.result->ranks[0].sampling;
  CHECK(told.status == model::SamplingStatus::complete);
  CHECK(told.file == "rank-0.xrs");
  CHECK(told.samples == 3);
  CHECK(told.interval_s == doctest::Approx(1e-4));
  CHECK(told.seconds == doctest::Approx(4e-4));
  CHECK(told.setup_s == doctest::Approx(0.5));
  CHECK(told.begin_mono_ns == test::kStart);
  REQUIRE(told.resources.size() == 1);
  CHECK(told.resources[0].metric == "dram__throughput");
  const auto file = model::load_resource_file(s.directory + "/rank-0.xrs");
  REQUIRE(file);
  REQUIRE(file->samples.size() == 3);
  CHECK(file->samples[2].values[static_cast<size_t>(wire::Resource::dram)] == 0.125F);
  CHECK(s.result->ranks[0].status == ActivityStatus::complete);
  const model::ResourceSampling& refused = s.result->ranks[1].sampling;
  CHECK(refused.status == model::SamplingStatus::refused);
  CHECK(refused.reason == "CUPTI error 27 of cuptiPmSamplingSetConfig");
  CHECK(refused.file.empty());
  CHECK(s.result->ranks[1].status == ActivityStatus::complete);
}

TEST_CASE("activity: nonsense about hardware counters is bounded") {
  ActivitySessionScene s("activity-6");
  s.start({0});
  const base::UniqueFd fd(s.attach(kRank0));
  RankEnd rank(fd.get());
  rank.metric(wire::Resource::sm, std::string(500, 'x') + "\n");
  rank.metric(wire::Resource::tensor, "a\x1b[31m\n");
  rank.header().sampling.resources = ~0U;
  rank.header().sampling.samples = ~uint64_t{0};
  rank.header().sampling.problem = 4711;
  rank.header().sampling.step = 4711;
  rank.header().sampling.setup_ns = ~uint64_t{0};
  rank.end();
  s.run_for(30);
  REQUIRE(s.result);
  const model::ResourceSampling& told = s.result->ranks[0].sampling;
  CHECK(told.status == model::SamplingStatus::failed);
  CHECK(told.samples == wire::kResourceSamples);
  REQUIRE(told.resources.size() == wire::kResources);
  CHECK(told.resources[0].metric.size() == wire::kMetricText);
  CHECK(told.resources[1].metric.find('\x1b') == std::string::npos);
  const auto file = model::load_resource_file(s.directory + "/rank-0.xrs");
  REQUIRE(file);
  CHECK(file->samples.empty());  // none has a duration
  CHECK(file->bad == wire::kResourceSamples);
}
