#include "report/profile/resource_sums.h"

#include "report/profile/captured_work.h"
#include "report/profile/resource_words.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace xpurun;
using namespace xpurun::report;
using model::ResourceUse;
using model::SamplingStatus;
using model::WorkKind;
using wire::Resource;

namespace {

constexpr int64_t kMicroNs = 1'000;
constexpr int64_t kSampledFrom = 5'000'000'000;

// Samples of 100 us, with these shares of tensor and DRAM.
model::ResourceFile sampled_file(const std::vector<std::pair<float, float>>& values) {
  model::ResourceFile out;
  out.metrics = {{Resource::tensor, "t"}, {Resource::dram, "d"}};
  for (size_t i = 0; i < values.size(); ++i) {
    model::ResourceSample s{.begin_ns = kSampledFrom + static_cast<int64_t>(i) * 100 * kMicroNs,
                            .duration_ns = 100 * kMicroNs};
    s.values[static_cast<size_t>(Resource::tensor)] = values[i].first;
    s.values[static_cast<size_t>(Resource::dram)] = values[i].second;
    out.samples.push_back(s);
  }
  return out;
}

std::pair<int64_t, int64_t> time_part(int64_t begin_us, int64_t end_us) {
  return {kSampledFrom + begin_us * kMicroNs, kSampledFrom + end_us * kMicroNs};
}

double mean_in(const std::vector<ResourceUse>& uses, std::string_view name) {
  const ResourceUse* use = find_use(uses, name);
  REQUIRE(use != nullptr);
  return use->mean;
}

std::vector<ResourceUse> made_uses(std::initializer_list<std::pair<Resource, double>> means) {
  std::vector<ResourceUse> out;
  for (const auto& [resource, value] : means) {
    out.push_back({.resource = resource, .mean = value, .spread = 0});
  }
  return out;
}

}  // namespace

TEST_CASE("resources: mean and spread over a time, by the length of the samples in it") {
  const auto file = sampled_file({{0.2F, 0}, {0.8F, 0}, {0.8F, 0.5F}});
  const auto uses = sums_between(file, kSampledFrom + 50 * kMicroNs, kSampledFrom + 200 * kMicroNs).uses();
  REQUIRE(uses.size() == 2);
  CHECK(mean_in(uses, "tensor") == doctest::Approx((0.5 * 0.2 + 0.8) / 1.5));
  CHECK(uses[0].spread == doctest::Approx(std::sqrt((0.5 * 0.04 + 0.64) / 1.5 - 0.36)));
  CHECK(mean_in(uses, "dram") == 0);
  CHECK(uses[1].spread == 0);
  CHECK(sums_between(file, kSampledFrom - 10, kSampledFrom).uses().empty());
}

TEST_CASE("resources: only full samples count if there are some") {
  std::vector<std::pair<float, float>> values(10, {0.9F, 0.1F});
  values[0] = values[9] = {0.3F, 0.0F};
  const auto sums = sums_while(sampled_file(values), {time_part(50, 950)});
  CHECK(mean_in(sums.uses(), "tensor") == doctest::Approx(0.9));
  CHECK(sums.uses()[0].spread == doctest::Approx(0));
  CHECK(sums.filled() == 1);
}

TEST_CASE("resources: short work has the samples that it touches, by its time in them") {
  const auto file = sampled_file({{0.4F, 0}, {0.8F, 0}, {0, 0}, {0, 0}});
  const auto sums = sums_while(file, {time_part(10, 30), time_part(20, 30), time_part(150, 210)});
  CHECK(mean_in(sums.uses(), "tensor") == doctest::Approx((20 * 0.4 + 50 * 0.8) / 80));
  CHECK(sums.filled() == doctest::Approx((20 * 0.2 + 50 * 0.5 + 10 * 0.1) / 80));
  CHECK(sums_while(file, {time_part(900, 1000)}).uses().empty());
  CHECK(sums_while(file, {}).filled() == 0);
  CHECK(sums_while({}, {time_part(0, 100)}).uses().empty());
  RunningSums two = sums_while(file, {time_part(10, 30)});
  two.add(sums_while(file, {time_part(110, 130)}));
  CHECK(mean_in(two.uses(), "tensor") == doctest::Approx(0.6));
}

TEST_CASE("resources: the one that fits the work") {
  const auto tensor = made_uses({{Resource::sm, 1}, {Resource::tensor, 0.7}, {Resource::dram, 0.3}});
  CHECK(fitting_resource(WorkKind::kernel, "gemm", tensor) == "tensor");
  const auto dram = made_uses({{Resource::sm, 1}, {Resource::tensor, 0}, {Resource::dram, 0.9}});
  CHECK(fitting_resource(WorkKind::kernel, "add", dram) == "dram");
  const auto neither = made_uses({{Resource::sm, 1}, {Resource::tensor, 0.05}, {Resource::dram, 0.01}});
  CHECK(fitting_resource(WorkKind::kernel, "rng", neither) == "sm");
  CHECK(fitting_resource(WorkKind::kernel, "rng", made_uses({{Resource::dram, 0}})) == "dram");
  CHECK(fitting_resource(WorkKind::kernel, "x", {}).empty());
  const auto nvlink =
      made_uses({{Resource::nvlink_rx, 1e9}, {Resource::nvlink_tx, 3e11}, {Resource::pcie, 0.5}});
  CHECK(fitting_resource(WorkKind::collective, "nccl", nvlink) == "nvlink_tx");
  const auto pcie = made_uses({{Resource::nvlink_rx, 0}, {Resource::pcie, 0.9}, {Resource::pcie_read, 2e10}});
  CHECK(fitting_resource(WorkKind::collective, "nccl", pcie) == "pcie");
  CHECK(fitting_resource(WorkKind::collective, "nccl", made_uses({{Resource::sm, 1}})) == "sm");
  CHECK(fitting_resource(WorkKind::memory, "Memcpy HtoD", pcie) == "pcie");
  CHECK(fitting_resource(WorkKind::memory, "Memcpy DtoD", dram) == "dram");
  CHECK(fitting_resource(WorkKind::memory, "Memset", dram) == "dram");
  CHECK(fitting_resource(WorkKind::call, "cudaLaunchKernel", tensor).empty());
}

