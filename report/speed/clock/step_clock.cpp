#include "report/speed/clock/step_clock.h"

#include "common/base/tr.h"
#include "report/events/op_facts.h"
#include "report/speed/primitives/statistics.h"

#include <algorithm>
#include <cmath>

namespace xpurun::report {

namespace {

using model::ClockSource;

constexpr size_t kLatest = 256;     // steps and starts that tell how the host behaves
constexpr size_t kKinds = 32;       // first works that tell which kind is usual
constexpr size_t kPatience = 128;   // steps that wait for the GPU's time
constexpr size_t kFirstSteps = 32;  // steps, and time, until the first of these times is missed
constexpr int64_t kFirstNs = 5'000'000'000;
constexpr size_t kMostStarts = 1024;
constexpr size_t kLongestWindow = 512;
constexpr double kApart = 2;        // steps that were held take this many times as long as the others
constexpr size_t kLeastStarts = 8;  // of timed work, that tell whether a host runs ahead
constexpr double kMostLate = 0.25;  // of it
constexpr double kPartOfStep =
    0.5;  // from the begin of a step to its first work, where only the host's begin is known

template <typename T>
void keep(std::deque<T>& latest, const T& value, size_t most) {
  latest.push_back(value);
  if (latest.size() > most) {
    latest.pop_front();
  }
}

double quantile_of(const std::deque<double>& values, double q) {
  std::vector<double> copy(values.begin(), values.end());
  return quantile(copy, q);
}

double working(const HostStep& step) {
  return static_cast<double>(std::max<int64_t>(step.end_ns - step.begin_ns - step.aside_ns, 0)) * 1e-9;
}

}  // namespace

bool tells_start(wire::OpClass op_class, wire::Source source, unsigned flags) {
  const bool work = op_class == wire::OpClass::matmul || op_class == wire::OpClass::kernel ||
                    op_class == wire::OpClass::graph || op_class == wire::OpClass::collective;
  return work && is_gpu_time(static_cast<uint8_t>(source), flags);
}

void StepClock::ended(const HostStep& step) {
  pending_.push_back({.host = step, .first = {}, .work = {}});
  keep(host_s_, working(step), kLatest);
  keep(ends_, step.end_ns, kMostStarts);
}

void StepClock::started(const GpuStart& start) {
  gpu_ = true;
  keep(leads_s_, static_cast<double>(std::max<int64_t>(start.begin_ns - start.called_ns, 0)) * 1e-9, kLatest);
  keep(timed_, start, kMostStarts);
  if (!start.first_of_step) {
    return;
  }
  awaits_gpu_ = true;
  keep(kinds_, start.kind, kKinds);
  keep(starts_, start, kMostStarts);
}

// Of each host step, the first timed work that was called in it.
void StepClock::assign() {
  std::stable_sort(starts_.begin(), starts_.end(),
                   [](const GpuStart& a, const GpuStart& b) { return a.called_ns < b.called_ns; });
  auto at = pending_.begin();
  while (!starts_.empty() && !pending_.empty() && starts_.front().called_ns < pending_.back().host.end_ns) {
    const GpuStart& start = starts_.front();
    while (at != pending_.end() && at->host.end_ns <= start.called_ns) {
      ++at;
    }
    if (at != pending_.end() && start.called_ns >= at->host.begin_ns) {
      const auto put_earliest = [&start](std::optional<GpuStart>& known) {
        known = known && known->called_ns <= start.called_ns ? known : std::optional(start);
      };
      if (is_usual(start.kind)) {
        put_earliest(at->first);
      }
      if (!start.collective) {
        put_earliest(at->work);
      }
    }
    starts_.pop_front();
  }
}

// An evaluation makes another first call than a step of training.
bool StepClock::is_usual(uint64_t kind) const {
  const auto count = [this](uint64_t of) { return std::count(kinds_.begin(), kinds_.end(), of); };
  return 2 * count(kind) >= static_cast<std::ptrdiff_t>(kinds_.size()) ||
         std::all_of(kinds_.begin(), kinds_.end(), [&](uint64_t one) { return count(one) <= count(kind); });
}

std::optional<size_t> StepClock::next_known(size_t from) const {
  for (size_t i = from; i < pending_.size(); ++i) {
    if (pending_[i].first) {
      return i;
    }
  }
  return {};
}

void StepClock::drop(size_t count) {
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(count));
  any_emitted_ = any_emitted_ || count > 0;
}

