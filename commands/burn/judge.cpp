#include "commands/burn/judge.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/speed/primitives/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace xpurun::launcher {

using base::tr;

namespace {

// GPUs of one model differ by some percent in what they draw and reach.
constexpr double kLeastShare[kBurnWorks] = {0.93, 0.95, 0.75, 0.75, 0.85};
// A difference that the rounds of one GPU show too is none.
constexpr double kSpreads = 3;
constexpr double kLeastOfPeak = 0.4;
constexpr double kLowerClock = 0.97;
constexpr double kOftenThrottled = 0.1;

std::string named(const BurnedGpu& gpu) {
  const std::string object = model::gpu_object(gpu.unit.index);
  if (!gpu.unit.serial.empty()) {
    return tr("{} (serial {})", object, gpu.unit.serial);
  }
  return gpu.unit.pci.empty() ? object : fmt::format("{} ({})", object, gpu.unit.pci);
}

std::string work_words(BurnWork work) {
  switch (work) {
    case BurnWork::matmul:
      return tr("bf16 matmul");
    case BurnWork::memory:
      return tr("memory bandwidth");
    case BurnWork::to_gpu:
      return tr("copies from the host");
    case BurnWork::from_gpu:
      return tr("copies to the host");
    case BurnWork::peer:
      break;
  }
  return tr("copies to another GPU");
}

using Peers = std::vector<const BurnedGpu*>;

// Of two GPUs the better one is the measure.
double usual_of(std::vector<double> values) {
  std::erase_if(values, [](double v) { return !(v > 0); });
  return values.empty()      ? -1
         : values.size() < 3 ? *std::max_element(values.begin(), values.end())
                             : report::median(values);
}

template <typename Value>
double usual(const Peers& peers, Value&& value) {
  std::vector<double> values;
  for (const BurnedGpu* gpu : peers) {
    values.push_back(static_cast<double>(value(*gpu)));
  }
  return usual_of(std::move(values));
}

std::string throttled_words(const BurnedGpu& gpu) {
  const model::ThrottleShare* worst = nullptr;
  for (const model::ThrottleShare& t : gpu.clocks.throttled) {
    const bool counts = model::is_throttling(t.reason) && t.reason != model::ThrottleReason::power_cap;
    if (counts && t.share > kOftenThrottled && (worst == nullptr || t.share > worst->share)) {
      worst = &t;
    }
  }
  return worst == nullptr ? std::string()
                          : tr("{} for {:.0f} % of the time", name_of(worst->reason), 100 * worst->share);
}

// Why a GPU computes slower than the others: the first difference that explains it.
std::string compute_cause(const Peers& peers, const BurnedGpu& gpu) {
  if (gpu.is_shared) {
    return gpu.other_pids.empty()
               ? tr("other processes use the GPU")
               : tr("other processes use the GPU (pid {})", fmt::join(gpu.other_pids, ", "));
  }
  const double limit = usual(peers, [](const BurnedGpu& g) { return g.unit.power_limit_w; });
  if (gpu.unit.power_limit_w > 0 && gpu.unit.power_limit_w < limit) {
    return tr("power limit {:.0f} W instead of {:.0f} W", gpu.unit.power_limit_w, limit);
  }
  if (const std::string throttled = throttled_words(gpu); !throttled.empty()) {
    return throttled;
  }
  const double clock = usual(peers, [](const BurnedGpu& g) { return g.clocks.sm_median_mhz; });
  if (gpu.clocks.sm_median_mhz > 0 && gpu.clocks.sm_median_mhz < kLowerClock * clock) {
    return tr("SM clock {} MHz instead of {:.0f} MHz", gpu.clocks.sm_median_mhz, clock);
  }
  return tr("limits and clocks are those of the others");
}

std::string memory_cause(const Peers& peers, const BurnedGpu& gpu) {
  const double clock = usual(peers, [](const BurnedGpu& g) { return g.memory_clock_mhz; });
  return gpu.memory_clock_mhz > 0 && gpu.memory_clock_mhz < kLowerClock * clock
             ? tr("memory clock {} MHz instead of {:.0f} MHz", gpu.memory_clock_mhz, clock)
             : compute_cause(peers, gpu);
}

std::string pcie_cause(const Peers& peers, const BurnedGpu& gpu) {
  const double lanes = usual(peers, [](const BurnedGpu& g) { return g.unit.pcie_width; });
  if (gpu.unit.pcie_width > 0 && gpu.unit.pcie_width < lanes) {
    return tr("{} PCIe lanes instead of {:.0f}", gpu.unit.pcie_width, lanes);
  }
  const double generation = usual(peers, [](const BurnedGpu& g) { return g.unit.pcie_generation_max; });
  if (gpu.unit.pcie_generation_max > 0 && gpu.unit.pcie_generation_max < generation) {
    return tr("PCIe generation {} instead of {:.0f}", gpu.unit.pcie_generation_max, generation);
  }
  return tr("its PCIe lanes are those of the others: look for a bridge or a NUMA node in between");
}

std::string cause_of(BurnWork work, const Peers& peers, const BurnedGpu& gpu) {
  switch (work) {
    case BurnWork::matmul:
      return compute_cause(peers, gpu);
    case BurnWork::memory:
      return memory_cause(peers, gpu);
    case BurnWork::to_gpu:
    case BurnWork::from_gpu:
      return pcie_cause(peers, gpu);
    case BurnWork::peer:
      break;
  }
  const double links = usual(peers, [](const BurnedGpu& g) { return g.unit.nvlinks; });
  return gpu.unit.nvlinks >= 0 && gpu.unit.nvlinks < links
             ? tr("{} NVLinks are up instead of {:.0f}", gpu.unit.nvlinks, links)
             : tr("as many NVLinks are up as on the others");
}

double relative_spread(const BurnedGpu& gpu, BurnWork work) {
  const auto& rates = gpu.rates[static_cast<size_t>(work)];
  const double middle = rate_of(gpu, work);
  return rates.size() < 3 || middle <= 0 ? 0 : report::deviation(rates) / middle;
}

void add_slow(const Peers& peers, std::vector<BurnFault>& out) {
  if (peers.size() < 2) {
    return;
  }
  for (size_t w = 0; w < kBurnWorks; ++w) {
    const auto work = static_cast<BurnWork>(w);
    const double most = usual(peers, [&](const BurnedGpu& g) { return rate_of(g, work); });
    for (const BurnedGpu* gpu : peers) {
      const double own = rate_of(*gpu, work);
      const double slower = own > 0 && most > 0 ? 1 - own / most : 0;
      if (slower > 1 - kLeastShare[w] && slower > kSpreads * relative_spread(*gpu, work)) {
        out.push_back({.kind = BurnFaultKind::slow,
                       .gpu = gpu->unit.index,
                       .work = work,
                       .slower = slower,
                       .sentence = tr("{} is {:.0f} % slower in {}: {}", named(*gpu), 100 * slower,
                                      work_words(work), cause_of(work, peers, *gpu))});
      }
    }
  }
}

// The result of most rounds of GPUs of this model; 0: there is none, or two have the same number.
struct Reference {
  uint64_t result = 0;
  bool known = false;
  bool unclear = false;
};

Reference reference_of(const Burn& burn, const std::string& model_name) {
  std::map<uint64_t, size_t> rounds;
  for (const BurnedGpu& gpu : burn.gpus) {
    for (const uint64_t result : gpu.results) {
      rounds[result] += gpu.unit.name == model_name ? 1 : 0;
    }
  }
  Reference out;
  size_t most = 0;
  for (const auto& [result, count] : rounds) {
    if (count > 0 && count >= most) {
      out = {.result = result, .known = true, .unclear = count == most};
      most = count;
    }
  }
  return out;
}

void add_wrong(const Burn& burn, const std::string& model_name, const Peers& peers,
               std::vector<BurnFault>& out) {
  const Reference reference = reference_of(burn, model_name);
  std::vector<std::string> unclear;
  for (const BurnedGpu* gpu : peers) {
    if (gpu->bad_copies > 0) {
      out.push_back({.kind = BurnFaultKind::wrong,
                     .gpu = gpu->unit.index,
                     .work = BurnWork::memory,
                     .sentence = tr("{} changes data: {} copies differ from what was copied", named(*gpu),
                                    gpu->bad_copies)});
    }
    if (results_of(burn, *gpu) == BurnResults::unclear) {
      unclear.push_back(named(*gpu));
    }
    if (results_of(burn, *gpu) == BurnResults::wrong) {
      const auto wrong = std::count_if(gpu->results.begin(), gpu->results.end(),
                                       [&](uint64_t r) { return r != reference.result; });
      out.push_back(
          {.kind = BurnFaultKind::wrong,
           .gpu = gpu->unit.index,
           .sentence = tr("{} computes wrong results: the same matmuls gave other bits in {} of {} rounds",
                          named(*gpu), wrong, gpu->results.size())});
    }
  }
  if (!unclear.empty()) {
    out.push_back(
        {.kind = BurnFaultKind::wrong,
         .gpu = unclear.size() == 1 ? peers.front()->unit.index : -1,
         .sentence =
             unclear.size() == 1
                 ? tr("{} computes wrong results: the same matmuls gave different bits", unclear.front())
                 : tr("the same matmuls give different bits on {}: one of them computes wrong results",
                      base::join(unclear, ", "))});
  }
}

void add_below_peak(const Peers& peers, std::vector<BurnFault>& out) {
  for (const BurnedGpu* gpu : peers) {
    const double own = rate_of(*gpu, BurnWork::matmul);
    const bool named_already = std::any_of(out.begin(), out.end(), [&](const BurnFault& f) {
      return f.gpu == gpu->unit.index && f.work == BurnWork::matmul;
    });
    if (gpu->peak_flops > 0 && own > 0 && own < kLeastOfPeak * gpu->peak_flops && !named_already) {
      out.push_back({.kind = BurnFaultKind::below_peak,
                     .gpu = gpu->unit.index,
                     .slower = 1 - own / gpu->peak_flops,
                     .sentence = tr("{} reaches {:.0f} % of its model's peak in bf16 matmul: {}", named(*gpu),
                                    100 * own / gpu->peak_flops, compute_cause(peers, *gpu))});
    }
  }
}

}  // namespace