TEST_CASE("resources: captured work has them, calls have not") {
  model::EventFile events;
  const auto op = [&events](uint32_t index, std::string name, wire::OpClass op_class) {
    events.ops[index].function = std::move(name);
    events.ops[index].key.op_class = static_cast<uint8_t>(op_class);
  };
  op(0, "gemm", wire::OpClass::kernel);
  op(1, "cudaLaunchKernel", wire::OpClass::host);
  for (const uint32_t index : {0U, 1U}) {
    events.events.push_back(
        {.event = {.begin_ns = static_cast<uint64_t>(kSampledFrom), .duration_ns = 500'000, .op = index}});
  }
  const auto file = sampled_file(std::vector<std::pair<float, float>>(20, {0.5F, 0.25F}));
  model::RankActivity rank{.rank = 3, .begin_mono_ns = kSampledFrom, .seconds = 0.001, .file = "x"};
  rank.sampling.resources = {{.resource = Resource::tensor, .metric = "t"}};
  CapturedWorkTable table;
  table.add(rank, events, &file);
  CHECK(rank.sampling.resources[0].mean == doctest::Approx(0.5));
  CHECK(rank.sampling.resources[0].metric == "t");
  const auto work = table.work();
  REQUIRE(work.size() == 2);
  const auto& gemm = work[0].name == "gemm" ? work[0] : work[1];
  const auto& call = work[0].name == "gemm" ? work[1] : work[0];
  CHECK(gemm.resource == "tensor");
  CHECK(gemm.filled == 1);
  CHECK(mean_in(gemm.resources, "dram") == doctest::Approx(0.25));
  CHECK(fitting_words(gemm) == "tensor pipe 50.0 % (spread 0.0 %)");
  CHECK(call.resource.empty());
  CHECK(call.resources.empty());
  CHECK(fitting_words(call).empty());
}

TEST_CASE("sentences about hardware counters") {
  model::GpuCapture c;
  for (base::Rank r = 0; r < 12; ++r) {
    model::RankActivity rank{.rank = r, .seconds = 2};
    rank.sampling = {.status = SamplingStatus::complete,
                     .interval_s = 1e-4,
                     .seconds = 2,
                     .samples = 20'000,
                     .setup_s = 0.6,
                     .handling_s = 1,
                     .stop_s = 3e-3,
                     .file = "x",
                     .resources = {{.resource = Resource::sm, .mean = 0.75, .spread = 0.4},
                                   {.resource = Resource::nvlink_tx, .mean = 2.5e11, .spread = 1e6}}};
    c.ranks.push_back(rank);
  }
  c.ranks[10].sampling = {.status = SamplingStatus::busy};
  c.ranks[11].sampling = {.status = SamplingStatus::busy};
  const auto s = resource_sentences(c);
  REQUIRE(s.size() == 11);
  CHECK(s[0] ==
        "Hardware counters: 200000 samples of ranks 0-9, 100.0 us each; reading them took 50 % of a thread "
        "of the "
        "rank, 600.00 ms to begin (before the recording) and 3.00 ms to end.");
  CHECK(s[1] == "Rank 0: SM active 75.0 % (spread 40.0 %), NVLink sent 250.0 GB/s (spread 1.0 MB/s).");
  CHECK(s[9] == "The counters of 2 more ranks are in the JSON.");
  CHECK(s[10].starts_with("Ranks 10-11: no hardware counters: another process"));
  CHECK(resource_sentences({}).empty());
  const auto line = [](model::ResourceSampling sampling) {
    model::GpuCapture one;
    one.ranks.push_back({.rank = 5, .sampling = std::move(sampling)});
    const auto said = resource_sentences(one);
    return said.empty() ? std::string() : said.back();
  };
  CHECK(line({}).empty());
  CHECK(line({.status = SamplingStatus::complete, .samples = 0}) ==
        "Rank 5: no hardware counters: no sample came.");
  CHECK(line({.status = SamplingStatus::refused, .reason = "CUPTI error 9"}) ==
        "Rank 5: no hardware counters: CUPTI error 9.");
  CHECK(line({.status = SamplingStatus::refused, .reason = "CUPTI error 9", .samples = 7, .file = "x"}) ==
        "Rank 5: the hardware counters end early: CUPTI error 9.");
  for (size_t i = 2; i < model::kNames<SamplingStatus>.size(); ++i) {
    CHECK(line({.status = static_cast<SamplingStatus>(i), .reason = "why"}).size() > 20);
  }
}
