#include "report/profile/captured_work.h"

#include "common/model/speed/kernel_name.h"
#include "report/profile/gpu_words.h"
#include "report/profile/throttling.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;
using model::ActivityStatus;
using model::RankActivity;
using model::RankSet;
using model::WorkKind;

namespace {

constexpr uint64_t kBegin = 5'000'000'000;
constexpr uint64_t kUs = 1'000;

struct File {
  model::EventFile file;

  uint32_t op(const std::string& function, wire::OpClass op_class) {
    const auto index = static_cast<uint32_t>(file.ops.size());
    file.ops[index].function = function;
    file.ops[index].key.op_class = static_cast<uint8_t>(op_class);
    return index;
  }
  void add(uint32_t op, uint64_t begin_us, uint64_t duration_us) {
    file.events.push_back({.event = {.begin_ns = kBegin + begin_us * kUs,
                                     .duration_ns = duration_us * kUs,
                                     .op = op,
                                     .source = static_cast<uint8_t>(wire::Source::cupti)}});
  }
};

RankActivity rank_of(base::Rank rank) {
  return {.rank = rank,
          .status = ActivityStatus::complete,
          .begin_mono_ns = static_cast<int64_t>(kBegin),
          .seconds = 0.01,
          .records = 10,
          .file = "x"};
}

const model::CapturedWork& find(const std::vector<model::CapturedWork>& work, std::string_view name) {
  for (const model::CapturedWork& w : work) {
    if (w.name == name) {
      return w;
    }
  }
  FAIL("no work " << name);
  return work.front();
}

// 10 ms with `kernel_us` in a kernel and `collective_us` in a collective.
File step(uint64_t kernel_us, uint64_t collective_us) {
  File f;
  f.add(f.op("gemm", wire::OpClass::kernel), 0, kernel_us);
  f.add(f.op("ncclDevKernel_AllReduce", wire::OpClass::kernel), kernel_us, collective_us);
  return f;
}

}  // namespace

