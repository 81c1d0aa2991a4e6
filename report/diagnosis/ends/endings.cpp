#include "report/diagnosis/ends/endings.h"

#include "common/base/os/wait_status.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/ends/exceptions.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <sys/wait.h>
#include <utility>

namespace xpurun::report {

using base::tr;
using model::CrashNotice;
using model::ProcessRecord;
using model::RunManifest;

namespace {

// Longest time between a notice and the death that it announced, in seconds: the crash wait plus a core dump.
constexpr double kNoticeToDeathSeconds = 120;

// The event loop records a death when it handles it, while an exception carries its own time stamp. A death
// recorded up to this many seconds after an exception arrived may have come first and caused it.
constexpr double kBlurSeconds = 0.1;
// The same if the exception says that a connection broke: that comes first where the end of the other process
// takes time (the interpreter's cleanup, a core dump).
constexpr double kLostPeerBlurSeconds = 5;
constexpr double kBeforeSeconds = 0.001;
// A record that claims to be older than this many seconds on arrival comes from a different clock.
constexpr double kOldestNewsSeconds = 60;

bool is_synchronous(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL || signal == SIGABRT;
}

// Whether the notice announces the end of this process, as opposed to a signal that the process handled and
// survived.
bool announces(const CrashNotice& n, const ProcessRecord& p) {
  // A notice from more than 60 s before the process was first seen is from an earlier process with this pid.
  if (n.pid != p.pid || n.node != p.node || n.at_s + 1e-3 < p.seen_s - 60) {
    return false;
  }
  if (!p.death.happened) {
    return is_synchronous(n.signal);
  }
  const double gap = p.death.at_s - n.at_s;
  if (gap < -1 || gap > kNoticeToDeathSeconds) {
    return false;
  }
  if (n.signal == 0) {
    return true;
  }
  const base::WaitStatus status = p.death.wait_status;
  if (!status.known() || is_synchronous(n.signal)) {
    return true;
  }
  // The process may have handled SIGTERM: count it only if the process died of it, or reports that in the
  // shell's way (128 + signal).
  return status.signal() == n.signal || status.exit_code() - 128 == n.signal;
}

// Records by node and pid, in the order of the run manifest. A lookup, because the end of a job of thousands
// of ranks leaves thousands of each.
template <typename T>
class ByProcess {
 public:
  explicit ByProcess(const std::vector<T>& all) {
    for (const T& one : all) {
      found_[{one.node, one.pid}].push_back(&one);
    }
  }

  const std::vector<const T*>& of(size_t node, base::Pid pid) const {
    const auto it = found_.find({node, pid});
    return it == found_.end() ? none_ : it->second;
  }

 private:
  std::map<std::pair<size_t, base::Pid>, std::vector<const T*>> found_;
  std::vector<const T*> none_;
};

struct Records {
  explicit Records(const RunManifest& r)
      : run(r), processes(r.processes), notices(r.crashes), exceptions(r.exceptions) {}

  const ProcessRecord* latest(size_t node, base::Pid pid) const {
    const auto& found = processes.of(node, pid);
    return found.empty() ? nullptr : found.back();
  }

