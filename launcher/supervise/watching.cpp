// Supervisor: looking at the processes and ranks, again and again, without touching them.
#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "launcher/supervise/supervisor.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace xpurun::launcher {

namespace {
// Between two walks over all processes, once the job has settled; the preload's hellos come in between.
constexpr double kSlowestDiscoveryS = 5;
constexpr double kQuickestDiscoveryS = 0.25;
// Between two looks at the ranks.
constexpr double kShortestPollS = 0.1;
constexpr double kLongestPollS = 2;
}  // namespace

void Supervisor::discover() {
  table_.refresh();
  const base::MonoNs now = base::mono_ns();
  const double helpers_after_s = options_.hang_timeout_s > 0 ? options_.hang_timeout_s / 2 : kForever;
  // A launcher whose ranks are not there yet, as one that waits for other nodes.
  bool ranks_to_come = false;
  for (const TrackedProcess* p : table_.living_ranks()) {
    const bool launcher = starts_ranks(p->record.cmdline);
    ranks_to_come |= launcher;
    const bool watchable = (p->record.identity != "single" || p->record.python) && !launcher;
    const auto it = watches_.find(p->record.pid);
    if (watchable && (it == watches_.end() || it->second.rank() != p->record.rank)) {
      watches_.insert_or_assign(p->record.pid,
                                RankWatch(p->record.rank, p->record.pid, now, helpers_after_s));
      journal_.changed();
    }
  }
  if (!watches_.empty()) {
    start_metrics();
  }
  // A process that was taken for the rank until its child turned out to be.
  std::erase_if(watches_, [&](const auto& entry) {
    const TrackedProcess* p = table_.find(entry.first);
    return p == nullptr || !p->alive || p->record.role != model::ProcessRole::rank;
  });
  const TrackedProcess* command = table_.find(table_.main());
  if (const auto line = unwatched_.look(journal_.elapsed_s(), !watches_.empty() || ranks_to_come,
                                        command != nullptr ? command->record.comm : std::string())) {
    say(*line);
  }
  journal_.manifest().processes = table_.records();
  journal_.manifest().world_size = table_.world_size();
}

void Supervisor::schedule_tick() {
  const double automatic = std::clamp(options_.hang_timeout_s / 20, kShortestPollS, kLongestPollS);
  const double poll = options_.poll_s > 0 ? options_.poll_s : automatic;
  base::MonoNs next = base::mono_ns() + base::s_to_ns(std::min(poll, discovery_interval_s_));
  if (const auto deadline = detector_.next_deadline()) {
    // Exactly when a rank will have been still for the timeout, not a poll later.
    next = std::min(next, std::max(*deadline, base::mono_ns() + base::s_to_ns(0.01)));
  }
  next_tick_ = next;
  tick_timer_ = loop_.at(next, [this] { tick(); });
}

void Supervisor::tick() {
  const base::MonoNs now = base::mono_ns();
  const double gap = base::ns_to_s(now - last_tick_);
  if (gap > kLongestPollS + 3 + options_.poll_s) {
    base::log_info("not running for {}: stopped or suspended; the ranks' clocks are set forward",
                   base::human_duration(gap));
    for (auto& [pid, watch] : watches_) {
      watch.forgive(now - last_tick_);
    }
  }
  last_tick_ = now;
  static_assert(kSlowestDiscoveryS > kLongestPollS);
  auto spawners = child_waits_.look(table_.possible_spawners(), now);
  const bool other_spawners = spawners != table_.spawners();
  table_.set_spawners(std::move(spawners));
  if (now >= next_discovery_ || other_spawners) {
    discover();
    // A child that a rank waits for must be known before the rank has been still for too long.
    const double slowest = options_.hang_timeout_s > 0 ? std::clamp(options_.hang_timeout_s / 4,
                                                                    kQuickestDiscoveryS, kSlowestDiscoveryS)
                                                       : kSlowestDiscoveryS;
    discovery_interval_s_ = std::min(discovery_interval_s_ * 1.6, slowest);
    next_discovery_ = now + base::s_to_ns(discovery_interval_s_);
  }
  if (dump_ == nullptr) {
    watch_ranks(now);
  }
  journal_.manifest().processes = table_.records();
  schedule_tick();
}

// Not while stacks are being taken: a debugger may hold the ranks for many seconds.
void Supervisor::watch_ranks(base::MonoNs now) {
  std::vector<StillRank> still;
  for (auto& [pid, watch] : watches_) {
    watch.sample(now, [&, below = pid] { return table_.descendants_of(below); });
    still.push_back({.rank = watch.rank(), .last_progress = watch.last_progress()});
    if (TrackedProcess* p = table_.find(pid)) {
      p->record.function = watch.position().function;
      p->record.file = watch.position().file;
      p->record.line = watch.position().line;
      p->record.last_progress_s = base::ns_to_s(watch.last_progress() - journal_.started());
    }
  }
  const StallEvents events = detector_.update(now, still);
  if (events.cleared) {
    stall_cleared();
  }
  if (events.raised) {
    stall_raised(events.longest);
  }
  if (events.escalated && is_doubted()) {
    stall_escalated();
  }
}

void Supervisor::stall_raised(base::Rank longest) {
  if (shutdown_.active() || finishing_) {
    return;
  }
  auto& incidents = journal_.manifest().incidents;
  incidents.push_back({.n = static_cast<int>(incidents.size()) + 1, .at_s = journal_.elapsed_s()});
  base::log_info("rank {} has been still for {}", longest, base::human_duration(options_.hang_timeout_s));
  journal_.changed();
  wish_dump({.why = model::DumpReason::hang, .trigger = longest});
}

void Supervisor::stall_escalated() {
  const model::Incident* incident = journal_.open_incident();
  if (incident == nullptr || incident->dump.empty() || shutdown_.active()) {
    return;
  }
  model::DumpManifest* manifest = known_dumps_.find(incident->dump);
  if (manifest == nullptr) {
    return;
  }
  manifest->escalated = true;
  // The stacks are those of the first alarm; how long it has been is told as of now.
  manifest->at_s = journal_.elapsed_s();
  manifest->ranks = observations();
  storage_.replace(journal_.dir().file(incident->dump + "/dump.json"), to_json(*manifest).dump(1));
  reports_.request();
}

void Supervisor::stall_cleared() {
  model::Incident* incident = journal_.open_incident();
  if (incident == nullptr) {
    return;
  }
  incident->cleared_s = journal_.elapsed_s();
  journal_.manifest().verdict = {};
  journal_.manifest().verdict.kind = model::VerdictKind::running;
  journal_.save_now();
  say_progress_again(*incident);
  if (options_.report && !finishing_) {
    reports_.request();
  }
}

}  // namespace xpurun::launcher
