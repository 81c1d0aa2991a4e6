#include "launcher/stacks/recorder.h"

#include "common/base/clock.h"
#include "common/base/scope.h"
#include "launcher/stacks/dumped_samples.h"
#include "launcher/stacks/off_cpu.h"
#include "stackdump/ptrace/access.h"
#include "stackdump/resolve/python_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <optional>
#include <random>
#include <signal.h>
#include <tuple>

namespace xpurun::launcher {

namespace {

using stackdump::PythonSampler;
using stackdump::SampledThread;

constexpr double kMissedShare = 0.1;  // of the samples; a note says so when more could not be taken in time

// The samples of one process.
class Recording {
 public:
  // By `dumps`, or without them by `sampler`.
  Recording(const DumpTarget& target, std::optional<PythonSampler> sampler, DumpedSamples* dumps,
            const RecordOrder& order)
      : target_(target), sampler_(std::move(sampler)), dumps_(dumps), which_(order.threads) {
    if (order.off_cpu) {
      off_cpu_.emplace(target.pid);
    }
  }

  // False if the process has ended.
  bool sample(base::MonoNs begin, uint64_t& torn) {
    const base::MonoNs before = base::mono_ns();
    const auto threads = sampler_ ? sampler_->sample() : dumps_->threads(target_.pid);
    if (!threads) {
      const bool lives = dumps_ != nullptr && stackdump::check_alive(target_.pid).has_value();
      torn += lives ? 1 : 0;
      return lives;
    }
    const base::MonoNs at = sampler_ ? (before + base::mono_ns()) / 2 : dumps_->moment(target_.pid);
    const base::MonoNs at_us = (at - begin) / 1000;
    for (const SampledThread& t : *threads) {
      const bool wanted = is_wanted(t);
      const std::string why = wanted && off_cpu_ ? off_cpu_->reason(t.tid, base::mono_ns()) : std::string();
      if (wanted && t.torn) {
        ++torn;
      } else if (wanted && off_cpu_ && why.empty()) {
        ++on_cpu_;
      } else if (wanted) {
        Thread& thread = threads_[t.id];
        thread.gil_only = which_ == RecordThreads::main_and_gil && !t.main;
        thread.name = t.main ? "MainThread" : (t.name.empty() ? thread.name : t.name);
        Samples& samples = thread.stacks[{t.frames, why}];
        ++samples.count;
        if (at_us <= UINT32_MAX) {  // over an hour
          samples.times.push_back(static_cast<uint32_t>(at_us));
        }
      }
    }
    return true;
  }

  // Moves the samples into the profile, whose frames are shared by all processes.
  void move_to(report::Profile& profile,
               std::map<std::tuple<std::string, std::string, int>, uint32_t>& known) {
    std::vector<uint32_t> number;
    for (const stackdump::SampledFrame& f : sampler_ ? sampler_->frames() : dumps_->frames()) {
      const auto [it, is_new] = known.try_emplace(std::tuple(f.function, f.file, f.line),
                                                  static_cast<uint32_t>(profile.frames.size()));
      if (is_new) {
        profile.frames.push_back({.function = f.function, .file = f.file, .line = f.line});
      }
      number.push_back(it->second);
    }
    const auto reason_number = [&](const std::string& why) {
      const auto [it, is_new] = known.try_emplace(std::tuple(fmt::format("[{}]", why), std::string(), 0),
                                                  static_cast<uint32_t>(profile.frames.size()));
      if (is_new) {
        profile.frames.push_back({.function = std::get<0>(it->first)});
      }
      return it->second;
    };
    for (auto& [id, thread] : threads_) {
      const bool worker = target_.role == model::ProcessRole::worker;
      report::ProfileTrack track{
          .rank = worker || target_.role == model::ProcessRole::rank ? target_.rank : base::kNoRank,
          .pid = target_.pid,
          .worker = worker,
          .thread = thread.name.empty() ? fmt::format("thread {:#x}", id) : thread.name,
          .gil_only = thread.gil_only};
      for (const auto& [place, samples] : thread.stacks) {
        std::vector<uint32_t> stack;
        for (const uint32_t frame : place.first) {
          stack.push_back(number[frame]);
        }
        if (!place.second.empty()) {
          stack.push_back(reason_number(place.second));
        }
        track.stacks[stack] += samples.count;
        std::vector<uint32_t>& times = track.times[std::move(stack)];
        times.insert(times.end(), samples.times.begin(), samples.times.end());
        std::sort(times.begin(), times.end());
      }
      profile.tracks.push_back(std::move(track));
    }
  }

  const DumpTarget& target() const { return target_; }
  uint64_t on_cpu() const { return on_cpu_; }

 private:
  bool is_wanted(const SampledThread& t) const {
    switch (which_) {
      case RecordThreads::main:
        return t.main;
      case RecordThreads::main_and_gil:
        return t.main || t.holds_gil;
      case RecordThreads::gil:
        return t.holds_gil;
      case RecordThreads::all:
        break;
    }
    return true;
  }

  struct Samples {
    uint64_t count = 0;
    std::vector<uint32_t> times;  // as in ProfileTrack
  };
  struct Thread {
    std::string name;
    bool gil_only = false;
    // By frames, and by the reason in a recording off the CPU.
    std::map<std::pair<std::vector<uint32_t>, std::string>, Samples> stacks;
  };