// The first `count` steps share the time; `steps`: how many steps it is, if not as many.
void StepClock::emit_between(int64_t begin_ns, int64_t end_ns, size_t count, double steps,
                             std::vector<ClockedStep>& out) {
  int64_t aside = 0;
  for (size_t i = 0; i < count; ++i) {
    aside += pending_[i].host.aside_ns;
  }
  const double each = static_cast<double>(std::max<int64_t>(end_ns - begin_ns - aside, 0)) / steps;
  double rest = each * static_cast<double>(count) + static_cast<double>(aside);  // to the end
  for (size_t i = 0; i < count; ++i) {
    const Pending& one = pending_[i];
    const int64_t at = end_ns - std::llround(rest);
    rest -= each + static_cast<double>(one.host.aside_ns);
    out.push_back({.source = ClockSource::gpu,
                   .begin_ns = at,
                   .duration_ns = end_ns - std::llround(rest) - at,
                   .aside_ns = one.host.aside_ns,
                   .work_ns = one.work ? one.work->begin_ns : -1,
                   .lead_ns = one.work ? std::max<int64_t>(one.work->begin_ns - one.work->called_ns, 0) : -1,
                   .together = count});
  }
  drop(count);
}

void StepClock::emit_on_gpu(std::vector<ClockedStep>& out) {
  while (!pending_.empty()) {
    const bool begins = pending_.front().first.has_value();
    const auto next = next_known(begins ? 1 : 0);
    if (!next || *next > kPatience) {
      return;
    }
    const int64_t end = pending_[*next].first->begin_ns;
    const int64_t begin = begins ? pending_.front().first->begin_ns : pending_.front().host.begin_ns;
    if (end <= begin) {
      pending_[*next].first.reset();  // clocks that contradict each other
      continue;
    }
    emit_between(begin, end, *next, static_cast<double>(*next) + (begins ? 0 : kPartOfStep), out);
  }
}

void StepClock::emit_all_on_gpu(std::vector<ClockedStep>& out) {
  assign();
  for (;;) {
    emit_on_gpu(out);
    // Too far away for one mean.
    const auto far = pending_.empty() ? std::nullopt : next_known(pending_.front().first ? 1 : 0);
    if (!far) {
      return;
    }
    emit_without_gpu(*far, true, out);
  }
}

// The GPU begins work after the host has ended the next step too: the host does not wait for the GPU in each
// step.
bool StepClock::runs_ahead() const {
  size_t all = 0;
  size_t late = 0;
  for (const GpuStart& one : timed_) {
    const auto step = std::upper_bound(ends_.begin(), ends_.end(), one.called_ns);
    if (step == ends_.begin() || ends_.end() - step < 2) {
      continue;
    }
    ++all;
    late += one.begin_ns > *(step + 1) ? 1 : 0;
  }
  if (all >= kLeastStarts) {
    return static_cast<double>(late) > kMostLate * static_cast<double>(all);
  }
  // Too little tells how far the host is ahead. Steps of two very different lengths are a sign.
  const double above = held_above();
  double held = 0;
  double sum = 0;
  for (const double one : host_s_) {
    held += one > above ? one : 0;
    sum += one;
  }
  return above > 0 && held > sum / 2 && quantile_of(host_s_, 0.5) <= above;
}

// Otsu's threshold of the logarithm: host steps above it were held. 0: there are no two kinds of steps.
double StepClock::held_above() const {
  std::vector<double> logs;
  for (const double one : host_s_) {
    logs.push_back(std::log(std::max(one, 1e-9)));
  }
  std::sort(logs.begin(), logs.end());
  double sum = 0;
  for (const double one : logs) {
    sum += one;
  }
  double best = -1;
  double threshold = 0;
  double low = 0;
  const auto n = static_cast<double>(logs.size());
  for (size_t i = 1; i < logs.size(); ++i) {
    low += logs[i - 1];
    const auto below = static_cast<double>(i);
    const double apart = (sum - low) / (n - below) - low / below;
    const double between = below * (n - below) * apart * apart;
    if (between > best && apart > std::log(kApart)) {
      best = between;
      threshold = (logs[i - 1] + logs[i]) / 2;
    }
  }
  return best > 0 ? std::exp(threshold) : 0;
}

