#include "report/timeline/untimed_calls.h"

#include "report/events/event_activity.h"
#include "report/gpu_work/recorded_work.h"
#include "report/timeline/output/sampled_row.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace xpurun::report {

namespace {

using model::EventFile;
using wire::OpClass;

constexpr int64_t kEver = std::numeric_limits<int64_t>::max();

bool is_work(OpClass op_class) {
  return op_class == OpClass::matmul || op_class == OpClass::kernel || op_class == OpClass::memory ||
         op_class == OpClass::graph;
}

bool is_captured(const EventFile& file) {
  return !file.events.empty() &&
         file.events.front().event.source == static_cast<uint8_t>(wire::Source::cupti);
}

std::vector<Period> in_order(std::vector<Period> periods) {
  std::sort(periods.begin(), periods.end(),
            [](const Period& a, const Period& b) { return a.begin_ns < b.begin_ns; });
  std::vector<Period> out;
  for (const Period& p : periods) {
    if (p.begin_ns >= p.end_ns) {
      continue;
    }
    if (!out.empty() && p.begin_ns <= out.back().end_ns) {
      out.back().end_ns = std::max(out.back().end_ns, p.end_ns);
    } else {
      out.push_back(p);
    }
  }
  return out;
}

// Both in order.
std::vector<Period> without(const std::vector<Period>& from, const std::vector<Period>& what) {
  std::vector<Period> out;
  for (Period p : from) {
    for (const Period& w : what) {
      if (w.end_ns <= p.begin_ns || w.begin_ns >= p.end_ns) {
        continue;
      }
      if (w.begin_ns > p.begin_ns) {
        out.push_back({p.begin_ns, w.begin_ns});
      }
      p.begin_ns = std::min(w.end_ns, p.end_ns);
    }
    if (p.begin_ns < p.end_ns) {
      out.push_back(p);
    }
  }
  return out;
}

}  // namespace

void UntimedCalls::put(Entries& entries, const EventFile& file) {
  std::vector<bool> counts;
  for (const auto& [number, op] : file.ops) {
    const auto op_class = static_cast<OpClass>(op.key.op_class);
    if (counts.size() <= number) {
      counts.resize(number + 1);
      entries.resize(std::max<size_t>(entries.size(), number + 1));
    }
    counts[number] = is_work(op_class);
    entries[number].kernel = op_class == OpClass::kernel;
  }
  WallClock clock(file.clocks);
  for (const EventFile::Entry& entry : file.events) {
    const model::TimedEvent& e = entry.event;
    // A begin of the host says nothing of the GPU.
    if (!counts[e.op] || e.source != static_cast<uint8_t>(wire::Source::events) ||
        (e.flags & wire::kEventHostBegin) != 0 || e.begin_ns > static_cast<uint64_t>(kLatestNs)) {
      continue;
    }
    const int64_t called = clock.wall_ns(e.begin_ns) - int64_t{e.delay_us} * 1'000;
    std::vector<Run>& runs = entries[e.op].runs;
    if (!runs.empty() && e.sequence == runs.back().last + 1) {
      runs.back().last = e.sequence;
      runs.back().last_called = std::max(runs.back().last_called, called);
    } else {
      runs.push_back({e.sequence, e.sequence, called, called});
    }
  }
}

// The times between numbers that do not follow each other.
std::vector<Period> UntimedCalls::between(const Entry& entry) {
  std::vector<Run> runs = entry.runs;
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.first < b.first; });
  std::vector<Period> out;
  for (size_t i = 1; i < runs.size(); ++i) {
    Run& next = runs[i];
    const Run& before = runs[i - 1];
    if (next.first > before.last && next.first - before.last > 1) {
      out.push_back({before.last_called, next.first_called});
    } else {
      next.last = std::max(next.last, before.last);
      next.last_called = std::max(next.last_called, before.last_called);
    }
  }
  return out;
}