  DumpTarget target_;
  std::optional<PythonSampler> sampler_;
  DumpedSamples* dumps_;
  RecordThreads which_;
  std::optional<OffCpu> off_cpu_;
  uint64_t on_cpu_ = 0;  // samples that were left out
  std::map<uint64_t, Thread> threads_;
};

// Waits until `until` or until a terminating signal; true if a signal came.
bool wait_until(base::MonoNs until, const sigset_t& signals) {
  const base::MonoNs left = std::max<base::MonoNs>(until - base::mono_ns(), 0);
  const timespec limit{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
  return ::sigtimedwait(&signals, nullptr, &limit) > 0;
}

using Recordings = std::vector<std::optional<Recording>>;

base::Result<void> open_one(const DumpTarget& target, DumpedSamples* dumps, const RecordOrder& order,
                            Recordings& out) {
  if (dumps != nullptr) {
    XPURUN_TRY(dumps->threads(target.pid));
    out.emplace_back(std::in_place, target, std::nullopt, dumps, order);
  } else {
    XPURUN_TRY_ASSIGN(PythonSampler sampler, PythonSampler::open(target.pid));
    out.emplace_back(std::in_place, target, std::move(sampler), dumps, order);
  }
  return {};
}

// Targets that cannot be sampled are in the notes.
base::Result<Recordings> open_all(const std::vector<DumpTarget>& targets, DumpedSamples* dumps,
                                  const RecordOrder& order, std::vector<std::string>& notes) {
  if (dumps != nullptr) {
    // The first dump finds the names of the functions, which takes longer than those that follow.
    XPURUN_TRY(dumps->take(targets));
  }
  Recordings out;
  std::optional<base::Error> refused;
  for (const DumpTarget& target : targets) {
    if (auto opened = open_one(target, dumps, order, out); !opened) {
      notes.push_back(base::to_line(opened.error()));
      refused = refused ? std::move(refused) : std::move(opened.error());
    }
  }
  if (out.empty()) {
    return base::fail(refused.value_or(base::Error{.what = "no process to record", .id = "E-NO-PROCESS"}));
  }
  return out;
}

// One sample of each living process; returns how many live.
size_t sample_all(Recordings& recordings, DumpedSamples* dumps, base::MonoNs begin, std::vector<bool>& ended,
                  uint64_t& torn) {
  std::vector<DumpTarget> living;
  for (size_t i = 0; i < recordings.size(); ++i) {
    if (!ended[i]) {
      living.push_back(recordings[i]->target());
    }
  }
  if (dumps != nullptr) {
    (void)dumps->take(living);
  }
  for (size_t i = 0; i < recordings.size(); ++i) {
    ended[i] = ended[i] || !recordings[i]->sample(begin, torn);
  }
  return static_cast<size_t>(std::count(ended.begin(), ended.end(), false));
}

}  // namespace

base::Result<report::Profile> record(const std::vector<DumpTarget>& targets, const RecordOrder& order) {
  report::Profile out{.interval_s = 1 / order.rate};
  std::optional<DumpedSamples> dumped;
  if (order.native) {
    XPURUN_TRY_ASSIGN(dumped, DumpedSamples::open());
  }
  DumpedSamples* const dumps = dumped ? &*dumped : nullptr;
  XPURUN_TRY_ASSIGN(Recordings recordings, open_all(targets, dumps, order, out.notes));

  sigset_t signals;
  sigset_t before;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  const auto restore = base::on_scope_exit([&] { ::sigprocmask(SIG_SETMASK, &before, nullptr); });

  const base::MonoNs interval = base::s_to_ns(out.interval_s);
  const base::MonoNs begin = base::mono_ns();
  out.wall_ns = base::wall_ns();
  out.mono_ns = begin;
  const base::MonoNs end = begin + base::s_to_ns(order.seconds);
  std::vector<bool> ended(recordings.size(), false);
  uint64_t rounds = 0;
  uint64_t missed = 0;
  size_t living = recordings.size();
  // A random moment of each interval: steps that last as long as the interval would always be seen at the
  // same point.
  std::minstd_rand random;
  std::uniform_int_distribution<base::MonoNs> within(0, interval - 1);
  bool ended_early = false;
  for (base::MonoNs slot = begin; slot < end && living > 0 && !ended_early;) {
    ended_early = wait_until(slot + within(random), signals);
    if (!ended_early) {
      living = sample_all(recordings, dumps, begin, ended, out.torn);
      ++rounds;
    }
    slot += interval;
    // Missed samples are skipped instead of caught up, because a burst would distort the shares.
    if (const base::MonoNs late = base::mono_ns() - slot; late >= interval) {
      const auto skipped = static_cast<uint64_t>(late / interval);
      missed += skipped;
      slot += static_cast<base::MonoNs>(skipped) * interval;
    }
  }
  if (ended_early || (living > 0 && wait_until(end, signals))) {
    out.notes.emplace_back("ended early by a signal");
  }
  out.seconds = base::ns_to_s(base::mono_ns() - begin);
  if (static_cast<double>(missed) > kMissedShare * static_cast<double>(rounds + missed)) {
    out.notes.push_back(
        fmt::format("{} of {} samples were left out because sampling was too slow", missed, rounds + missed));
  }
  std::map<std::tuple<std::string, std::string, int>, uint32_t> known;
  uint64_t on_cpu = 0;
  for (auto& recording : recordings) {
    recording->move_to(out, known);
    on_cpu += recording->on_cpu();
  }
  if (living == 0 && out.samples() + on_cpu + out.torn == 0) {
    XPURUN_TRY(stackdump::check_alive(targets.front().pid));
  }
  if (order.off_cpu) {
    out.notes.push_back(
        fmt::format("{} of {} samples were on a CPU and are left out", on_cpu, on_cpu + out.samples()));
  }
  return out;
}

}  // namespace xpurun::launcher