TEST_CASE("captured work: what goes before hides what runs beside it") {
  File f;
  const uint32_t kernel = f.op("_Z4gemmPf", wire::OpClass::kernel);
  const uint32_t nccl = f.op("ncclDevKernel_AllReduce_Sum_f32_RING_LL", wire::OpClass::kernel);
  const uint32_t copy = f.op("Memcpy HtoD", wire::OpClass::memory);
  const uint32_t call = f.op("cudaLaunchKernel", wire::OpClass::host);
  f.add(call, 0, 1000);
  f.add(kernel, 500, 2000);
  f.add(kernel, 1500, 2000);  // beside the first for 1 ms
  f.add(nccl, 3000, 2000);    // beside the kernel for 0.5 ms
  f.add(copy, 4500, 1000);    // beside the collective for 0.5 ms
  f.add(call, 9500, 1000);    // ends after the capture
  f.add(call, 20'000, 1000);  // not of the capture
  CapturedWorkTable table;
  RankActivity rank = rank_of(0);
  table.add(rank, f.file);
  const auto work = table.work();
  REQUIRE(work.size() == 4);
  const auto& g = find(work, "gemm");
  CHECK(g.kind == WorkKind::kernel);
  CHECK(g.count == 2);
  CHECK(g.share == doctest::Approx(0.4));
  CHECK(g.path == doctest::Approx(0.3));
  CHECK(g.mean_s == doctest::Approx(2e-3));
  CHECK(g.spread_s == doctest::Approx(0));
  const auto& n = find(work, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
  CHECK(n.kind == WorkKind::collective);
  CHECK(n.path == doctest::Approx(0.15));
  const auto& m = find(work, "Memcpy HtoD");
  CHECK(m.kind == WorkKind::memory);
  CHECK(m.path == doctest::Approx(0.05));
  const auto& c = find(work, "cudaLaunchKernel");
  CHECK(c.kind == WorkKind::call);
  CHECK(c.count == 2);
  CHECK(c.path == doctest::Approx(0.1));
  CHECK(c.mean_s == doctest::Approx(1e-3));
  CHECK(c.share == doctest::Approx(0.15));
  CHECK(rank.busy_share == doctest::Approx(0.5));
  CHECK(work.front().name == "gemm");
}

TEST_CASE("captured work: ranks stand out by longer kernels and shorter collectives") {
  CapturedWorkTable table;
  for (base::Rank r = 0; r < 4; ++r) {
    RankActivity rank = rank_of(r);
    table.add(rank, step(r == 2 ? 8000 : 5000, r == 2 ? 500 : 3500).file);
  }
  const auto work = table.work();
  const auto& kernel = find(work, "gemm");
  CHECK(kernel.ranks == RankSet{2});
  CHECK(kernel.ranks_share == doctest::Approx(0.8));
  CHECK(kernel.share == doctest::Approx(0.5));
  CHECK(kernel.normal_rank == 0);
  CHECK(kernel.normal_share == doctest::Approx(0.5));
  CHECK(find(work, "ncclDevKernel_AllReduce").ranks == RankSet{2});
}

TEST_CASE("captured work: the median of all ranks' calls") {
  CapturedWorkTable table;
  for (base::Rank r = 0; r < 3; ++r) {
    File f;
    const uint32_t kernel = f.op("gemm", wire::OpClass::kernel);
    for (uint64_t i = 0; i < 5; ++i) {
      f.add(kernel, i * 2000,
            i < 4 ? 100 + static_cast<uint64_t>(r) * 50 : 1900);  // 100, 150 and 200 us, and a long one
    }
    RankActivity rank = rank_of(r);
    table.add(rank, f.file);
  }
  const auto work = table.work();
  const auto& kernel = find(work, "gemm");
  CHECK(kernel.median_s == doctest::Approx(150e-6).epsilon(0.016));
  CHECK(kernel.mean_s == doctest::Approx(500e-6));
}

TEST_CASE("captured work: alike ranks, short work and a capture without time") {
  CapturedWorkTable table;
  for (base::Rank r = 0; r < 3; ++r) {
    File f = step(5000 + static_cast<uint64_t>(r) * 50, 3000);
    f.add(f.op("tiny", wire::OpClass::kernel), 9000, 20);
    RankActivity rank = rank_of(r);
    table.add(rank, f.file);
  }
  RankActivity none = rank_of(3);
  none.seconds = 0;
  table.add(none, step(1, 1).file);
  const auto work = table.work();
  CHECK(work.size() == 2);
  CHECK(find(work, "gemm").ranks.empty());
  CHECK(CapturedWorkTable().work().empty());
}

TEST_CASE("names of kernels") {
  CHECK(model::kernel_name("_Z9my_kernelILi4EEvPfi") == "my_kernel<4>");
  CHECK(model::kernel_name("_ZN2at6native5emptyEv") == "at::native::empty");
  CHECK(model::kernel_name("cudaLaunchKernel") == "cudaLaunchKernel");
  CHECK(model::kernel_name("_Z9broken") == "_Z9broken");
  CHECK(model::kernel_name("") == "");
  CHECK(model::kernel_name("a\nb").find('\n') == std::string::npos);
  CHECK(model::kernel_name(std::string(5000, 'x')).size() <= 515);
  CHECK(model::is_nccl_kernel("_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LLv"));
  CHECK(model::is_nccl_kernel("ncclKernel_AllReduce"));
  CHECK_FALSE(model::is_nccl_kernel("my_ncclish_kernel"));
}

TEST_CASE("sentences about a recording") {
  model::GpuCapture c{.step_before_s = 0.1, .step_during_s = 0.11};
  c.ranks = {rank_of(0),
             rank_of(1),
             {.rank = 2, .status = ActivityStatus::other_client},
             {.rank = 3, .status = ActivityStatus::other_client}};
  c.ranks[1].status = ActivityStatus::lossy;
  c.ranks[0].overhead_s = c.ranks[1].overhead_s = 1e-4;
  c.clocks = {{.rank = 0,
               .sm_lowest_mhz = 1000,
               .sm_median_mhz = 1900,
               .sm_limit_mhz = 1980,
               .power_w = 600,
               .throttled = {{model::ThrottleReason::power_cap, 0.25}}}};
  const auto s = gpu_sentences(c);
  REQUIRE(s.size() == 5);
  CHECK(s[0] == "CUPTI recorded 20 kernels, copies and calls of ranks 0-1 in 0.0 s.");
  CHECK(s[1] ==
        "Cost: a step took 110.00 ms during the recording and 100.00 ms before it (+10.0 %); CUPTI "
        "overhead: 100.0 us per rank (1.00 %), 0.0 us to begin and 0.0 us to end.");
  CHECK(s[2].starts_with("Rank 1: records were dropped"));
  CHECK(s[3].starts_with("Ranks 2-3: not recorded: another CUPTI client"));
  CHECK(s[4] == "Rank 0: SM clock 1900 MHz (lowest 1000, limit 1980), 600 W, power_cap 25 %.");
  CHECK(gpu_sentences({}).empty());
  c.ranks[0].busy_share = 0.5;
  CHECK(gpu_sentences(c)[0].ends_with(" in 0.0 s; the GPU was busy for 50.0 %."));
  c.ranks = {rank_of(0), rank_of(1), rank_of(2), rank_of(3)};
  for (size_t i = 0; i < c.ranks.size(); ++i) {
    c.ranks[i].busy_share = i == 2 ? 0.2 : i == 3 ? 0.51 : 0.5;
  }
  CHECK(gpu_sentences(c)[0].ends_with(
      "; the GPUs were busy for 50.0 % (median; lowest 20.0 %, highest 51.0 %), rank 2 for 20.0 %."));
}

TEST_CASE("GPUs are throttled if the clocks are lower than the others', or more samples have a reason") {
  model::GpuCapture c;
  for (base::Rank r = 0; r < 4; ++r) {
    c.clocks.push_back({.rank = r, .sm_median_mhz = 1980, .throttled = {{model::ThrottleReason::idle, 1}}});
  }
  CHECK(throttling_words(c, {1}, 0.2).empty());
  c.clocks[1].sm_median_mhz = 1200;
  CHECK(throttling_words(c, {1}, 0.2) == "the SM clock of rank 1 was 1200 MHz, that of the others 1980 MHz");
  CHECK(throttling_words(c, {0}, 0.2).empty());
  CHECK(throttling_words(c, {1, 2}, 0.2).empty());
  CHECK(throttling_words(c, {7}, 0.2).empty());
  c.clocks[2] = {.rank = 2, .sm_median_mhz = 1970, .throttled = {{model::ThrottleReason::thermal, 0.5}}};
  CHECK(throttling_words(c, {2}, 0.2) ==
        "the SM clock of rank 2 was 1970 MHz (thermal 50 %), that of the others 1980 MHz");
  c.clocks[2].throttled[0].reason = model::ThrottleReason::application_clocks;
  CHECK(throttling_words(c, {2}, 0.2).empty());
  // A power cap of 13 % is not why the work takes twice as long.
  c.clocks[3] = {.rank = 3, .sm_median_mhz = 1755, .throttled = {{model::ThrottleReason::power_cap, 1}}};
  CHECK(throttling_words(c, {3}, 0.2) ==
        "the SM clock of rank 3 was 1755 MHz (power_cap 100 %), that of the others 1970 MHz");
  CHECK(throttling_words(c, {3}, 1).empty());
}
