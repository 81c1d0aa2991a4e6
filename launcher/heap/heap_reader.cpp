#include "launcher/heap/heap_reader.h"

#include "common/base/strings.h"
#include "common/model/timing/span.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace xpurun::launcher {

namespace {

using model::MemoryPlace;

constexpr size_t kMostHolders = 400;
constexpr size_t kMostFrames = 24;
constexpr int64_t kMostBytes = int64_t{1} << 50;

template <typename Entry>
bool is_ready(const Entry& entry) {
  return entry.state.load(std::memory_order_acquire) == static_cast<uint32_t>(wire::HeapEntry::ready);
}

std::string text_of(const wire::HeapSegment& memory, uint32_t number) {
  if (number == 0 || number >= wire::kHeapTexts || !is_ready(memory.texts[number])) {
    return {};
  }
  const uint32_t offset = memory.texts[number].offset;
  const uint32_t bytes = memory.texts[number].bytes;
  if (offset > wire::kHeapTextBytes || bytes > wire::kHeapTextBytes - offset) {
    return {};
  }
  return base::sanitize(std::string_view(memory.text + offset, bytes));
}

// "heat.c:88 (residual)", "heat (residual)", "libheat.so+0x11a3"
MemoryPlace place_in_words(const std::string& words) {
  const model::CodeLocation found = model::location_of(words);
  if (!found.file.empty()) {
    return {.file = found.file, .line = found.line, .function = found.function};
  }
  const size_t name = words.find(" (");
  return name != std::string::npos && words.ends_with(')')
             ? MemoryPlace{.file = words.substr(0, name),
                           .line = 0,
                           .function = words.substr(name + 2, words.size() - name - 3)}
             : MemoryPlace{.file = words, .line = 0, .function = {}};
}

bool is_ours(const MemoryPlace& place) {
  return place.file.starts_with("<xpurun");
}

// Without debug information: below the program's own call in most cases.
bool is_in_library(const MemoryPlace& place) {
  return place.line == 0 && place.file.find(".so") != std::string::npos;
}

std::optional<MemoryPlace> place_at(const wire::HeapSegment& memory, uint32_t number,
                                    const PlaceOfAddress& place_of) {
  if (number == 0 || number >= wire::kHeapPlaces || !is_ready(memory.places[number])) {
    return std::nullopt;
  }
  const wire::HeapPlace& place = memory.places[number];
  if (place.file != 0) {
    return MemoryPlace{.file = text_of(memory, place.file),
                       .line = std::max(place.line, 0),
                       .function = text_of(memory, place.function)};
  }
  const auto words = place_of(place.address);
  return words && !words->empty() ? std::optional(place_in_words(*words)) : std::nullopt;
}

// The frames of the program, innermost first.
std::vector<MemoryPlace> site_of(const wire::HeapSegment& memory, const wire::HeapStack& stack,
                                 const PlaceOfAddress& place_of) {
  std::vector<MemoryPlace> frames;
  const uint32_t depth = std::min(stack.depth, wire::kHeapFrames);
  for (uint32_t i = 0; i < depth && frames.size() < kMostFrames; ++i) {
    if (auto place = place_at(memory, stack.frames[i], place_of); place && !is_ours(*place)) {
      frames.push_back(std::move(*place));
    }
  }
  if (const auto own = std::find_if_not(frames.begin(), frames.end(), is_in_library); own != frames.end()) {
    frames.erase(frames.begin(), own);
  }
  return frames;
}

}  // namespace

HeldByStack held_by_stack(const wire::HeapSegment& memory) {
  HeldByStack out{};
  for (uint32_t i = 0; i < wire::kHeapStacks; ++i) {
    out[i] = std::clamp<int64_t>(memory.stacks[i].held.load(std::memory_order_relaxed), 0, kMostBytes);
  }
  return out;
}

uint32_t HeapHolders::index_of(const MemoryPlace& place) {
  const auto [at, is_new] = places_.try_emplace({place.file, place.line, place.function},
                                                static_cast<uint32_t>(out_.places.size()));
  if (is_new) {
    out_.places.push_back(place);
  }
  return at->second;
}

void HeapHolders::add(model::MemoryCategory category, const wire::HeapSegment& memory,
                      const HeldByStack& held, const HeldByStack& grown, const PlaceOfAddress& place_of) {
  for (uint32_t i = 0; i < wire::kHeapStacks; ++i) {
    const wire::HeapStack& stack = memory.stacks[i];
    if (held[i] == 0 || (i > 0 && !is_ready(stack))) {
      continue;
    }
    std::vector<uint32_t> site;
    if (i > 0) {
      for (const MemoryPlace& place : site_of(memory, stack, place_of)) {
        site.push_back(index_of(place));
      }
    }
    all_ += held[i];
    model::MemoryHolder& sum = sums_[{category, std::move(site)}];
    sum.bytes += held[i];
    sum.grown += grown[i];
    sum.count += std::max<int64_t>(stack.held_samples.load(std::memory_order_relaxed), 0);
  }
}

void HeapHolders::finish() {
  std::vector<model::MemoryHolder> rows;
  for (auto& [key, sum] : sums_) {
    sum.device = "host";
    sum.category = key.first;
    sum.site = key.second;
    rows.push_back(std::move(sum));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::max(a.bytes, 8 * a.grown) > std::max(b.bytes, 8 * b.grown);
  });
  if (rows.size() > kMostHolders) {
    model::MemoryHolder rest;
    rest.device = "host";
    rest.category = model::MemoryCategory::heap;
    rest.rest = 1;
    for (size_t i = kMostHolders; i < rows.size(); ++i) {
      rest.bytes += rows[i].bytes;
      rest.count += rows[i].count;
    }
    rows.resize(kMostHolders);
    rows.push_back(std::move(rest));
  }
  out_.devices.push_back({.name = "host", .allocated = all_});
  out_.holders.insert(out_.holders.end(), rows.begin(), rows.end());
}

void ask_for_places(const wire::HeapSegment& memory, const PlaceOfAddress& place_of) {
  for (const wire::HeapPlace& place : memory.places) {
    if (is_ready(place) && place.file == 0 && place.address != 0) {
      (void)place_of(place.address);
    }
  }
}

}  // namespace xpurun::launcher
