#include "commands/burn/burn_bench.h"

#include "commands/burn/burn_watch.h"
#include "commands/burn/burned_device.h"
#include "commands/replay/gpu_bench.h"
#include "commands/replay/random_data.h"
#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/timing/cuda_types.h"
#include "common/model/timing/peaks.h"
#include "report/speed/primitives/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

namespace xpurun::launcher {

namespace {

using base::tr;

// Shares of the time; the rest is for loading, copies one after the other, and NCCL.
constexpr double kMatmulShare = 0.6;
constexpr double kMemoryShare = 0.1;
constexpr double kReduceShare = 0.1;
constexpr double kRoundS = 1;
constexpr double kMemoryRoundS = 0.25;
constexpr int kFirstCalls = 8;
constexpr int kLeastRounds = 3;
constexpr int kMostRounds = 10'000;
constexpr int kMostCalls = 20'000;
constexpr int kCallsAtOnce = 8;  // on one GPU before the next one gets some: all begin together
constexpr int kLinkCopies = 4;
constexpr int kLinkRounds = 5;
constexpr size_t kLinkBytes = size_t{256} << 20;
constexpr size_t kReducedBytes = size_t{256} << 20;
constexpr size_t kHashedBytes = size_t{16} << 20;
constexpr int kReductions = 20;
constexpr double kClocksRise = 0.3;    // of a round
constexpr double kClocksKnown = 0.85;  // of a round
constexpr int kRoundsOfLook = 5;
constexpr auto kSampleEvery = std::chrono::milliseconds(50);

class Burner {
 public:
  Burner(const BurnPlan& plan, const vendor::Driver& driver, const vendor::Blas& blas, const vendor::Lt& lt)
      : plan_(plan), driver_(driver), blas_(blas), lt_(lt) {
    out_.seconds = plan.seconds;
  }

  void open(int count) {
    for (int i = 0; i < count; ++i) {
      BurnedGpu& entry = out_.gpus.emplace_back();
      entry.unit.index = i;
      auto device = BurnedDevice::open(driver_, blas_, lt_, i);
      devices_.push_back(nullptr);
      if (!device) {
        entry.problem = base::to_line(device.error());
        continue;
      }
      const GpuFacts& facts = (*device)->gpu().facts();
      smallest_memory_ = std::min(smallest_memory_, facts.memory_bytes);
      entry.unit.uuid = facts.uuid;
      entry.unit.name = facts.name;
      entry.unit.pci = model::kernel_pci(facts.bus_id);
      entry.peak_flops = model::Peaks().of(facts.name, model::cuda_types::kR16BF, kBurnCompute);
      out_.cublas = (*device)->cublas();
      devices_.back() = std::move(*device);
    }
  }

  void matmuls() {
    std::vector<double> first = round(kFirstCalls, false, 0);  // loads the kernels
    first = round(kFirstCalls, false, 0);
    const double slowest_s = *std::max_element(first.begin(), first.end());
    if (slowest_s <= 0) {
      return;
    }
    const double budget_s = plan_.seconds * kMatmulShare;
    const double round_s = std::min(kRoundS, budget_s / kLeastRounds);
    const int calls = std::clamp(static_cast<int>(round_s / slowest_s * kFirstCalls), 1, kMostCalls);
    const double until_s = now_s() + budget_s;
    double busy_s = 0;
    for (int i = 0; i < kMostRounds && (i < kLeastRounds || (now_s() < until_s && busy_s < budget_s)); ++i) {
      const std::vector<double> seconds = round(calls, true, busy_s / std::max(i, 1));
      busy_s += *std::max_element(seconds.begin(), seconds.end());
    }
  }

  void copies() {
    const std::vector<std::byte> block = random_elements(model::cuda_types::kR32F);
    each([&](BurnedDevice& d, BurnedGpu&) { return d.prepare_copies(block); });
    memory();
    links(block);
    peers();
    devices_.clear();
  }

  void all_reduce(Libraries& libraries) {
    if (out_.gpus.size() < 2) {
      return;
    }
    if (auto done = try_all_reduce(libraries); !done) {
      out_.notes.push_back(tr("all_reduce was left out: {}", base::to_line(done.error())));
    }
  }

  Burn finish() {
    watch_.finish(out_);
    return std::move(out_);
  }

 private:
  using Work = std::function<base::Status(BurnedDevice&, BurnedGpu&)>;

  static double now_s() { return base::ns_to_s(base::mono_ns()); }

  // On all GPUs that still work. A failure is that GPU's problem, which is left out from then on.
  void each(const Work& work) {
    for (size_t i = 0; i < devices_.size(); ++i) {
      if (devices_[i] == nullptr) {
        continue;
      }
      devices_[i]->gpu().make_current();
      if (auto done = work(*devices_[i], out_.gpus[i]); !done) {
        out_.gpus[i].problem = base::to_line(done.error());
        devices_[i].reset();
      }
    }
  }

