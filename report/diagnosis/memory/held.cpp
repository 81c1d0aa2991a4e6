#include "report/diagnosis/memory/held.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/frame_text.h"
#include "report/diagnosis/waits/code_place.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace xpurun::report {

using base::later;
using base::tr;
using model::LookReason;
using model::MemoryCategory;
using model::MemoryHolder;
using model::MemoryLook;
using model::MemoryPlace;

namespace {

constexpr std::array<std::string_view, 17> kCategoryWords = {
    later("parameters"),
    later("gradients"),
    later("optimizer state"),
    later("activations"),
    later("buffers of modules"),
    later("other tensors"),
    later("communication buffers"),
    later("workspace"),
    later("pools of CUDA graphs"),
    later("pinned tensors"),
    later("shared tensors"),
    later("Python objects"),
    later("freed, but in use by a stream"),
    later("reserved and unused"),
    later("allocated with malloc"),
    later("allocated in data loader workers"),
    later("outside of PyTorch"),
};

std::string place_text(const MemoryPlace& place) {
  const std::string file(model::source_name(place.file));
  const std::string at = place.line > 0 ? fmt::format("{}:{}", file, place.line) : file;
  return place.function.empty() ? at : fmt::format("{} ({})", at, place.function);
}

}  // namespace

std::string_view kind_of_device(std::string_view device) {
  return device.substr(0, device.find(':'));
}

bool is_held(MemoryCategory category) {
  return category != MemoryCategory::unused && category != MemoryCategory::outside;
}

int64_t bytes_of(const MemoryLook& look, std::string_view kind, MemoryCategory category) {
  int64_t sum = 0;
  for (const MemoryHolder& holder : look.holders) {
    const bool fits = holder.device == kind || kind_of_device(holder.device) == kind;
    sum += holder.category == category && fits ? holder.bytes : 0;
  }
  return sum;
}

std::vector<CategoryBytes> by_category(const MemoryLook& look, std::string_view kind) {
  std::vector<CategoryBytes> out;
  for (size_t i = 0; i < model::kNames<MemoryCategory>.size(); ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    if (const int64_t bytes = bytes_of(look, kind, category); bytes > 0) {
      out.push_back({category, bytes});
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return out;
}

const MemoryPlace* users_place(const MemoryLook& look, const MemoryHolder& holder) {
  const MemoryPlace* best = nullptr;
  CodeOwner owner = CodeOwner::framework;
  for (const uint32_t index : holder.site) {
    const MemoryPlace& place = look.places[index];
    const CodeOwner its = owner_of(place.file);
    if (best == nullptr || its < owner) {
      best = &place;
      owner = its;
    }
  }
  return best;
}

namespace {

bool by_import(const MemoryLook& look, const MemoryHolder& holder) {
  return std::any_of(holder.site.begin(), holder.site.end(), [&](uint32_t index) {
    return look.places[index].file.starts_with("<frozen importlib");
  });
}

}  // namespace

std::vector<HeldBy> holders_of(const MemoryLook& look, std::string_view kind) {
  std::map<std::tuple<std::string_view, MemoryCategory, std::string_view, std::string>, HeldBy> sums;
  for (const MemoryHolder& holder : look.holders) {
    if (holder.rest != 0 || (!kind.empty() && kind_of_device(holder.device) != kind)) {
      continue;
    }
    const MemoryPlace* place = users_place(look, holder);
    std::string where = place == nullptr ? std::string() : place_text(*place);
    HeldBy& sum = sums[{holder.device, holder.category, holder.name, where}];
    if (sum.bytes == 0) {
      sum = {.device = holder.device,
             .category = holder.category,
             .name = holder.name,
             .place = where,
             .line = place == nullptr ? MemoryPlace{} : *place};
    }
    sum.bytes += holder.bytes;
    sum.count += holder.count;
    sum.grown += holder.grown;
    sum.imported += by_import(look, holder) ? holder.bytes : 0;
  }
  std::vector<HeldBy> out;
  for (auto& [key, sum] : sums) {
    out.push_back(std::move(sum));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const HeldBy& a, const HeldBy& b) { return a.bytes > b.bytes; });
  return out;
}

std::vector<HeldBy> growers_of(const MemoryLook& look, std::string_view kind) {
  std::vector<HeldBy> out = holders_of(look, kind);
  std::erase_if(out, [](const HeldBy& held) { return held.grown == 0 || !is_held(held.category); });
  std::stable_sort(out.begin(), out.end(),
                   [](const HeldBy& a, const HeldBy& b) { return a.grown > b.grown; });
  return out;
}

std::string category_words(MemoryCategory category) {
  return tr(kCategoryWords[static_cast<size_t>(category)]);
}

std::string holder_words(const HeldBy& held) {
  if (held.category == MemoryCategory::heap && !held.place.empty()) {
    return held.place;
  }
  if (held.category == MemoryCategory::workers && !held.place.empty()) {
    return tr("data loader workers, in {}", held.place);
  }
  const std::string what = held.name.empty() ? category_words(held.category)
                           : held.category == MemoryCategory::tensors
                               ? held.name
                               : fmt::format("{} {}", category_words(held.category), held.name);
  return held.place.empty() ? what : tr("{}, allocated at {}", what, held.place);
}

const MemoryLook* look_of(const std::vector<MemoryLook>& looks, base::Rank rank, LookReason why) {
  const MemoryLook* found = nullptr;
  for (const MemoryLook& look : looks) {
    if (look.rank == rank && look.why == why && (found == nullptr || look.wall_ns > found->wall_ns)) {
      found = &look;
    }
  }
  return found;
}

const MemoryLook* last_look(const std::vector<MemoryLook>& looks, base::Rank rank) {
  if (const MemoryLook* full = look_of(looks, rank, LookReason::out_of_memory)) {
    return full;
  }
  const MemoryLook* found = nullptr;
  for (const MemoryLook& look : looks) {
    if (look.rank == rank && look.why != LookReason::peak && look.why != LookReason::heap &&
        (found == nullptr || look.wall_ns > found->wall_ns)) {
      found = &look;
    }
  }
  return found;
}

}  // namespace xpurun::report