void UntimedCalls::cover_captured(const EventFile& file) {
  if (file.lost > 0) {
    return;
  }
  std::unordered_map<uint32_t, uint64_t> called;
  uint64_t first = std::numeric_limits<uint64_t>::max();
  uint64_t last = 0;  // of the calls whose work was recorded
  for (const bool gpu : {false, true}) {
    for (const EventFile::Entry& entry : file.events) {
      const model::TimedEvent& e = entry.event;
      const auto op_class = static_cast<OpClass>(file.ops.at(e.op).key.op_class);
      if ((op_class != OpClass::host) != gpu || e.begin_ns > static_cast<uint64_t>(kLatestNs)) {
        continue;
      }
      if (!gpu) {
        called.emplace(e.sequence, e.begin_ns);
        first = std::min(first, e.begin_ns);
      } else if (const auto call = called.find(e.sequence); call != called.end()) {
        last = std::max(last, call->second);
      }
    }
  }
  if (first < last) {
    WallClock clock(file.clocks);
    const int64_t begin = clock.wall_ns(first);
    covered_.push_back({begin, clock.wall_ns(last)});
  }
}

void UntimedCalls::cover(const EventFile& file, RecordedCalls recorded) {
  Entries entries;
  put(entries, file);
  Period all{kEver, -kEver};
  std::vector<Period> missing;
  for (const Entry& entry : entries) {
    for (const Run& run : entry.runs) {
      all.begin_ns = std::min(all.begin_ns, run.first_called);
      all.end_ns = std::max(all.end_ns, run.last_called);
    }
    const std::vector<Period> of_entry = between(entry);
    missing.insert(missing.end(), of_entry.begin(), of_entry.end());
  }
  if (file.lost > 0 || all.begin_ns >= all.end_ns) {
    return;
  }
  if (recorded == RecordedCalls::all_but_end) {
    all.end_ns -= uncertain_end_ns(all.end_ns - all.begin_ns);
  }
  const std::vector<Period> known = without({all}, in_order(std::move(missing)));
  covered_.insert(covered_.end(), known.begin(), known.end());
}

void UntimedCalls::add(const EventFile& file, RecordedCalls recorded) {
  if (is_captured(file)) {
    cover_captured(file);
    return;
  }
  put(processes_[file.header.pid], file);
  if (recorded != RecordedCalls::some) {
    cover(file, recorded);
  }
}

std::vector<Period> UntimedCalls::periods() const {
  std::vector<Period> out;
  bool kernels = false;
  for (const auto& [pid, entries] : processes_) {
    for (const Entry& entry : entries) {
      if (entry.runs.empty()) {
        continue;
      }
      kernels = kernels || entry.kernel;
      const auto by_number = [](const Run& a, const Run& b) { return a.first < b.first; };
      const Run first = *std::min_element(entry.runs.begin(), entry.runs.end(), by_number);
      const Run last = *std::max_element(entry.runs.begin(), entry.runs.end(), by_number);
      const std::vector<Period> of_entry = between(entry);
      out.insert(out.end(), of_entry.begin(), of_entry.end());
      // The first launch of a kernel loads its code and is never timed.
      if (first.first > (entry.kernel ? 1U : 0U)) {
        out.push_back({-kEver, first.first_called});
      }
      // Calls that were sampled so far were sampled after the last timed one, too.
      if (!of_entry.empty()) {
        out.push_back({last.last_called, kEver});
      }
    }
  }
  if (!kernels) {
    out = {{-kEver, kEver}};  // kernels are only counted where timing them costs too much
  }
  return without(in_order(std::move(out)), in_order(covered_));
}

std::vector<Period> UntimedCalls::sampled() const {
  std::vector<Period> out;
  for (const auto& [pid, entries] : processes_) {
    for (const Entry& entry : entries) {
      const std::vector<Period> of_entry = between(entry);
      out.insert(out.end(), of_entry.begin(), of_entry.end());
    }
  }
  return without(in_order(std::move(out)), in_order(covered_));
}

void mark_sampled(Activity& activity) {
  if (activity.sampled.empty()) {
    return;
  }
  const auto call = static_cast<uint32_t>(activity.calls.size());
  const uint32_t track = activity.track(TrackKind::host, kSampledRow, "sampled: not every GPU call is timed");
  activity.calls.push_back({.name = "not every GPU call is timed", .category = Category::host});
  for (const Period& p : activity.sampled) {
    activity.slices.push_back(
        {.begin_ns = p.begin_ns, .duration_ns = p.end_ns - p.begin_ns, .call = call, .track = track});
  }
  put_in_order(activity);
}

}  // namespace xpurun::report