  // Seconds of the calls on each GPU; 0 of those that do not work. `expected_s`: as long as NVML is read.
  std::vector<double> round(int calls, bool kept, double expected_s) {
    const double begin_s = now_s();
    each([](BurnedDevice& d, BurnedGpu&) { return d.clear_sum(); });
    each([](BurnedDevice& d, BurnedGpu&) { return d.gpu().begin(0); });
    for (int done = 0; done < calls; done += kCallsAtOnce) {
      each([&](BurnedDevice& d, BurnedGpu&) -> base::Status {
        for (int i = done; i < std::min(calls, done + kCallsAtOnce); ++i) {
          XPURUN_TRY(d.multiply());
        }
        return {};
      });
    }
    each([](BurnedDevice& d, BurnedGpu&) { return d.gpu().end(0); });
    if (kept && expected_s > 0) {
      sample(begin_s, expected_s);
    }
    std::vector<double> out(devices_.size(), 0);
    each([&](BurnedDevice& d, BurnedGpu& to) -> base::Status {
      XPURUN_TRY(d.gpu().wait());
      XPURUN_TRY_ASSIGN(const double ns, d.gpu().elapsed_ns(0));
      out[static_cast<size_t>(&to - out_.gpus.data())] = ns / 1e9;
      if (kept && ns > 0) {
        rates(to, BurnWork::matmul).push_back(d.flop() * calls / (ns / 1e9));
      }
      return {};
    });
    if (kept) {
      each([](BurnedDevice& d, BurnedGpu& to) -> base::Status {
        XPURUN_TRY_ASSIGN(const uint64_t hash, d.hash_of_sum());
        to.results.push_back(hash);
        return {};
      });
    }
    return out;
  }

  // While the GPUs work on what they have, but for the begin, at which their clocks rise, and the end.
  void sample(double begin_s, double expected_s) {
    const double wait_s = begin_s + kClocksRise * expected_s - now_s();
    std::this_thread::sleep_for(std::chrono::duration<double>(std::max(wait_s, 0.0)));
    if (++sampled_ % kRoundsOfLook == 1) {
      watch_.look();
    }
    do {
      watch_.sample();
      std::this_thread::sleep_for(kSampleEvery);
    } while (now_s() < begin_s + kClocksKnown * expected_s);
  }

  static std::vector<double>& rates(BurnedGpu& gpu, BurnWork work) {
    return gpu.rates[static_cast<size_t>(work)];
  }

  // Rounds of copies inside of all GPUs at once.
  void memory() {
    int copies = kLinkCopies;
    const double budget_s = plan_.seconds * kMemoryShare;
    const double until_s = now_s() + budget_s;
    double busy_s = 0;
    for (int i = 0; i < kMostRounds && (i <= kLeastRounds || (now_s() < until_s && busy_s < budget_s)); ++i) {
      each([](BurnedDevice& d, BurnedGpu&) { return d.gpu().begin(0); });
      each([&](BurnedDevice& d, BurnedGpu&) -> base::Status {
        for (int c = 0; c < copies; ++c) {
          XPURUN_TRY(d.copy_inside());
        }
        return d.gpu().end(0);
      });
      double longest_s = 0;
      each([&](BurnedDevice& d, BurnedGpu& to) -> base::Status {
        XPURUN_TRY(d.gpu().wait());
        XPURUN_TRY_ASSIGN(const double ns, d.gpu().elapsed_ns(0));
        longest_s = std::max(longest_s, ns / 1e9);
        if (i > 0 && ns > 0) {
          rates(to, BurnWork::memory)
              .push_back(2.0 * static_cast<double>(d.copy_bytes()) * copies / (ns / 1e9));
        }
        return {};
      });
      busy_s += longest_s;
      if (i == 0 && longest_s > 0) {
        const double wanted = std::min(kMemoryRoundS, budget_s / kLeastRounds);
        copies = std::clamp(static_cast<int>(wanted / longest_s * copies), 1, kMostCalls);
      }
    }
    check_copies();
  }

  void check_copies() {
    each([](BurnedDevice& d, BurnedGpu& to) -> base::Status {
      XPURUN_TRY_ASSIGN(const uint64_t once, d.hash_of_copy());
      XPURUN_TRY_ASSIGN(const uint64_t sent, d.hash_of_source());
      to.bad_copies += once != sent ? 1 : 0;
      return {};
    });
  }

  // From and to pinned memory, one GPU after the other.
  void links(const std::vector<std::byte>& block) {
    each([&](BurnedDevice& d, BurnedGpu& to) -> base::Status {
      XPURUN_TRY_ASSIGN(const HostBuffer host,
                        HostBuffer::allocate(d.gpu(), std::min(kLinkBytes, d.copy_bytes())));
      const std::span<std::byte> bytes = host.bytes();
      for (size_t at = 0; at < bytes.size(); at += block.size()) {
        std::copy_n(block.begin(), std::min(block.size(), bytes.size() - at),
                    bytes.begin() + static_cast<long>(at));
      }
      const uint64_t sent = base::hash_bytes(bytes);
      XPURUN_TRY(measure(d, to, BurnWork::to_gpu, bytes.size(), [&] { return d.copy_in(host); }));
      XPURUN_TRY(measure(d, to, BurnWork::from_gpu, bytes.size(), [&] { return d.copy_out(host); }));
      // The source on the GPU was made of the same block.
      to.bad_copies += base::hash_bytes(bytes) != sent ? 1 : 0;
      return {};
    });
  }

