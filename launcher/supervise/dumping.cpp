// Supervisor: what the preload libraries report, and taking everybody's stacks.
#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "launcher/spawn/install_paths.h"
#include "launcher/supervise/supervisor.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <signal.h>

namespace xpurun::launcher {

namespace {
// A dump this young answers for a crash that comes right after it: the pictures would be the same.
constexpr double kFreshS = 2;
// For the directory of a dump: a crashed rank is held meanwhile.
constexpr double kDirectoryS = 1;
// For the files of a dump that somebody has asked for.
constexpr double kAnswerS = 2;
}  // namespace

void Supervisor::notice(const wire::Notice& n, base::Pid pid, base::Tid tid) {
  const bool known = table_.find(pid) != nullptr;
  if ((n.flags & wire::kNoticePython) != 0) {
    table_.note_python(pid);
  }
  if (n.kind == static_cast<uint16_t>(wire::NoticeKind::crash)) {
    crash_notice(n, pid, tid);
  } else if (n.kind == static_cast<uint16_t>(wire::NoticeKind::attach)) {
    attach_notice(pid);
  } else if (!known && !finishing_) {
    discover();
    if ((n.flags & wire::kNoticePython) != 0) {
      table_.note_python(pid);
    }
  }
}

void Supervisor::crash_notice(const wire::Notice& n, base::Pid pid, base::Tid tid) {
  discover();
  const TrackedProcess* p = table_.find(pid);
  const model::ProcessRole role = p != nullptr ? p->record.role : model::ProcessRole::other;
  const TrackedProcess* sender = n.sender_pid > 0 ? table_.find(n.sender_pid) : nullptr;
  const bool from_launcher = sender != nullptr && sender->record.role == model::ProcessRole::agent;
  base::log_info("pid {} ({}) reports {} (code {}, address {:#x}, sender {})", pid, name_of(role),
                 signal_name(n.signal), n.code, n.address, n.sender_pid);
  if (n.signal == SIGTERM) {
    ledger_.termination_notice(pid, n.sender_pid, from_launcher);
  }
  journal_.manifest().crashes.push_back({.pid = pid,
                                         .tid = tid,
                                         .rank = p != nullptr ? p->record.rank : base::kNoRank,
                                         .signal = n.signal,
                                         .code = n.code,
                                         .address = n.address,
                                         .sender = n.sender_pid,
                                         .at_s = journal_.elapsed_s()});
  journal_.changed();
  const bool concerns_us = model::takes_part(role);
  const bool aftermath =
      n.signal == SIGTERM && (from_launcher || ledger_.failure_seen() || last_interrupt_ != 0);
  if (!concerns_us || aftermath || shutdown_.active() || (finishing_ && !dump_)) {
    notices_.release(pid);
    return;
  }
  crashing_[pid] = {tid, n.ucontext};
  if (dump_ == nullptr && dumped_since(kFreshS)) {
    journal_.manifest().crashes.back().dump = dump_dir_;
    crashing_.erase(pid);
    notices_.release(pid);
    return;
  }
  wish_dump({.why = n.signal == SIGTERM ? model::DumpReason::terminated : model::DumpReason::crash,
             .trigger = p != nullptr ? p->record.rank : base::kNoRank});
}

bool Supervisor::dumped_since(double seconds) const {
  return dump_ != nullptr || !wishes_.empty() ||
         (last_dump_ != 0 && base::mono_ns() - last_dump_ < base::s_to_ns(seconds));
}

void Supervisor::wish_dump(DumpWish wish) {
  // A crash during a dump is served by that dump if it has the process on its list; its stacks then end in
  // the handler, below which the crash stands.
  wishes_.push_back(std::move(wish));
  if (dump_ == nullptr) {
    start_dump();
  }
}

std::vector<DumpTarget> Supervisor::dump_targets() const {
  std::vector<DumpTarget> targets;
  for (const TrackedProcess* p : table_.living()) {
    const model::ProcessRecord& r = p->record;
    if (!model::takes_part(r.role)) {
      continue;
    }
    DumpTarget t{.pid = r.pid, .rank = r.rank, .local_rank = r.local_rank, .role = r.role};
    if (const auto crash = crashing_.find(r.pid); crash != crashing_.end()) {
      t.crash_tid = crash->second.first;
      t.crash_ucontext = crash->second.second;
    }
    targets.push_back(std::move(t));
  }
  // Ranks first: their stops shall be closest together.
  std::stable_partition(targets.begin(), targets.end(),
                        [](const DumpTarget& t) { return t.role == model::ProcessRole::rank; });
  return targets;
}

std::vector<model::RankObservation> Supervisor::observations() const {
  const base::MonoNs now = base::mono_ns();
  std::vector<model::RankObservation> out;
  for (const auto& [pid, watch] : watches_) {
    out.push_back(watch.observe(now));
  }
  for (const auto& [pid, last] : gone_) {
    const TrackedProcess* p = table_.find(pid);
    out.push_back(last);
    if (p != nullptr && p->record.death.happened) {
      out.back().dead_s = journal_.elapsed_s() - p->record.death.at_s;
    }
  }
  // Ranks that died before they were known to be ranks.
  for (const TrackedProcess* p : table_.dead_ranks()) {
    const model::ProcessRecord& r = p->record;
    if (r.death.happened && gone_.count(r.pid) == 0) {
      model::RankObservation o;
      o.rank = r.rank;
      o.pid = r.pid;
      o.alive = false;
      o.wait_status = r.death.wait_status;
      o.dead_s = journal_.elapsed_s() - r.death.at_s;
      out.push_back(o);
    }
  }
  for (auto& o : out) {
    o.host = host_;
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return out;
}

void Supervisor::start_dump() {
  discover();
  dump_begun_ = base::mono_ns();
  serving_ = std::exchange(wishes_, {});
  const auto program = stackdump_program();
  const int n = static_cast<int>(journal_.manifest().dumps.size()) + 1;
  dump_dir_ = model::RunDir::dump_name(n, serving_.front().why);
  dump_manifest_ = {.n = n,
                    .why = serving_.front().why,
                    .host = host_,
                    .wall_ns = base::wall_ns(),
                    .at_s = journal_.elapsed_s(),
                    .hang_timeout_s = options_.hang_timeout_s,
                    .escalated = serving_.front().why == model::DumpReason::hang && !is_doubted(),
                    .idle_counts = options_.hang_idle,
                    .trigger_rank = serving_.front().trigger,
                    .ranks = observations()};
  const std::string directory = journal_.dir().file(dump_dir_);
  if (!program) {
    base::log_warn("no stack dump: {}", base::to_line(program.error()));
  }
  DumpRequest request{.program = program.value_or(""),
                      .directory = directory,
                      .host = host_,
                      .targets = program ? dump_targets() : std::vector<DumpTarget>(),
                      .pause_limit_s = options_.dump_deadline_s,
                      .signal_mask = inbox_.original_mask(),
                      .stderr_fd = complaints_.fd(),
                      .keep_snapshots = true};
  if (serving_.front().why == model::DumpReason::hang && options_.gpu_stacks != "never") {
    request.deadline_s = kDumpWithDebuggersS;
    request.helper_options = {"--gpu-stacks", options_.gpu_stacks};
  }
  journal_.manifest().dumps.push_back(
      {.n = n, .why = serving_.front().why, .dir = dump_dir_, .at_s = journal_.elapsed_s()});
  dump_ = std::make_unique<DumpJob>(
      loop_, std::move(request), [this](base::Pid pid) { table_.ignore(pid); },
      // Later, from the loop: the job must not be destroyed inside its own handler.
      [this](const DumpOutcome& outcome) { loop_.after(0, [this, outcome] { dump_done(outcome); }); });
  dump_begun_there_ = false;
  storage_.make_dirs(directory, [this, n](const base::Status& made) {
    if (!made) {
      base::log_warn("no stack dump: {}", base::to_line(made.error()));
    }
    begin_dump(n, made.has_value());
  });
  dump_patience_ = loop_.after(kDirectoryS, [this, n] {
    base::log_warn("no stack dump: the file system of {} does not answer", journal_.dir().path());
    begin_dump(n, false);
  });
  ledger_says_ = save_timing(directory + "/timing.json");
  event_files_.flush_all();
}

// The directory of dump `n` is there, or the dump is not possible. The first of the two counts.
void Supervisor::begin_dump(int n, bool possible) {
  if (dump_ == nullptr || dump_manifest_.n != n || dump_begun_there_) {
    return;
  }
  dump_begun_there_ = true;
  loop_.cancel(dump_patience_);
  if (possible) {
    dump_->start();
  } else {
    loop_.after(0, [this] { dump_done({}); });
  }
}

// Who asked for the dump reads it at once, so it has to be there.
void Supervisor::answer_wishes(size_t processes) {
  storage_.when_written(
      kAnswerS, [this, dir = dump_dir_, processes, wishes = std::exchange(serving_, {})](Written) {
        for (const DumpWish& wish : wishes) {
          if (wish.why == model::DumpReason::signal) {
            say(fmt::format("stacks of {} processes are in {}", processes, journal_.dir().file(dir)));
          }
          for (const auto& reply : wish.replies) {
            reply({{"ok", true}, {"dir", dir}});
          }
        }
      });
}

void Supervisor::dump_done(const DumpOutcome& outcome) {
  if (dump_ == nullptr) {
    return;
  }
  dump_.reset();
  last_dump_ = base::mono_ns();
  last_dump_s_ = base::ns_to_s(last_dump_ - dump_begun_);
  detector_.held_up(last_dump_ - dump_begun_);
  dump_manifest_.processes = outcome.processes;
  dump_manifest_.spread_ns = outcome.spread_ns;
  known_dumps_.keep(dump_dir_, dump_manifest_);
  storage_.replace(journal_.dir().file(dump_dir_ + "/dump.json"), to_json(dump_manifest_).dump(1));
  for (const auto& [pid, where] : crashing_) {
    if (model::CrashNotice* crash = journal_.find_crash(pid)) {
      crash->dump = dump_dir_;
    }
    notices_.release(pid);
  }
  crashing_.clear();
  bool diagnose = false;
  for (const DumpWish& wish : serving_) {
    if (wish.why == model::DumpReason::hang) {
      if (model::Incident* incident = journal_.open_incident()) {
        incident->dump = dump_dir_;
        diagnose = true;
      }
    }
  }
  journal_.save_now();
  answer_wishes(outcome.processes.size());
  if (diagnose && !finishing_) {
    reports_.request();
  }
  if (!wishes_.empty() && !finishing_) {
    start_dump();
  } else if (finishing_) {
    finish();
  }
}

}  // namespace xpurun::launcher