void StepClock::emit_host(size_t count, ClockSource source, std::vector<ClockedStep>& out) {
  for (size_t i = 0; i < count; ++i) {
    const HostStep& host = pending_[i].host;
    out.push_back({.source = source,
                   .begin_ns = host.begin_ns,
                   .duration_ns = host.end_ns - host.begin_ns,
                   .aside_ns = host.aside_ns});
  }
  drop(count);
}

// Whether the GPU had done all work when this step of the host ended, which was held. A full queue holds the
// host too, and then the GPU is as far behind as ever. Nothing: the next timed work is not known yet.
std::optional<bool> StepClock::has_caught_up(size_t index, size_t count, double above) const {
  if (timed_.empty()) {
    return true;
  }
  const int64_t end_ns = pending_[index].host.end_ns;
  const auto next = std::find_if(timed_.begin(), timed_.end(),
                                 [end_ns](const GpuStart& one) { return one.called_ns >= end_ns; });
  if (next == timed_.end()) {
    return {};
  }
  // The work tells of the last step before it that was held.
  for (size_t later = index + 1; later < count && pending_[later].host.end_ns <= next->called_ns; ++later) {
    if (working(pending_[later].host) > above) {
      return false;
    }
  }
  const double lead = static_cast<double>(next->begin_ns - next->called_ns) * 1e-9;
  return lead <= quantile_of(leads_s_, 0.9) / 2;
}

// Where the GPU has caught up with a host that was held, both are at the same place, so the time between two
// such steps is right.
void StepClock::emit_windows(size_t count, bool all, std::vector<ClockedStep>& out) {
  const double above = held_above();
  while (count > 0) {
    size_t length = 0;
    bool ends = false;
    for (; length < count && !ends; ++length) {
      const HostStep& host = pending_[length].host;
      const bool held = above > 0 && working(host) > above;
      const auto caught_up = held ? has_caught_up(length, count, above) : std::optional(false);
      if (!caught_up && !all) {
        return;
      }
      ends = caught_up.value_or(false);
    }
    if (!ends && !all && length < kLongestWindow) {
      return;
    }
    const size_t first = out.size();
    const int64_t begin = pending_.front().host.begin_ns;
    int64_t end = pending_[length - 1].host.end_ns;
    if (!ends && window_step_s_ > 0) {
      // The host has issued these steps; the GPU has not done them yet.
      end = begin + static_cast<int64_t>(window_step_s_ * 1e9 * static_cast<double>(length));
    } else if (!ends) {
      for (const GpuStart& one : timed_) {
        end = one.called_ns <= pending_[length - 1].host.end_ns ? std::max(end, one.begin_ns) : end;
      }
    }
    emit_between(begin, end, length, static_cast<double>(length), out);
    for (size_t i = first; i < out.size(); ++i) {
      out[i].source = ClockSource::windows;
      out[i].work_ns = out[i].lead_ns = -1;
    }
    if (ends) {
      window_step_s_ = static_cast<double>(out.back().duration_ns - out.back().aside_ns) * 1e-9;
    }
    count -= length;
  }
}

void StepClock::emit_without_gpu(size_t count, bool all, std::vector<ClockedStep>& out) {
  if (gpu_ && runs_ahead()) {
    why_ = base::later(
        "the host runs ahead of the GPU, and no time of the GPU shows the single steps: means between "
        "two moments at which the host waited");
    emit_windows(count, all, out);
    return;
  }
  emit_host(count, ClockSource::host, out);
}

bool StepClock::waits_for_gpu() const {
  if (!awaits_gpu_ || pending_.empty()) {
    return awaits_gpu_;
  }
  return kinds_.empty() ? pending_.size() <= kFirstSteps ||
                              pending_.back().host.end_ns - pending_.front().host.begin_ns <= kFirstNs
                        : pending_.size() <= kPatience;
}

std::vector<ClockedStep> StepClock::take() {
  std::vector<ClockedStep> out;
  if (gpu_) {
    emit_all_on_gpu(out);
    if (waits_for_gpu()) {
      return out;
    }
    awaits_gpu_ = false;
  }
  emit_without_gpu(pending_.size(), false, out);
  return out;
}

std::vector<ClockedStep> StepClock::finish() {
  std::vector<ClockedStep> out;
  if (gpu_) {
    emit_all_on_gpu(out);
    if (any_emitted_ && !pending_.empty() && pending_.front().first && pending_.size() <= kPatience) {
      drop(pending_.size());  // the GPU ended them later than the host, nobody knows when
    }
  }
  emit_without_gpu(pending_.size(), true, out);
  return out;
}

}  // namespace xpurun::report