double rate_of(const BurnedGpu& gpu, BurnWork work) {
  const auto& rates = gpu.rates[static_cast<size_t>(work)];
  return rates.empty() ? -1 : report::median(rates);
}

BurnResults results_of(const Burn& burn, const BurnedGpu& gpu) {
  if (gpu.results.empty()) {
    return BurnResults::none;
  }
  const Reference reference = reference_of(burn, gpu.unit.name);
  if (reference.unclear) {
    return BurnResults::unclear;
  }
  return std::all_of(gpu.results.begin(), gpu.results.end(),
                     [&](uint64_t r) { return r == reference.result; })
             ? BurnResults::equal
             : BurnResults::wrong;
}

std::vector<BurnFault> judge_burn(const Burn& burn) {
  std::vector<BurnFault> out;
  std::map<std::string, Peers> by_model;
  for (const BurnedGpu& gpu : burn.gpus) {
    if (gpu.problem.empty()) {
      by_model[gpu.unit.name].push_back(&gpu);
    } else {
      out.push_back({.kind = BurnFaultKind::failed,
                     .gpu = gpu.unit.index,
                     .sentence = tr("{} cannot be measured: {}", named(gpu), gpu.problem)});
    }
  }
  for (const auto& [name, peers] : by_model) {
    add_wrong(burn, name, peers, out);
    add_slow(peers, out);
    add_below_peak(peers, out);
  }
  if (burn.all_reduce_differs) {
    out.push_back(
        {.kind = BurnFaultKind::wrong,
         .gpu = -1,
         .work = BurnWork::peer,
         .sentence = tr("the GPUs have different results of one all_reduce: a link or a GPU changes data")});
  }
  std::stable_sort(out.begin(), out.end(), [](const BurnFault& a, const BurnFault& b) {
    return a.kind != b.kind ? a.kind < b.kind : a.slower > b.slower;
  });
  return out;
}

}  // namespace xpurun::launcher