  const RunManifest& run;
  ByProcess<ProcessRecord> processes;
  ByProcess<CrashNotice> notices;
  ByProcess<model::PythonException> exceptions;
};

base::Pid supervisor_of(const RunManifest& run, size_t node) {
  return node < run.nodes.size() ? run.nodes[node].supervisor_pid : run.supervisor_pid;
}

std::string sender_text(const Records& records, size_t node, base::Pid sender) {
  const ProcessRecord* p = records.latest(node, sender);
  if (sender == supervisor_of(records.run, node)) {
    return tr("sent by xpurun");
  }
  return p != nullptr && !p->comm.empty() ? tr("sent by pid {} ({})", sender, p->comm)
                                          : tr("sent by pid {}", sender);
}

Ending ending_of(const ProcessRecord& p, const CrashNotice* notice, const Records& records) {
  const RunManifest& run = records.run;
  Ending e{.process = &p, .notice = notice, .at_s = p.death.at_s, .dead = p.death.happened};
  const base::WaitStatus status = p.death.happened ? p.death.wait_status : base::WaitStatus();
  if (notice != nullptr) {
    e.at_s = p.death.happened ? std::min(notice->at_s, p.death.at_s) : notice->at_s;
    e.known = true;
    e.signal = notice->signal;
    // MPI ends the rank. Its launcher may do so by a signal, before the rank exits.
    e.exit_code = notice->signal == 0 && status.exited() ? status.exit_code() : e.exit_code;
    if (notice->sender > 0 && notice->sender != p.pid) {
      e.cause = sender_text(records, p.node, notice->sender);
      const ProcessRecord* sender = records.latest(p.node, notice->sender);
      e.follower =
          notice->sender == supervisor_of(run, p.node) || (sender != nullptr && is_launcher(*sender, run));
    }
  } else if (status.signaled()) {
    e.known = true;
    e.signal = status.signal();
  } else if (status.exited()) {
    e.known = true;
    e.exit_code = status.exit_code();
  }
  if (p.death.follower && (notice == nullptr || notice->signal != 0)) {
    // A rank that crashed by itself and was killed a moment later is still its own root cause.
    e.follower = e.follower || notice == nullptr || !is_synchronous(notice->signal);
  }
  if (e.cause.empty() || p.death.follower) {
    e.cause = p.death.cause_hint;
  }
  e.by_itself =
      !e.follower && notice != nullptr && notice->sender == p.pid && !is_synchronous(notice->signal);
  if (e.by_itself) {
    e.cause = tr("sent by the process itself");
  }
  e.exception = last_word(records.exceptions.of(p.node, p.pid), p);
  if (auto caught = e.exception != nullptr ? raised_in_library(*e.exception) : std::nullopt) {
    e.caught = std::make_shared<const model::PythonException>(std::move(*caught));
    e.exception = e.caught.get();
  }
  if (e.exception != nullptr) {
    e.at_s =
        p.death.happened ? std::min(e.at_s, reported_at(*e.exception, run)) : reported_at(*e.exception, run);
  }
  if (e.raised()) {
    // Dying takes time: destructors run, crash in turn, or the launcher runs out of patience and sends a
    // signal.
    e.follower = false;
    e.cause.clear();
    e.in_wait = waited_for_peers(*e.exception);
  }
  return e;
}

// Ranks that ended without any message: their broken connections made other ranks raise exceptions.
void put_silent_deaths_first(const RunManifest& run, std::vector<Ending>& endings) {
  for (Ending& e : endings) {
    const bool silent = e.process->role == model::ProcessRole::rank && e.dead && e.notice == nullptr &&
                        e.exception == nullptr && !e.follower;
    if (!silent) {
      continue;
    }
    const double seen_s = e.at_s;
    for (const Ending& x : endings) {
      const bool lost_peer = x.raised() && x.in_wait && says_peer_is_gone(*x.exception);
      const double blur_s =
          (lost_peer ? kLostPeerBlurSeconds : kBlurSeconds) + order_uncertainty_s(run, x, e);
      if (x.raised() && x.exception->at_s >= seen_s - blur_s && x.at_s <= e.at_s) {
        e.at_s = x.at_s - kBeforeSeconds;
        e.silent = true;
      }
    }
  }
}

}  // namespace

double reported_at(const model::PythonException& x, const RunManifest& run) {
  const double wall_s = (static_cast<double>(x.wall_ns) - static_cast<double>(run.started_wall_ns)) / 1e9;
  const bool known = x.wall_ns > 0 && run.started_wall_ns > 0;
  // Another node may have reported an exception before this node's run began.
  const double oldest_s = std::min(x.at_s, std::max(0.0, x.at_s - kOldestNewsSeconds));
  return known ? std::clamp(wall_s, oldest_s, x.at_s) : x.at_s;
}

std::string how_it_ended(const Ending& e, size_t processes) {
  if (e.raised()) {
    return raised_words(*e.exception);
  }
  if (!e.known) {
    return tr("ended (its status could not be read)");
  }
  if (e.signal == 0) {
    return tr("exited with status {}", e.exit_code);
  }
  if (is_synchronous(e.signal)) {
    return tr("died of {}", base::signal_name(e.signal));
  }
  return tr("{} killed by {}", processes == 1 ? "was" : "were", base::signal_name(e.signal));
}

std::string lost_peer_words(const Ending& e) {
  const bool lost = e.raised() && says_peer_is_gone(*e.exception);
  return lost
             ? tr("lost the connection to another rank ({})", base::sanitize(e.exception->chain.front().type))
             : std::string();
}

namespace {

// The processes of all ranks, by the number of processes that had the same rank before.
std::map<const ProcessRecord*, int> attempts_of(const RunManifest& run) {
  std::vector<const ProcessRecord*> ranks;
  for (const ProcessRecord& p : run.processes) {
    if (p.role == model::ProcessRole::rank && p.rank >= 0) {
      ranks.push_back(&p);
    }
  }
  std::stable_sort(ranks.begin(), ranks.end(),
                   [](const auto* a, const auto* b) { return a->seen_s < b->seen_s; });
  std::map<const ProcessRecord*, int> out;
  std::map<base::Rank, std::pair<int, const ProcessRecord*>> latest;
  for (const ProcessRecord* p : ranks) {
    auto& [number, before] = latest[p->rank];
    const bool replaced = before != nullptr && before->ppid == p->ppid && before->death.happened &&
                          before->death.at_s <= p->seen_s;
    number = before == nullptr ? 1 : number + (replaced ? 1 : 0);
    before = p;
    out[p] = number;
  }
  return out;
}

}  // namespace

int attempts(const RunManifest& run) {
  int most = 1;
  for (const auto& [process, number] : attempts_of(run)) {
    most = std::max(most, number);
  }
  return most;
}

std::vector<const Ending*> failures_before_restarts(const std::vector<Ending>& endings,
                                                    const RunManifest& run) {
  const auto numbers = attempts_of(run);
  const int last = attempts(run);
  std::map<int, const Ending*> first;
  for (const Ending& e : endings) {
    const auto number = numbers.find(e.process);
    if (number != numbers.end() && number->second < last && !e.follower && e.failed()) {
      first.emplace(number->second, &e);
    }
  }
  std::vector<const Ending*> out;
  for (const auto& [number, ending] : first) {
    out.push_back(ending);
  }
  return out;
}

bool is_launcher(const ProcessRecord& p, const RunManifest& run) {
  const base::Pid main_pid = p.node < run.nodes.size() ? run.nodes[p.node].main_pid : run.main_pid;
  return p.role == model::ProcessRole::agent || (p.pid == main_pid && p.role != model::ProcessRole::rank);
}

double order_uncertainty_s(const RunManifest& run, const Ending& a, const Ending& b) {
  const size_t i = a.process->node;
  const size_t k = b.process->node;
  return i == k || std::max(i, k) >= run.nodes.size()
             ? 0
             : run.nodes[i].uncertainty_s + run.nodes[k].uncertainty_s;
}

std::vector<Ending> endings_of(const RunManifest& run) {
  std::vector<Ending> out;
  const Records records(run);
  for (const ProcessRecord& p : run.processes) {
    const CrashNotice* notice = nullptr;
    for (const CrashNotice* n : records.notices.of(p.node, p.pid)) {
      if (announces(*n, p) && (notice == nullptr || n->at_s < notice->at_s)) {
        notice = n;
      }
    }
    if (p.death.happened || notice != nullptr) {
      out.push_back(ending_of(p, notice, records));
    }
  }
  put_silent_deaths_first(run, out);
  std::stable_sort(out.begin(), out.end(), [](const Ending& a, const Ending& b) {
    if (a.at_s != b.at_s) {
      return a.at_s < b.at_s;
    }
    return a.process->death.order < b.process->death.order;
  });
  // After a failure, SIGTERM is the launchers' way to clean up, whoever sent it.
  bool failed = false;
  for (Ending& e : out) {
    if (failed && e.signal == SIGTERM) {
      e.follower = true;
    }
    const bool counts = e.process->role == model::ProcessRole::rank || is_launcher(*e.process, run);
    failed = failed || (counts && !e.follower && e.failed());
  }
  return out;
}

}  // namespace xpurun::report
