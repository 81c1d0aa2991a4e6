#include "report/diagnosis/memory/memory_words.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/ends/exceptions.h"
#include "report/diagnosis/memory/held.h"
#include "report/diagnosis/wording.h"

#include <algorithm>

namespace xpurun::report {

using base::tr;
using model::MemoryCategory;
using model::MemoryLook;

namespace {

// A process with much memory lives on for a while after the kernel has killed it. Later, another process may
// have its pid.
constexpr double kOomBeforeDeathS = 60;
constexpr double kOomAfterDeathS = 2;

constexpr std::string_view kGpu = "cuda";
constexpr std::string_view kHostMemory = "host";
constexpr int64_t kLeastGrowth = int64_t{1} << 20;
constexpr int64_t kLeastHeld = int64_t{64} << 20;
constexpr size_t kMostCategories = 4;
constexpr size_t kMostHolders = 2;
constexpr double kMuch = 0.1;            // of all that is held
constexpr double kMuchOfTensors = 0.25;  // a variable that keeps so much is the first thing to look at
constexpr double kMuchOfActivations = 0.4;
constexpr double kMuchOfModel = 0.5;

std::string size_words(int64_t bytes) {
  return base::human_size(static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
}

int64_t held_in_all(const MemoryLook& look) {
  int64_t sum = 0;
  for (const CategoryBytes& one : by_category(look, kGpu)) {
    sum += is_held(one.category) ? one.bytes : 0;
  }
  return sum;
}

bool is_share(int64_t bytes, double share, int64_t all) {
  return static_cast<double>(bytes) >= share * static_cast<double>(std::max<int64_t>(all, 1));
}

// Of the model itself, the layer's names say less than the category.
bool is_of_model(MemoryCategory category) {
  return category == MemoryCategory::parameters || category == MemoryCategory::gradients ||
         category == MemoryCategory::optimizer;
}

std::string categories_text(const MemoryLook& look) {
  std::vector<std::string> parts;
  for (const CategoryBytes& one : by_category(look, kGpu)) {
    if (parts.size() < kMostCategories && one.category != MemoryCategory::unused) {
      parts.push_back(tr("{} {}", size_words(one.bytes), category_words(one.category)));
    }
  }
  return base::join(parts, tr(", "));
}

// Activations and gradients come and go within a step, so only looks at such a moment are compared.
const MemoryLook* comparable(const std::vector<MemoryLook>& looks, base::Rank rank, MemoryCategory category) {
  const bool comes_and_goes =
      category == MemoryCategory::activations || category == MemoryCategory::gradients;
  const MemoryLook* full = look_of(looks, rank, model::LookReason::out_of_memory);
  return full != nullptr  ? full
         : comes_and_goes ? look_of(looks, rank, model::LookReason::peak)
                          : last_look(looks, rank);
}

// More than each of the other ranks holds, by far.
void add_differences(const std::vector<MemoryLook>& looks, const MemoryLook& own, int64_t all,
                     std::vector<std::string>& out) {
  for (const CategoryBytes& one : by_category(own, kGpu)) {
    model::RankSet others;
    int64_t most = 0;
    for (const MemoryLook& look : looks) {
      const MemoryLook* other = look.rank == own.rank ? nullptr : comparable(looks, look.rank, one.category);
      if (other != nullptr && !others.contains(look.rank)) {
        others.insert(look.rank);
        most = std::max(most, bytes_of(*other, kGpu, one.category));
      }
    }
    if (!others.empty() && is_held(one.category) && is_share(one.bytes - most, kMuch, all)) {
      out.push_back(tr("rank {} holds {} more {} than any of {}", own.rank, size_words(one.bytes - most),
                       category_words(one.category), rank_words(others)));
    }
  }
}

// Mostly what the program has imported, which is no cause.
bool is_import(const HeldBy& held) {
  return 2 * held.imported > held.bytes;
}

// By the samples of the host memory. Little growth is what any program does.
void add_heap_growers(const std::vector<MemoryLook>& looks, base::Rank rank, std::vector<std::string>& out) {
  const MemoryLook* look = look_of(looks, rank, model::LookReason::heap);
  const double minutes = look == nullptr ? 0 : static_cast<double>(look->window_us) / 60e6;
  if (minutes <= 0) {
    return;
  }
  for (const HeldBy& held : growers_of(*look, kHostMemory)) {
    if (held.place.empty() || held.grown < kLeastGrowth || out.size() >= kMostHolders) {
      break;
    }
    if (is_import(held)) {
      continue;
    }
    out.push_back(look->steps > 0
                      ? tr("rank {}: {} a step in {}", rank,
                           size_words(held.grown / static_cast<int64_t>(look->steps)), holder_words(held))
                      : tr("rank {}: {} a minute in {}", rank,
                           size_words(static_cast<int64_t>(static_cast<double>(held.grown) / minutes)),
                           holder_words(held)));
  }
}

}  // namespace

namespace {

// What the other ranks hold of the same place.
struct OfOthers {
  model::RankSet ranks;
  int64_t most = 0;
};

OfOthers of_others(const std::vector<MemoryLook>& looks, base::Rank rank, const std::string& place) {
  OfOthers out;
  for (const MemoryLook& other : looks) {
    if (other.rank == rank || other.why != model::LookReason::heap) {
      continue;
    }
    out.ranks.insert(other.rank);
    for (const HeldBy& theirs : holders_of(other, kHostMemory)) {
      out.most = std::max(out.most, theirs.place == place ? theirs.bytes : 0);
    }
  }
  return out;
}

int64_t grown_a_step(const MemoryLook& look, const HeldBy& held) {
  // Less says nothing of how these bytes have come together.
  return look.steps > 0 && held.grown >= kLeastGrowth && is_share(held.grown, kMuch, held.bytes)
             ? held.grown / static_cast<int64_t>(look.steps)
             : 0;
}

model::HeldMemory held_memory(const MemoryLook& look, const HeldBy& held) {
  return {.where = {.function = held.line.function.empty() ? "<module>" : held.line.function,
                    .file = held.line.file,
                    .line = held.line.line},
          .bytes = held.bytes,
          .grown_a_step = grown_a_step(look, held)};
}

}  // namespace

std::vector<std::string> heap_words(const std::vector<MemoryLook>& looks, base::Rank rank) {
  std::vector<std::string> out;
  const MemoryLook* look = look_of(looks, rank, model::LookReason::heap);
  const model::MemoryDevice* host = look == nullptr ? nullptr : look->device(kHostMemory);
  if (host == nullptr || host->allocated == 0) {
    return out;
  }
  for (const HeldBy& held : holders_of(*look, kHostMemory)) {
    if (held.place.empty() || is_import(held) || held.bytes < kLeastHeld ||
        !is_share(held.bytes, kMuch, host->allocated) || out.size() >= kMostHolders) {
      continue;
    }
    const OfOthers others = of_others(looks, rank, held.place);
    const std::string words =
        tr("rank {} holds {} that were allocated at {}", rank, size_words(held.bytes), held.place);
    out.push_back(others.ranks.empty() ? words
                                       : tr("{}; the most that one of {} holds of this is {}", words,
                                            rank_words(others.ranks), size_words(others.most)));
  }
  return out;
}

model::HeldMemory held_by_line(const std::vector<MemoryLook>& looks, base::Rank rank) {
  const MemoryLook* look = look_of(looks, rank, model::LookReason::heap);
  const model::MemoryDevice* host = look == nullptr ? nullptr : look->device(kHostMemory);
  if (host == nullptr) {
    return {};
  }
  const auto found = [&](const std::vector<HeldBy>& holders, double least_share, int64_t least_growth) {
    return std::find_if(holders.begin(), holders.end(), [&](const HeldBy& held) {
      return held.line.line > 0 && held.bytes >= kLeastHeld && held.grown >= least_growth &&
             is_share(held.bytes, least_share, host->allocated) && !is_import(held);
    });
  };
  const std::vector<HeldBy> growers = growers_of(*look, kHostMemory);
  const std::vector<HeldBy> holders = holders_of(*look, kHostMemory);
  auto it = found(growers, kMuchOfTensors, kLeastGrowth);
  if (it == growers.end()) {
    it = found(holders, kMuchOfModel, 0);
    if (it == holders.end()) {
      return {};
    }
  }
  return held_memory(*look, *it);
}

HeldElsewhere held_elsewhere(const std::vector<MemoryLook>& looks, base::Rank killed) {
  constexpr int64_t kFarMore = 2;
  HeldElsewhere out;
  int64_t own = 0;  // of the killed rank, more than any other
  int64_t most = 0;
  for (const MemoryLook& look : looks) {
    for (const HeldBy& held :
         look.why == model::LookReason::heap ? holders_of(look, kHostMemory) : std::vector<HeldBy>()) {
      const OfOthers others = of_others(looks, look.rank, held.place);
      const int64_t excess = held.bytes - others.most;
      if (look.rank == killed) {
        own = std::max(own, excess);
      } else if (excess > most && held.line.line > 0 && excess >= kLeastHeld && !is_import(held)) {
        most = excess;
        out = {.rank = look.rank,
               .held = held_memory(look, held),
               .by_workers = held.category == MemoryCategory::workers,
               .most_of_others = others.most};
      }
    }
  }
  return most >= kFarMore * own ? out : HeldElsewhere{};
}

std::string held_elsewhere_words(const HeldElsewhere& other) {
  const std::string size = size_words(other.held.bytes);
  const std::string at = place(other.held.where);
  const std::string held =
      other.by_workers ? tr("; rank {} holds {} in its data loader workers and children, allocated at {}",
                            other.rank, size, at)
                       : tr("; rank {} holds {} that were allocated at {}", other.rank, size, at);
  const std::string grown = other.held.grown_a_step > 0
                                ? tr("{}, {} more in each step", held, size_words(other.held.grown_a_step))
                                : held;
  return other.most_of_others < kLeastGrowth
             ? tr("{}; no other rank holds any of it", grown)
             : tr("{}, each of the others at most {}", grown, size_words(other.most_of_others));
}

model::RankSet gathering_ranks(const std::vector<MemoryLook>& looks) {
  constexpr uint64_t kFewestSteps = 50;
  model::RankSet out;
  for (const MemoryLook& look : looks) {
    if (look.why != model::LookReason::heap || look.steps < kFewestSteps) {
      continue;
    }
    for (const HeldBy& held : growers_of(look, kHostMemory)) {
      if (held.line.line > 0 && held.grown >= kLeastHeld) {
        out.insert(look.rank);
      }
    }
  }
  return out;
}

std::string held_by_line_words(const model::ProcessRecord& rank, const model::HeldMemory& held) {
  const std::string at = place(held.where);
  const std::string of_it = rank.rss_bytes > held.bytes
                                ? tr("; it had {} in RAM, {} of them allocated at {}",
                                     size_words(rank.rss_bytes), size_words(held.bytes), at)
                                : tr("; it held {} that were allocated at {}", size_words(held.bytes), at);
  return held.grown_a_step > 0 ? tr("{}, {} more in each step", of_it, size_words(held.grown_a_step)) : of_it;
}

std::string growth_words(const model::MemoryGrowth& growth) {
  const auto size = [](double bytes) {
    return base::human_size(static_cast<uint64_t>(std::max(bytes, 0.0)));
  };
  const auto grown = static_cast<double>(growth.to_bytes - growth.from_bytes);
  const std::string from = size(static_cast<double>(growth.from_bytes));
  const std::string to = size(static_cast<double>(growth.to_bytes));
  if (growth.until_step > growth.since_step) {
    return tr("{} a step, from {} at step {} to {} at step {}",
              size(grown / static_cast<double>(growth.until_step - growth.since_step)), from,
              growth.since_step, to, growth.until_step);
  }
  const double seconds = std::max(growth.until_s - growth.since_s, 1.0);
  return tr("{} a minute, from {} to {} within {}", size(60 * grown / seconds), from, to,
            base::human_duration(seconds));
}

std::string last_seen_words(const Ending& e) {
  const model::ProcessRecord& p = *e.process;
  const std::string at = p.place.empty() ? "" : tr("was last seen in {}", place(p.place));
  const std::string ram =
      p.rss_bytes > 0 ? tr("had {} in RAM", base::human_size(static_cast<uint64_t>(p.rss_bytes))) : "";
  const std::string memory = ram.empty() || p.growth.empty()
                                 ? ram
                                 : tr("{}; its memory had grown by {}", ram, growth_words(p.growth));
  return at.empty() && memory.empty() ? ""
         : at.empty()                 ? tr("; it {}", memory)
         : memory.empty()             ? tr("; it {}", at)
                                      : tr("; it {} and {}", memory, at);
}

std::vector<std::string> gpu_memory_words(const model::RunManifest& run, const model::ProcessRecord& rank) {
  std::vector<std::string> out;
  const auto size = [](int64_t bytes) {
    return base::human_size(static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
  };
  if (rank.gpu_memory.empty()) {
    return out;
  }
  int64_t least = 0;
  int64_t most = 0;
  model::RankSet others;
  for (const model::ProcessRecord& p : run.processes) {
    if (p.role == model::ProcessRole::rank && p.rank != rank.rank && !p.gpu_memory.empty()) {
      const int64_t peak = p.gpu_memory.peak_bytes;
      least = others.empty() ? peak : std::min(least, peak);
      most = std::max(most, peak);
      others.insert(p.rank);
    }
  }
  const std::string own = size(rank.gpu_memory.peak_bytes);
  if (others.empty()) {
    out.push_back(tr("before, PyTorch had allocated at most {} of the GPU's {}", own,
                     size(rank.gpu_memory.total_bytes)));
  } else {
    out.push_back(tr("before, PyTorch had allocated at most {} of the GPU's {} on rank {}, and {} on {}", own,
                     size(rank.gpu_memory.total_bytes), rank.rank,
                     least == most ? size(most) : tr("{} to {}", size(least), size(most)),
                     rank_words(others)));
  }
  if (!rank.gpu_memory.growth.empty()) {
    out.push_back(
        tr("the GPU memory of rank {} had grown by {}", rank.rank, growth_words(rank.gpu_memory.growth)));
  }
  return out;
}

std::vector<std::string> held_words(const std::vector<MemoryLook>& looks, base::Rank rank) {
  std::vector<std::string> out;
  const MemoryLook* look = last_look(looks, rank);
  const int64_t all = look == nullptr ? 0 : held_in_all(*look);
  if (all == 0) {
    return out;
  }
  const std::string categories = categories_text(*look);
  out.push_back(
      look->why == model::LookReason::out_of_memory
          ? tr("what held the GPU memory of rank {} then: {}", rank, categories)
          : tr("what held the GPU memory of rank {} after {} steps: {}", rank, look->step, categories));
  size_t shown = 0;
  for (const HeldBy& held : holders_of(*look, kGpu)) {
    const bool is_known = !held.name.empty() || !held.place.empty();
    if (is_known && is_held(held.category) && !is_of_model(held.category) &&
        is_share(held.bytes, kMuch, all) && shown++ < kMostHolders) {
      out.push_back(tr("{} in {} blocks: {}", size_words(held.bytes), held.count, holder_words(held)));
    }
  }
  const MemoryLook* peak = look_of(looks, rank, model::LookReason::peak);
  const std::vector<HeldBy> before = peak == nullptr ? std::vector<HeldBy>() : holders_of(*peak, kGpu);
  const auto line = std::find_if(before.begin(), before.end(), [](const HeldBy& held) {
    return held.category == MemoryCategory::activations && !held.place.empty();
  });
  if (line != before.end()) {
    out.push_back(tr("before a backward pass, {} of activations were allocated at {}",
                     size_words(line->bytes), line->place));
  }
  add_differences(looks, *look, all, out);
  return out;
}

std::optional<std::string> advice_on_full_gpu(const model::OutOfMemory& full,
                                              const std::vector<MemoryLook>& looks, base::Rank rank) {
  const MemoryLook* look = look_of(looks, rank, model::LookReason::out_of_memory);
  if (look == nullptr) {
    return std::nullopt;
  }
  const int64_t all = held_in_all(*look);
  const std::vector<HeldBy> holders = holders_of(*look, kGpu);
  const auto kept = std::find_if(holders.begin(), holders.end(), [&](const HeldBy& held) {
    return held.category == MemoryCategory::tensors && !held.name.empty() &&
           is_share(held.bytes, kMuchOfTensors, all);
  });
  const bool others = full.others && full.asked && *full.others >= *full.asked;
  if (others && (kept == holders.end() || kept->bytes < static_cast<int64_t>(*full.others))) {
    return std::nullopt;  // their end is enough
  }
  const bool expandable = std::any_of(look->devices.begin(), look->devices.end(),
                                      [](const model::MemoryDevice& d) { return d.expandable != 0; });
  if (!others && full.reserved && full.asked && *full.reserved >= *full.asked && !expandable) {
    return tr(
        "{} are reserved and unused, in blocks of at most {}: try "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, which makes one block of them",
        base::human_size(*full.reserved), base::human_size(full.largest.value_or(0)));
  }
  if (kept != holders.end()) {
    return tr(
        "look at {}, which holds {}: keep numbers (loss.item()) instead of tensors, or free what is no "
        "longer needed",
        kept->name, size_words(kept->bytes));
  }
  const int64_t activations = bytes_of(*look, kGpu, MemoryCategory::activations);
  if (is_share(activations, kMuchOfActivations, all)) {
    return tr(
        "activations hold {}: recompute them (torch.utils.checkpoint), or use smaller batches; half the "
        "batch frees about {}",
        size_words(activations), size_words(activations / 2));
  }
  const int64_t model = bytes_of(*look, kGpu, MemoryCategory::parameters) +
                        bytes_of(*look, kGpu, MemoryCategory::gradients) +
                        bytes_of(*look, kGpu, MemoryCategory::optimizer);
  if (is_share(model, kMuchOfModel, all)) {
    return tr(
        "parameters, gradients and the state of the optimizer hold {}: share them among more GPUs (FSDP, "
        "ZeRO)",
        size_words(model));
  }
  return std::nullopt;
}

std::string advice_on_exception(const model::PythonException& exception, const std::vector<MemoryLook>& looks,
                                base::Rank rank) {
  const auto full = model::out_of_memory(exception.chain.front());
  const auto advice = full ? advice_on_full_gpu(*full, looks, rank) : std::nullopt;
  return advice ? *advice : advice_on(exception);
}

std::vector<std::string> grower_words(const std::vector<MemoryLook>& looks, base::Rank rank, bool on_gpu) {
  std::vector<std::string> out;
  if (!on_gpu) {
    add_heap_growers(looks, rank, out);
  }
  const MemoryLook* look = look_of(looks, rank, model::LookReason::growth);
  if (look == nullptr || look->steps == 0) {
    return out;
  }
  for (const HeldBy& held : growers_of(*look, on_gpu ? kGpu : std::string_view())) {
    const bool fits = on_gpu || kind_of_device(held.device) != kGpu;
    if (fits && out.size() < kMostHolders) {
      out.push_back(tr("rank {}: {} a step in {}", rank,
                       size_words(held.grown / static_cast<int64_t>(look->steps)), holder_words(held)));
    }
  }
  return out;
}

std::string group_use_words(const model::MachineHistory& machine, base::Rank rank, double until_s) {
  using model::HostUse;
  const model::HostUseHistory& use = machine.use;
  std::string group;  // not known of older runs, whose only group is the job's
  for (const model::RankPlace& place : machine.places) {
    group = place.rank == rank ? place.memory_group : group;
  }
  const auto track = [&](HostUse what) {
    return std::find_if(use.tracks.begin(), use.tracks.end(), [&](const model::UseTrack& t) {
      return t.use == what && (group.empty() || t.object == group);
    });
  };
  const auto processes = track(HostUse::group_processes);
  const auto cache = track(HostUse::group_cache);
  const auto shared = track(HostUse::group_shared);
  if (processes == use.tracks.end() || cache == use.tracks.end() || shared == use.tracks.end()) {
    return {};
  }
  for (size_t i = std::min({processes->values.size(), cache->values.size(), shared->values.size()});
       i-- > 0;) {
    const bool before = static_cast<double>(i) * use.bin_s <= until_s;
    if (before && processes->values[i] >= 0 && cache->values[i] >= 0 && shared->values[i] >= 0) {
      const auto size = [&](double bytes) { return size_words(static_cast<int64_t>(std::min(bytes, 1e18))); };
      return tr(
          "at the last reading before, the control group {} held {} of processes, {} of files (page cache) "
          "and "
          "{} of shared memory",
          base::sanitize(processes->object), size(processes->values[i]), size(cache->values[i]),
          size(shared->values[i]));
    }
  }
  return {};
}

std::string group_words(const model::RunManifest& run) {
  const model::MemoryGroup& group = run.memory;
  if (group.empty() || run.nodes.size() > 1) {
    return {};
  }
  const std::string limit =
      group.limit_bytes > 0
          ? tr(", its limit is {}", base::human_size(static_cast<uint64_t>(group.limit_bytes)))
          : tr(", it has no limit");
  return group.oom_kills == 1
             ? tr("the kernel killed 1 process of the memory control group {} for lack of memory{}",
                  base::sanitize(group.path), limit)
         : group.oom_kills > 0
             ? tr("the kernel killed {} processes of the memory control group {} for lack of memory{}",
                  group.oom_kills, base::sanitize(group.path), limit)
             : tr("the kernel killed no process of the memory control group {} for lack of memory{}",
                  base::sanitize(group.path), limit);
}

const model::KernelEvent* oom_kill_of(const model::KernelEvents& kernel, size_t node, base::Pid pid,
                                      double died_s) {
  const auto it = std::find_if(kernel.events.begin(), kernel.events.end(), [&](const model::KernelEvent& k) {
    return k.kind == model::KernelEventKind::oom_kill && k.node == node && k.pid == pid &&
           k.at_s >= died_s - kOomBeforeDeathS && k.at_s <= died_s + kOomAfterDeathS;
  });
  return it == kernel.events.end() ? nullptr : &*it;
}

std::string advice_on_growth(const model::HeldMemory& held) {
  return tr(
      "find what keeps the memory that {} allocates: it grows in each step, so a higher limit only delays "
      "the end",
      place(held.where));
}

std::string advice_on_held(const model::HeldMemory& held) {
  return tr("look at what {} keeps, which is {}: free what is no longer needed, or give the job more memory",
            place(held.where), base::human_size(static_cast<uint64_t>(held.bytes)));
}

model::NextStep advice_on_memory(bool limit) {
  return limit ? model::NextStep{.text = tr("give the job more memory (the limit of the container or of the "
                                            "scheduler), or make it use less: fewer data loader workers, "
                                            "smaller batches"),
                                 .command = ""}
               : model::NextStep{
                     .text = tr("find out which processes use the host's memory, or make the job use "
                                "less: fewer data loader workers, smaller batches"),
                     .command = ""};
}

std::string out_of_memory_words(const model::KernelEvent& kill) {
  return kill.memory_limit
             ? tr(" (out of memory: the kernel killed it at the memory limit of its control group)")
             : tr(" (out of memory: the kernel killed it because the host had none left)");
}

}  // namespace xpurun::report
