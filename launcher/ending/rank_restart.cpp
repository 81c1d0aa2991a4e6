#include "launcher/ending/rank_restart.h"

#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "launcher/options/run_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <signal.h>

namespace xpurun::launcher {

namespace {

// The torchelastic agent passes these to its workers (torch 1.9 and newer): the allowed number of restarts,
// and the number so far.
constexpr const char* kMaxRestarts = "TORCHELASTIC_MAX_RESTARTS";
constexpr const char* kRestartCount = "TORCHELASTIC_RESTART_COUNT";

}  // namespace

std::string RankRestart::obstacle_of(const TrackedProcess& rank) const {
  const auto env = proc_.environ(rank.record.pid);
  const auto number = [&](const char* name) {
    const auto found = env.find(name);
    return found != env.end() ? base::parse_int(found->second) : std::nullopt;
  };
  const auto most = number(kMaxRestarts);
  const auto used = number(kRestartCount);
  const TrackedProcess* parent = parts_.table.find(rank.record.ppid);
  if (!most || !used || parent == nullptr || !parent->alive) {
    return fmt::format("no launcher that restarts ranks has started rank {}", rank.record.rank);
  }
  if (*most <= 0) {
    return "the launcher was started without --max-restarts";
  }
  return *used >= *most ? fmt::format("the launcher has used its {} restart{}", *most, *most == 1 ? "" : "s")
                        : std::string();
}

std::string RankRestart::obstacle() const {
  const auto ranks = parts_.table.living_ranks();
  for (const TrackedProcess* rank : ranks) {
    if (std::string why = obstacle_of(*rank); !why.empty()) {
      return why;
    }
  }
  return ranks.empty() ? "no rank is alive" : "";
}

void RankRestart::begin(double grace_s) {
  timer_.stop();
  ended_.clear();
  pending_ = true;
  parts_.table.refresh();
  // Recorded first: the launcher ends the remaining ranks as soon as the first has ended.
  const auto ranks = parts_.table.living_ranks();
  for (const TrackedProcess* rank : ranks) {
    ended_.insert(rank->record.pid);
    for (const Descendant& below : parts_.table.descendants_of(rank->record.pid)) {
      ended_.insert(below.pid);
    }
  }
  for (const base::Pid pid : ended_) {
    parts_.ledger.we_are_ending(pid);
  }
  for (const TrackedProcess* rank : ranks) {
    if (auto sent = rank->pidfd.send_signal(SIGTERM); !sent) {
      base::log_debug("{}", base::to_line(sent.error()));
    }
    (void)rank->pidfd.send_signal(SIGCONT);
  }
  if (grace_s < kForever) {
    timer_.after(grace_s, [this] { kill_rest(); });
  }
}

void RankRestart::kill_rest() {
  for (const TrackedProcess* p : parts_.table.living()) {
    if (ended_.contains(p->record.pid)) {
      (void)parts_.table.signal(*p, SIGKILL);
    }
  }
}

void RankRestart::rank_found() {
  const auto ranks = parts_.table.living_ranks();
  const bool fresh = std::any_of(ranks.begin(), ranks.end(),
                                 [&](const auto* rank) { return !ended_.contains(rank->record.pid); });
  if (pending_ && fresh) {
    pending_ = false;
    restarted_();
  }
}

}  // namespace xpurun::launcher