  base::Status measure(BurnedDevice& d, BurnedGpu& to, BurnWork work, size_t bytes,
                       const std::function<base::Status()>& copy) {
    for (int i = 0; i <= kLinkRounds; ++i) {
      XPURUN_TRY(d.gpu().begin(0));
      for (int c = 0; c < kLinkCopies; ++c) {
        XPURUN_TRY(copy());
      }
      XPURUN_TRY(d.gpu().end(0));
      XPURUN_TRY(d.gpu().wait());
      XPURUN_TRY_ASSIGN(const double ns, d.gpu().elapsed_ns(0));
      if (i > 0 && ns > 0) {  // the first round wakes the link up
        rates(to, work).push_back(static_cast<double>(bytes) * kLinkCopies / (ns / 1e9));
      }
    }
    return {};
  }

  // Each GPU to the next one.
  void peers() {
    for (size_t i = 0; i < devices_.size(); ++i) {
      BurnedDevice* from = devices_[i].get();
      BurnedDevice* to = devices_[(i + 1) % devices_.size()].get();
      if (from == nullptr || to == nullptr || from == to) {
        continue;
      }
      const auto copied = [&]() -> base::Status {
        XPURUN_TRY(to->clear_copy());
        from->gpu().make_current();
        // Without direct access, which not all GPUs have, the copies go through the host.
        driver_.peer_enable(to->gpu().context(), 0);
        XPURUN_TRY(measure(*from, out_.gpus[i], BurnWork::peer, from->copy_bytes(),
                           [&] { return from->copy_to(*to); }));
        XPURUN_TRY_ASSIGN(const uint64_t received, to->hash_of_copy());
        XPURUN_TRY_ASSIGN(const uint64_t sent, from->hash_of_source());
        out_.gpus[i].bad_copies += received != sent ? 1 : 0;
        return {};
      }();
      if (!copied) {
        out_.notes.push_back(
            tr("copies from GPU {} to another GPU were left out: {}", i, base::to_line(copied.error())));
      }
    }
  }

  base::Status try_all_reduce(Libraries& libraries) {
    XPURUN_TRY_ASSIGN(const vendor::Nccl nccl, libraries.nccl());
    XPURUN_TRY_ASSIGN(const auto bench, GpuCollectiveBench::open(driver_, nccl));
    constexpr int kBf16 = 9;  // ncclBfloat16
    const size_t bytes = std::min(kReducedBytes, smallest_memory_ / 8) / 4096 * 4096;
    XPURUN_TRY(bench->prepare({.api = wire::Api::ncclAllReduce,
                               .type = kBf16,
                               .count = bytes / 2,
                               .send_bytes = bytes,
                               .receive_bytes = bytes}));
    const double n = bench->devices();
    const double until_s = now_s() + plan_.seconds * kReduceShare;
    std::vector<double> ns;
    for (int i = 0; i < kMostRounds && (i < 2 || (now_s() < until_s &&
                                                  report::median(ns) * 1e-9 * static_cast<double>(ns.size()) <
                                                      plan_.seconds * kReduceShare));
         ++i) {
      XPURUN_TRY_ASSIGN(const std::vector<double> some, bench->repeat(kReductions));
      if (i > 0) {
        ns.insert(ns.end(), some.begin(), some.end());
      }
      XPURUN_TRY_ASSIGN(const std::vector<uint64_t> hashes, bench->hashes(kHashedBytes));
      out_.all_reduce_differs =
          out_.all_reduce_differs ||
          std::any_of(hashes.begin(), hashes.end(), [&](uint64_t h) { return h != hashes.front(); });
    }
    out_.bus_bytes_s = static_cast<double>(bytes) * 2 * (n - 1) / n / (report::median(ns) * 1e-9);
    return {};
  }

  const BurnPlan& plan_;
  const vendor::Driver& driver_;
  const vendor::Blas& blas_;
  const vendor::Lt& lt_;
  BurnWatch watch_;
  std::vector<std::unique_ptr<BurnedDevice>> devices_;  // null: the GPU has a problem
  Burn out_;
  int sampled_ = 0;                             // rounds
  size_t smallest_memory_ = kReducedBytes * 8;  // of a GPU, as far as that matters
};

}  // namespace

base::Result<Burn> burn_gpus(const BurnPlan& plan) {
  Libraries libraries(library_dirs_of_python(plan.python));
  XPURUN_TRY_ASSIGN(const vendor::Driver driver, libraries.driver());
  XPURUN_TRY_ASSIGN(const int count, Gpu::count(driver));
  XPURUN_TRY_ASSIGN(const vendor::Lt lt, libraries.lt());
  XPURUN_TRY_ASSIGN(const vendor::Blas blas, libraries.blas());
  Burner burner(plan, driver, blas, lt);
  burner.open(count);
  burner.matmuls();
  burner.copies();
  burner.all_reduce(libraries);
  return burner.finish();
}

}  // namespace xpurun::launcher
