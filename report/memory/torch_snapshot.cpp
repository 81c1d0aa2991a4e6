#include "report/memory/torch_snapshot.h"

#include "common/base/strings.h"
#include "report/flight_recorder/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace xpurun::report {

using model::MemoryCategory;
using model::MemoryHolder;
using model::MemoryLook;

namespace {

constexpr size_t kMostFrames = 64;
constexpr int64_t kMostBytes = int64_t{1} << 50;
constexpr int64_t kMostDevices = 1024;
// A snapshot with a long history: 40 bytes each.
constexpr PlainLimits kLimits = {.values = size_t{128} << 20, .containers = size_t{64} << 20, .depth = 100};

int64_t bytes_at(const PlainTree& tree, const PlainValue& dict, std::string_view key) {
  return std::clamp<int64_t>(integer_of(tree.member(dict, key)).value_or(0), 0, kMostBytes);
}

class Snapshot {
 public:
  explicit Snapshot(const PlainTree& tree) : tree_(tree) {}

  base::Result<MemoryLook> read() {
    const PlainValue* segments = tree_.member(tree_.root, "segments");
    const PlainValue& list = segments == nullptr ? tree_.root : *segments;
    if (list.kind != PlainKind::list && list.kind != PlainKind::tuple) {
      return base::fail("not a memory snapshot of PyTorch: it has no list \"segments\"");
    }
    for (const PlainValue& segment : tree_.items(list)) {
      if (tree_.member(segment, "blocks") == nullptr) {
        return base::fail("not a memory snapshot of PyTorch: a segment has no \"blocks\"");
      }
      add_segment(segment);
    }
    read_traces();
    finish();
    return std::move(out_);
  }

 private:
  using Key = std::tuple<std::string, MemoryCategory, uint64_t, std::vector<uint32_t>>;
  struct Sum {
    int64_t bytes = 0;
    int64_t count = 0;
  };

  model::MemoryDevice& device(const PlainValue& segment) {
    const int64_t index =
        std::clamp<int64_t>(integer_of(tree_.member(segment, "device")).value_or(0), 0, kMostDevices);
    const std::string name = fmt::format("cuda:{}", index);
    for (model::MemoryDevice& known : out_.devices) {
      if (known.name == name) {
        return known;
      }
    }
    return out_.devices.emplace_back(model::MemoryDevice{.name = name});
  }

  void add_segment(const PlainValue& segment) {
    model::MemoryDevice& device = this->device(segment);
    device.reserved += bytes_at(tree_, segment, "total_size");
    device.expandable |= integer_of(tree_.member(segment, "is_expandable")).value_or(0) != 0 ? 1 : 0;
    const auto stream = static_cast<uint64_t>(integer_of(tree_.member(segment, "stream")).value_or(0));
    for (const PlainValue& block : tree_.items(*tree_.member(segment, "blocks"))) {
      const int64_t size = bytes_at(tree_, block, "size");
      const std::string_view state = text_of(tree_.member(block, "state"));
      if (state == "active_allocated") {
        device.allocated += size;
        std::vector<uint32_t> site = site_of(block);
        const MemoryCategory category = category_of(site);
        add({device.name, category, stream, std::move(site)}, size);
      } else if (state == "inactive") {
        device.unused += size;
        device.largest = std::max(device.largest, size);
        add({device.name, MemoryCategory::unused, stream, {}}, size);
      } else {
        add({device.name, MemoryCategory::pending, stream, {}}, size);
      }
    }
  }

  void add(Key key, int64_t size) {
    Sum& sum = sums_[std::move(key)];
    sum.bytes += size;
    ++sum.count;
  }

