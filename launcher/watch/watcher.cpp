#include "launcher/watch/watcher.h"

#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/watch/rank_watch.h"

#include <algorithm>
#include <utility>

namespace xpurun::launcher {

namespace {

// Seconds between two discoveries. The first discoveries follow each other quickly. Once the job has settled,
// hello notices of the preload library trigger further ones.
constexpr double kFirstDiscoveryS = 0.02;
constexpr double kDiscoveryGrowth = 1.6;
constexpr double kQuickestDiscoveryS = 0.25;
constexpr double kSlowestDiscoveryS = 5;
// Seconds between two polls.
constexpr double kShortestPollS = 0.1;
constexpr double kLongestPollS = 2;
static_assert(kSlowestDiscoveryS > kLongestPollS);
// A poll that is later than this does not count as time in which a rank stood still. Seconds.
constexpr double kLateS = 0.5;
// A longer delay is worth a line in the log. Seconds.
constexpr double kVeryLateS = 3;
// The walks over all processes of the job take at most one part in this number of the time.
constexpr double kWalkShare = 100;

// Longer than torch's data loader waits for each of its workers to end, and shorter than a stall.
double patience_with_waits(const RunOptions& options) {
  constexpr double kPatienceS = 6;
  return options.hang_timeout_s > 0 ? std::min(kPatienceS, options.hang_timeout_s / 2) : kPatienceS;
}

Watcher::MakeProbe make_rank_watch(const Watcher::Listener& listener) {
  return [calls = listener.native_calls](base::Rank rank, base::Pid pid, base::MonoNs now,
                                         double hang_timeout_s) -> std::unique_ptr<RankProbe> {
    return std::make_unique<RankWatch>(rank, pid, now, hang_timeout_s, calls);
  };
}

// The other ranks' places are watched once a rank has been still for this share of the timeout: early,
// because many samples tell a function that is often called from the one that works.
constexpr double kWatchPlaceShare = 0.125;
constexpr double kWatchPlaceS = 8;  // or after this time: a signal may end the job

// A time without progress of this length is shown in the time line of a run. Seconds.
constexpr double kShownStillS = 2;
// When a job without steps is looked at: a share of the hang timeout, and at least this.
constexpr double kEarlyS = 16;
constexpr double kEarlyShare = 0.2;
constexpr double kNoCpu = 0.1;          // of one core
constexpr size_t kMostStillTimes = 32;  // of one process

void note_progress(model::ProcessRecord& record, double at_s) {
  auto& still = record.still;
  const double before = record.last_progress_s > 0 ? record.last_progress_s : at_s;
  if (at_s - before >= kShownStillS) {
    still.push_back({.from_s = before, .to_s = at_s});
  }
  // The list is bounded, and the shortest times are the least interesting.
  if (still.size() > kMostStillTimes) {
    still.erase(std::min_element(still.begin(), still.end(), [](const auto& a, const auto& b) {
      return a.to_s - a.from_s < b.to_s - b.from_s;
    }));
  }
  record.last_progress_s = at_s;
}

}  // namespace

Watcher::Watcher(Parts parts, const Listener& listener, std::function<bool()> ranks_are_held)
    : Watcher(std::move(parts), listener, std::move(ranks_are_held), make_rank_watch(listener)) {}

Watcher::Watcher(Parts parts, Listener listener, std::function<bool()> ranks_are_held, MakeProbe make_probe)
    : parts_(std::move(parts)),
      listener_(std::move(listener)),
      ranks_are_held_(std::move(ranks_are_held)),
      make_probe_(std::move(make_probe)),
      child_waits_(patience_with_waits(parts_.options)),
      // The dump of a stall already says that it has outlasted a single timeout.
      detector_(parts_.options.hang_timeout_s,
                parts_.options.busy_timeouts > 1 ? parts_.options.busy_timeouts : 0,
                parts_.options.proof_grace_s),
      unwatched_(parts_.options) {}

void Watcher::start() {
  discovery_interval_s_ = kFirstDiscoveryS;
  discover();
  cpu_at_poll_ = parts_.loop.cpu();
  last_poll_ = parts_.loop.now();
  schedule();
}

void Watcher::discover() {
  const base::MonoNs before = parts_.loop.cpu();
  parts_.table.refresh();
  const base::MonoNs now = parts_.loop.now();
  // A child that a rank waits for must be known before the rank has been still for too long.
  const double timeout_s = parts_.options.hang_timeout_s;
  const double longest_s = timeout_s > 0 ? std::max(timeout_s / 4, kQuickestDiscoveryS) : kForever;
  const double rest_s = kWalkShare * base::ns_to_s(parts_.loop.cpu() - before);
  next_walk_ = now + base::s_to_ns(std::min(rest_s, longest_s));
  process_known();
}

void Watcher::discover_if_cheap() {
  if (parts_.loop.now() >= next_walk_) {
    discover();
  }
}

void Watcher::look_at(base::Pid pid, bool executed) {
  if (parts_.table.look_at(pid, executed)) {
    process_known();
  }
}

void Watcher::process_known() {
  const base::MonoNs now = parts_.loop.now();
  // A launcher whose ranks have not started yet, for example because it waits for other nodes.
  const TrackedProcess* launcher = nullptr;
  for (const TrackedProcess* p : parts_.table.living_ranks()) {
    const bool starts = starts_ranks(p->record.cmdline);
    launcher = starts ? p : launcher;
    const bool watchable = (p->record.identity != model::RankSource::single || p->record.python) && !starts;
    const auto it = probes_.find(p->record.pid);
    if (watchable && (it == probes_.end() || it->second->rank() != p->record.rank)) {
      auto probe = make_probe_(p->record.rank, p->record.pid, now, parts_.options.hang_timeout_s);
      if (parts_.options.judge_now) {
        probe->hurry();
      }
      probes_.insert_or_assign(p->record.pid, std::move(probe));
      listener_.rank_found();
    }
  }
  // A process counts as the rank until a child of it proves to be the rank.
  std::erase_if(probes_, [&](const auto& entry) {
    const TrackedProcess* p = parts_.table.find(entry.first);
    return p == nullptr || !p->alive || p->record.role != model::ProcessRole::rank;
  });
  if (launcher == nullptr || !probes_.empty() || !gone_.empty()) {
    launcher_.reset();
  } else if (launcher_ == nullptr || launcher_pid_ != launcher->record.pid) {
    launcher_pid_ = launcher->record.pid;
    launcher_ = make_probe_(base::kNoRank, launcher_pid_, now, 0);
  }
  const TrackedProcess* command = parts_.table.find(parts_.table.main());
  if (const auto warning = unwatched_.look(since_start_s(now), !probes_.empty() || launcher != nullptr,
                                           command != nullptr ? command->record.comm : std::string())) {
    listener_.warn(*warning);
  }
  listener_.table_updated();
}

void Watcher::schedule() {
  const RunOptions& options = parts_.options;
  const base::MonoNs now = last_poll_;
  const double automatic = std::clamp(options.hang_timeout_s / 20, kShortestPollS, kLongestPollS);
  const double interval_s = options.poll_s > 0 ? options.poll_s : automatic;
  next_poll_ = now + base::s_to_ns(std::min(interval_s, discovery_interval_s_));
  if (const auto deadline = detector_.next_deadline()) {
    // Polls at the exact time at which a rank will have been still for the timeout, instead of one poll
    // later.
    next_poll_ = std::min(next_poll_, std::max(*deadline, now + base::s_to_ns(0.01)));
  }
  planned_ = next_poll_ - last_poll_;
  timer_ = parts_.loop.at(next_poll_, [this] { poll(); });
}

void Watcher::poll() {
  find_spawners_and_discover(parts_.loop.now());
  const base::MonoNs now = parts_.loop.now();
  forgive_lateness(now);
  if (!ranks_are_held_()) {
    sample_ranks(now);
    look_early(now);
  }
  listener_.table_updated();
  schedule();
}

// A rank that only xpurun did not look at has not stood still for that time.
void Watcher::forgive_lateness(base::MonoNs now) {
  const base::MonoNs late = now - std::exchange(last_poll_, now) - planned_;
  const base::MonoNs cpu = parts_.loop.cpu();
  const base::MonoNs busy = cpu - std::exchange(cpu_at_poll_, cpu);
  if (base::ns_to_s(late) < kLateS) {
    return;
  }
  if (base::ns_to_s(late) >= kVeryLateS) {
    base::log_info("xpurun looks at the ranks {} too late: {}; the ranks' clocks are set forward",
                   base::human_duration(base::ns_to_s(late)),
                   busy > late / 2 ? "it was busy" : "it was stopped, suspended or without a CPU");
  }
  for (auto& [pid, probe] : probes_) {
    probe->forgive(late);
  }
}

void Watcher::find_spawners_and_discover(base::MonoNs now) {
  auto spawners = child_waits_.look(parts_.table.possible_spawners(), now);
  const bool other_spawners = spawners != parts_.table.spawners();
  parts_.table.set_spawners(std::move(spawners));
  if (now < std::max(next_discovery_, next_walk_) && !other_spawners) {
    return;
  }
  discover();
  // A child that a rank waits for must be known before the rank has been still for too long.
  const double timeout_s = parts_.options.hang_timeout_s;
  const double slowest =
      timeout_s > 0 ? std::clamp(timeout_s / 4, kQuickestDiscoveryS, kSlowestDiscoveryS) : kSlowestDiscoveryS;
  discovery_interval_s_ = std::min(discovery_interval_s_ * kDiscoveryGrowth, slowest);
  next_discovery_ = now + base::s_to_ns(discovery_interval_s_);
}

void Watcher::sample_ranks(base::MonoNs now) {
  const double after_s = std::min(parts_.options.hang_timeout_s * kWatchPlaceShare, kWatchPlaceS);
  const bool some_still = after_s > 0 && std::any_of(probes_.begin(), probes_.end(), [&](const auto& entry) {
                            return entry.second->still_s(now) >= after_s;
                          });
  size_t managers = 0;
  for (auto& [pid, probe] : probes_) {
    probe->watch_place(some_still);
    probe->among_others(probes_.size() > 1);
    probe->sample(now, [&, below = pid] { return parts_.table.descendants_of(below); });
    note_position(*probe, pid);
    for (auto& [helper, place] : probe->helper_places()) {
      if (TrackedProcess* p = parts_.table.find(helper)) {
        p->record.place = place;
      }
    }
    managers += probe->is_manager() ? 1 : 0;
    if (TrackedProcess* p = parts_.table.find(pid)) {
      p->record.rss_bytes = probe->rss_bytes();
      note_progress(p->record, since_start_s(probe->last_progress()));
    }
  }
  if (managers > 0) {
    leave_managers();
  }
  sample_launcher(now);
  find_stalls(now);
  if (!looking_ && !ranks_are_held_()) {  // a stall may have begun a dump
    look_at_stacks(now);
  }
}

// The other ranks get their numbers.
void Watcher::leave_managers() {
  for (const auto& [pid, probe] : probes_) {
    if (probe->is_manager()) {
      parts_.table.note_manager(pid);
    }
  }
  process_known();
}

// One look at a time; who has waited longest comes first.
void Watcher::look_at_stacks(base::MonoNs now) {
  base::Pid next = 0;
  base::MonoNs since = 0;
  for (const auto& [pid, probe] : probes_) {
    const base::MonoNs wanted = listener_.look ? probe->wants_look(now) : 0;
    if (wanted > 0 && (next == 0 || wanted < since)) {
      next = pid;
      since = wanted;
    }
  }
  if (next != 0) {
    listener_.look(next, probes_[next]->shows_by_stack() ? LookFor::stack : LookFor::circles);
  }
}

void Watcher::looked(base::Pid pid, const NativeLook& look) {
  if (const auto probe = probes_.find(pid); probe != probes_.end()) {
    probe->second->looked(parts_.loop.now(), look);
  }
  if (parts_.options.judge_now && !ranks_are_held_()) {
    look_at_stacks(parts_.loop.now());
  }
}

bool Watcher::wants_more_looks(double still_s) const {
  const base::MonoNs now = parts_.loop.now();
  return std::any_of(probes_.begin(), probes_.end(),
                     [&](const auto& entry) { return entry.second->wants_more_looks(now, still_s); });
}

void Watcher::note_position(const RankProbe& probe, base::Pid pid) {
  if (TrackedProcess* p = parts_.table.find(pid)) {
    p->record.function = probe.position().function;
    p->record.file = probe.position().file;
    p->record.line = probe.position().line;
    if (!probe.user_place().empty()) {
      p->record.place = probe.user_place();  // after the end of a process, its last place
    }
  }
}

// A launcher that waits for other nodes has no rank. It may wait for any time, so that this is no stall.
void Watcher::sample_launcher(base::MonoNs now) {
  if (launcher_ == nullptr) {
    return;
  }
  launcher_->sample(now, [] { return std::vector<Descendant>(); });
  note_position(*launcher_, launcher_pid_);
  const TrackedProcess* p = parts_.table.find(launcher_pid_);
  const double waited_s = p == nullptr ? 0 : since_start_s(now) - p->record.seen_s;
  const double timeout_s = parts_.options.hang_timeout_s;
  if (p == nullptr || said_rendezvous_ || timeout_s <= 0 || waited_s < timeout_s ||
      !model::waits_for_nodes(p->record)) {
    return;
  }
  said_rendezvous_ = true;
  const base::Speaking speaking(parts_.options.language);
  const std::string wanted = model::nodes_wanted(p->record);
  listener_.warn(base::tr("the launcher has started no rank for {}: it waits in rendezvous for other nodes{}",
                          base::human_duration(waited_s),
                          wanted.empty() ? "" : base::tr(" (--nnodes {})", base::sanitize(wanted))));
}

void Watcher::find_stalls(base::MonoNs now) {
  for (const StallEvent& event : detector_.update(now, still_ranks(now))) {
    listener_.stall_changed(event);
  }
}

// Without steps nothing says how long is usual. A rank that neither works nor waits for an event outside of
// the job is looked at after a part of the timeout, once for each time that it stands still.
void Watcher::look_early(base::MonoNs now) {
  const double after_s = std::max(kEarlyS, parts_.options.hang_timeout_s * kEarlyShare);
  if (after_s >= parts_.options.hang_timeout_s || !listener_.steps_seen || listener_.steps_seen()) {
    return;
  }
  bool look = false;
  for (const auto& [pid, probe] : probes_) {
    if (probe->still_s(now) < after_s) {
      looked_at_.erase(pid);
      continue;
    }
    const model::RankObservation seen = probe->observe(now);
    const bool stands = seen.outside == model::OutsideWait::none && seen.main_cpu_share < kNoCpu &&
                        seen.helper_life == model::HelperLife::still;
    look |= stands && looked_at_.insert(pid).second;
  }
  if (look) {
    look_for_stall(after_s, Look::before);
  }
}

// The records are read only when other ranks are still than before, or still again: a healthy job may wait
// for minutes.
void Watcher::mark_proved(base::MonoNs now, std::vector<StillRank>& ranks) {
  std::map<base::Rank, base::MonoNs> still;
  for (const StillRank& r : ranks) {
    if (now - r.last_progress >= HangDetector::kProved) {
      still[r.rank] = r.last_progress;
    }
  }
  still[base::kNoRank] = static_cast<base::MonoNs>(gone_.size());
  if (still != asked_) {
    proved_ = still.size() > 1 ? listener_.proved() : model::RankSet();
    asked_ = std::move(still);
  }
  for (StillRank& r : ranks) {
    r.proved = proved_.contains(r.rank) && asked_.contains(r.rank);
  }
}

std::vector<StillRank> Watcher::still_ranks(base::MonoNs now) {
  std::vector<StillRank> out;
  bool some_due = false;
  for (const auto& [pid, probe] : probes_) {
    const StillSigns signs = probe->signs();
    some_due |= probe->still_s(now) >= parts_.options.hang_timeout_s;
    out.push_back({.rank = probe->rank(),
                   .last_progress = looking_ && signs.loops ? now : probe->last_progress(),
                   .starved = probe->starved(),
                   .waits_for = signs.waits_for,
                   .condition = signs.condition});
  }
  if (listener_.proved && parts_.options.hang_timeout_s > 0) {
    mark_proved(now, out);
    some_due |= !proved_.empty();
  }
  if (some_due && listener_.open_calls) {
    const auto calls = listener_.open_calls();
    for (StillRank& r : out) {
      const auto call = calls.find(r.rank);
      r.with = call == calls.end() ? model::RankSet() : call->second.minus({r.rank});
    }
  }
  return out;
}

void Watcher::helper_failed(base::Rank rank) {
  for (auto& [pid, probe] : probes_) {
    if (probe->rank() == rank) {
      probe->helper_failed();
    }
  }
}

void Watcher::held_up(base::MonoNs duration) {
  detector_.held_up(duration);
  for (auto& [pid, probe] : probes_) {
    probe->held();
  }
}

void Watcher::look_for_stall(double still_s, Look look) {
  const double timeout_s = detector_.timeout_s();
  if (timeout_s <= 0 || ranks_are_held_()) {
    return;
  }
  detector_.set_timeout(std::min(timeout_s, still_s));
  looking_ = true;
  if (look == Look::now) {
    sample_ranks(parts_.loop.now());
  } else {
    find_stalls(parts_.loop.now());
  }
  looking_ = false;
  detector_.set_timeout(timeout_s);
}

void Watcher::process_ended(base::Pid pid, base::WaitStatus status) {
  const auto probe = probes_.find(pid);
  if (probe == probes_.end()) {
    return;
  }
  model::RankObservation last = probe->second->observe(parts_.loop.now());
  last.alive = false;
  last.wait_status = status;
  gone_[pid] = last;
  probes_.erase(probe);
}

std::vector<model::RankObservation> Watcher::living_observations() const {
  std::vector<model::RankObservation> out;
  for (const auto& [pid, probe] : probes_) {
    out.push_back(probe->observe(parts_.loop.now()));
  }
  return out;
}

std::vector<model::RankObservation> Watcher::last_observations() const {
  std::vector<model::RankObservation> out;
  for (const auto& [pid, last] : gone_) {
    out.push_back(last);
  }
  return out;
}

std::vector<model::RankObservation> Watcher::observations() const {
  const double now_s = since_start_s(parts_.loop.now());
  std::vector<model::RankObservation> out = living_observations();
  for (const auto& [pid, last] : gone_) {
    const TrackedProcess* p = parts_.table.find(pid);
    out.push_back(last);
    if (p != nullptr && p->record.death.happened) {
      out.back().dead_s = now_s - p->record.death.at_s;
    }
  }
  // Ranks that died before they were watched.
  for (const TrackedProcess* p : parts_.table.dead_ranks()) {
    const model::ProcessRecord& r = p->record;
    if (r.death.happened && gone_.count(r.pid) == 0) {
      model::RankObservation o;
      o.rank = r.rank;
      o.pid = r.pid;
      o.alive = false;
      o.wait_status = r.death.wait_status;
      o.dead_s = now_s - r.death.at_s;
      out.push_back(o);
    }
  }
  for (auto& o : out) {
    o.host = parts_.host;
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return out;
}

double Watcher::rank_still_s(base::Rank rank) const {
  double out = 0;
  for (const auto& [pid, probe] : probes_) {
    out = probe->rank() == rank ? std::max(out, probe->still_s(parts_.loop.now())) : out;
  }
  return out;
}

std::optional<double> Watcher::still_s(base::Pid pid) const {
  const auto probe = probes_.find(pid);
  return probe == probes_.end() ? std::nullopt : std::optional(probe->second->still_s(parts_.loop.now()));
}

}  // namespace xpurun::launcher
