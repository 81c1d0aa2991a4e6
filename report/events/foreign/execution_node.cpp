#include "report/events/foreign/execution_node.h"

#include "common/base/strings.h"
#include "common/model/speed/kernel_name.h"
#include "report/events/foreign/operation_names.h"
#include "report/events/op_facts.h"

#include <algorithm>
#include <cmath>

namespace xpurun::report {

uint32_t ExecutionNodes::call_of(const ExecutionNode& node) {
  const bool placed = !node.begin_us;
  const std::string what = node.collective.empty() ? node.group : node.collective + ' ' + node.group;
  const auto [at, is_new] = calls_.emplace(std::tuple(node.name, node.on_gpu, node.bytes, what, placed),
                                           static_cast<uint32_t>(out_.calls.size()));
  if (!is_new) {
    return at->second;
  }
  const Category category = !node.on_gpu               ? Category::host
                            : !node.collective.empty() ? Category::collective
                            : node.memory              ? Category::memory
                                                       : Category::kernel;
  const std::string name = base::sanitize(node.name);
  Call call{.name = node.on_gpu ? model::kernel_name(name) : name, .category = category};
  call.key = key_of_category(category);
  call.captured = node.on_gpu;
  if (category == Category::collective && !set_collective(call.key, node.collective)) {
    (void)set_collective(call.key, name);
  }
  if (node.bytes > 0) {
    call.work = static_cast<uint64_t>(node.bytes);
    call.arguments.push_back({"bytes", node.bytes});
  }
  if (!node.group.empty()) {
    call.arguments.push_back({"communicator_name", base::sanitize(node.group)});
  }
  if (placed) {
    call.arguments.push_back({"begin", std::string("by dependencies")});
  }
  out_.calls.push_back(std::move(call));
  return at->second;
}

// After what it depends on, and after what is before it in its row.
int64_t ExecutionNodes::placed_ns(const ExecutionNode& node, uint32_t track) {
  int64_t out = until_[track];
  for (const uint64_t id : node.after) {
    const auto found = ends_.find(id);
    out = std::max(out, found == ends_.end() ? 0 : found->second);
  }
  return out;
}

void ExecutionNodes::add(const ExecutionNode& node) {
  ++nodes_;
  if (node.duration_us < 0) {
    return;  // a label, or an operation that was not timed
  }
  const double begin_ns = node.begin_us.value_or(0) * 1e3;
  const double duration_ns = node.duration_us * 1e3;
  const bool possible = begin_ns >= 0 && begin_ns < static_cast<double>(kLatestNs) / 2 &&
                        duration_ns <= static_cast<double>(kLongestNs);
  if (!possible) {
    left_out_.add(node.name);
    return;
  }
  const TrackKind kind = !node.on_gpu               ? TrackKind::host
                         : !node.collective.empty() ? TrackKind::communication
                         : node.memory              ? TrackKind::memory
                                                    : TrackKind::compute;
  Slice slice{.duration_ns = std::llround(duration_ns), .call = call_of(node)};
  slice.track = out_.track(kind, node.row);
  slice.begin_ns = node.begin_us ? std::llround(begin_ns) : placed_ns(node, slice.track);
  if (slice.begin_ns > kLatestNs / 2) {
    left_out_.add(node.name);
    return;
  }
  out_.placed = out_.placed || !node.begin_us;
  ends_[node.id] = slice.end_ns();
  until_[slice.track] = std::max(until_[slice.track], slice.end_ns());
  out_.slices.push_back(slice);
  ++slices_;
}

}  // namespace xpurun::report