  // torch 1.13 and 2.0 keep the frames in the newest entry of "history".
  std::vector<uint32_t> site_of(const PlainValue& block) {
    const PlainValue* frames = tree_.member(block, "frames");
    if (frames == nullptr) {
      const PlainValue* history = tree_.member(block, "history");
      const auto entries = history == nullptr ? std::span<const PlainValue>() : tree_.items(*history);
      frames = entries.empty() ? nullptr : tree_.member(entries.back(), "frames");
    }
    std::vector<uint32_t> out;
    const auto list = frames == nullptr ? std::span<const PlainValue>() : tree_.items(*frames);
    for (const PlainValue& frame : list.first(std::min(list.size(), kMostFrames))) {
      out.push_back(place_of(frame));
    }
    return out;
  }

  uint32_t place_of(const PlainValue& frame) {
    const std::string_view file = text_of(tree_.member(frame, "filename"));
    const std::string_view function = text_of(tree_.member(frame, "name"));
    const int64_t line = integer_of(tree_.member(frame, "line")).value_or(0);
    const auto [it, added] =
        places_.try_emplace(std::tuple(file, line, function), static_cast<uint32_t>(out_.places.size()));
    if (added) {
      out_.places.push_back({.file = base::sanitize(file),
                             .line = static_cast<int>(std::clamp<int64_t>(line, 0, 1'000'000'000)),
                             .function = base::sanitize(function)});
    }
    return it->second;
  }

  // Innermost first: the first function that says what the memory is for.
  MemoryCategory category_of(const std::vector<uint32_t>& site) const {
    static constexpr std::pair<std::string_view, MemoryCategory> kFunctions[] = {
        {"_init_group", MemoryCategory::optimizer},
        {"init_state", MemoryCategory::optimizer},
        {"step", MemoryCategory::optimizer},
        {"backward", MemoryCategory::gradients},
        {"_engine_run_backward", MemoryCategory::gradients},
        {"forward", MemoryCategory::activations},
        {"_call_impl", MemoryCategory::activations}};
    for (const uint32_t index : site) {
      const model::MemoryPlace& place = out_.places[index];
      if (place.function == "_apply" && place.file.ends_with("module.py")) {
        return MemoryCategory::parameters;
      }
      for (const auto& [function, category] : kFunctions) {
        const bool of_torch = place.file.find("/torch/") != std::string::npos;
        if (place.function == function && (of_torch || category == MemoryCategory::activations)) {
          return category;
        }
      }
    }
    return MemoryCategory::tensors;
  }

  // What was asked for when no memory was left, the last time.
  void read_traces() {
    const PlainValue* traces = tree_.member(tree_.root, "device_traces");
    const auto lists = traces == nullptr ? std::span<const PlainValue>() : tree_.items(*traces);
    for (size_t i = 0; i < lists.size(); ++i) {
      for (const PlainValue& entry : tree_.items(lists[i])) {
        if (text_of(tree_.member(entry, "action")) == "oom") {
          out_.asked = bytes_at(tree_, entry, "size");
          out_.asked_device = fmt::format("cuda:{}", i);
          for (model::MemoryDevice& device : out_.devices) {
            device.free =
                device.name == out_.asked_device ? bytes_at(tree_, entry, "device_free") : device.free;
          }
        }
      }
    }
  }

  void finish() {
    out_.why = model::LookReason::snapshot;
    for (auto& [key, sum] : sums_) {
      const auto& [device, category, stream, site] = key;
      out_.holders.push_back({.device = device,
                              .category = category,
                              .bytes = sum.bytes,
                              .count = sum.count,
                              .stream = stream,
                              .site = site});
    }
    std::stable_sort(out_.holders.begin(), out_.holders.end(),
                     [](const MemoryHolder& a, const MemoryHolder& b) { return a.bytes > b.bytes; });
  }

  const PlainTree& tree_;
  MemoryLook out_;
  std::map<std::tuple<std::string_view, int64_t, std::string_view>, uint32_t> places_;
  std::map<Key, Sum> sums_;
};

}  // namespace

base::Result<MemoryLook> read_torch_snapshot(const std::string& content) {
  XPURUN_TRY_ASSIGN(const PlainTree tree, read_pickle(content, kLimits));
  return Snapshot(tree).read();
}

}  // namespace xpurun::report
