// The evidence lines: the state of every rank, the endings, the quality of the dump.
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/language/vocabulary_words.h"
#include "report/diagnosis/call_words.h"
#include "report/diagnosis/diagnose.h"
#include "report/diagnosis/ends/exceptions.h"
#include "report/diagnosis/helpers.h"
#include "report/diagnosis/memory/memory_words.h"
#include "report/diagnosis/rank_exceptions.h"
#include "report/diagnosis/rule.h"
#include "report/diagnosis/rules/gpu_errors.h"
#include "report/diagnosis/rules/surroundings.h"
#include "report/diagnosis/several_nodes.h"
#include "report/diagnosis/vocabulary.h"
#include "report/diagnosis/waits/code_place.h"
#include "report/diagnosis/waits/thread_waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <tuple>

namespace xpurun::report {

using base::tr;
using model::RankSet;
using model::Verdict;
using model::VerdictKind;
using model::word_of;

namespace {

constexpr size_t kMostEndings = 4;  // groups of deaths
constexpr double kSameMomentS = 0.1;
constexpr size_t kMostAttempts = 3;
constexpr size_t kMostClasses = 5;
constexpr size_t kMostHelpers = 2;
constexpr size_t kMostThreads = 3;  // threads that ended with an exception
constexpr double kNoCpu = 0.1;      // of one core

std::string doing(const RankView& v) {
  switch (v.state) {
    case RankState::dead:
      return v.crashed ? tr("crashed in {}", place(v.where)) : tr("gone");
    case RankState::silent:
      return v.silent_reason.empty() ? tr("nothing readable")
                                     : tr("nothing readable: {}", base::sanitize(v.silent_reason));
    case RankState::waiting:
      return tr("in {}", waiting_place(v.wait->what, v.wait->where));
    default:
      break;
  }
  const std::string at = tr("in {}", place(v.where));
  return v.wait ? tr("{}, waiting for a {}", at, tr(v.wait->what)) : at;
}

// " (since 14:03:12 UTC)"; empty if the time of day is not known, or if the duration is not that of a stall.
std::string since_words(const Scene& scene, double seconds) {
  const model::RunManifest& run = scene.facts.run;
  const auto dump = std::find_if(run.dumps.begin(), run.dumps.end(),
                                 [&](const model::DumpRecord& d) { return d.dir == scene.facts.dump_dir; });
  if (dump == run.dumps.end() || !knows_clock(run, dump->at_s) || !(seconds >= 1 && seconds <= dump->at_s)) {
    return "";
  }
  return tr(" (since {})", utc_words(run, dump->at_s - seconds));
}

// Whether the rank's interpreter has no Python code left to run, or is finalising.
bool is_ending(const RankView& v) {
  const model::ThreadStack* main = v.stacks != nullptr ? v.stacks->main_thread() : nullptr;
  if (main == nullptr) {
    return v.where.function.empty();
  }
  return is_finalising(*main) || (!runs_python(*main) && v.seen != nullptr && v.seen->has_python);
}

// "stuck: rank 2 (1 of 4) in load_batch (train.py:31: time.sleep) for 10 s (since 14:03:12 UTC), using 0 %
// CPU"
void add_classes(const Scene& scene, Verdict& verdict) {
  struct Class {
    RankSet ranks;
    const RankView* first = nullptr;
    double seconds = 0;
    double cpu = 0;
  };
  std::map<std::pair<RankState, std::string>, Class> classes;
  const bool failed = verdict.kind == VerdictKind::exception || verdict.kind == VerdictKind::exit;
  for (const RankView& v : scene.ranks) {
    // Other lines report the ends of ranks. The remaining ranks end too: the position of an interpreter's
    // cleanup says nothing.
    const bool gone = v.state == RankState::dead && !v.crashed && scene.ending_of(v) != nullptr;
    const bool cleans_up = failed && is_ending(v);
    if (verdict.kind != VerdictKind::hang && (gone || cleans_up)) {
      continue;
    }
    Class& c = classes[{v.state, doing(v)}];
    c.ranks.insert(v.rank);
    c.first = c.first == nullptr ? &v : c.first;
    c.seconds = std::max(c.seconds, v.seconds);
    c.cpu = std::max(c.cpu, v.seen != nullptr ? v.seen->main_cpu_share : 0);
  }
  std::vector<std::pair<std::pair<RankState, std::string>, Class>> sorted(classes.begin(), classes.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second.ranks.size() < b.second.ranks.size();
  });
  size_t shown = 0;
  for (const auto& [key, c] : sorted) {
    if (shown++ == kMostClasses) {
      verdict.evidence.push_back(tr("and {} more groups of ranks", sorted.size() - kMostClasses));
      break;
    }
    const bool with_pid = verdict.kind == VerdictKind::hang && verdict.ranks == c.ranks &&
                          c.ranks.size() == 1 && key.first != RankState::dead && c.first->pid > 0;
    const std::string share = tr("{} of {}", c.ranks.size(), scene.ranks.size());
    std::string line = tr("{}: {} ({}) {}", word_of(key.first), rank_words(c.ranks),
                          with_pid ? tr("{}, pid {}", share, c.first->pid) : share, key.second);
    if (c.first->seen != nullptr && key.first != RankState::dead) {
      // A rank can be busy only because it moved a moment ago.
      const bool moved = key.first == RankState::busy && c.cpu < kNoCpu;
      const bool accused = verdict.kind == VerdictKind::hang && verdict.ranks.contains(c.first->rank);
      const std::string still =
          tr(" for {}", seconds_words(c.seconds)) + (accused ? since_words(scene, c.seconds) : "");
      line += tr("{}, using {:.0f} % CPU",
                 moved ? tr(", last progress {} ago", seconds_words(c.seconds)) : still, c.cpu * 100);
    }
    // The sentence has said where these ranks wait, or where the culprit crashed.
    const bool waits = verdict.kind == VerdictKind::hang && key.first == RankState::waiting &&
                       std::any_of(verdict.waiting.begin(), verdict.waiting.end(),
                                   [&ranks = c.ranks](const model::Waiting& w) { return w.ranks == ranks; });
    const bool said =
        waits || (verdict.kind == VerdictKind::crash && c.first->crashed && verdict.ranks == c.ranks);
    (said ? verdict.details : verdict.evidence).push_back(std::move(line));
  }
}

void add_native_frame(const Scene& scene, const Verdict& verdict, std::vector<std::string>& out) {
  for (const RankView& v : scene.ranks) {
    if (!verdict.ranks.contains(v.rank) || v.stacks == nullptr) {
      continue;
    }
    for (const model::ThreadStack& t : v.stacks->threads) {
      const bool wanted = verdict.kind == VerdictKind::crash ? t.crashed : &t == v.thread;
      const std::string native =
          !wanted ? std::string() : innermost_native(t.crashed ? without_abort(crash_frames(t)) : t.frames);
      if (native.empty()) {
        continue;
      }
      // A crashed thread sleeps in the preload library's handler; its kernel function says nothing about the
      // crash.
      const bool kernel = !t.crashed && !t.wchan.empty() && t.wchan != "0";
      out.push_back(tr("innermost C function of rank {}: {}{}", v.rank, native,
                       kernel ? tr(", in kernel {}", t.wchan) : std::string()));
      return;
    }
  }
}

// Threads of the culprits that wait for each other.
void add_threads(const Scene& scene, const Verdict& verdict, std::vector<std::string>& out) {
  for (const RankView& v : scene.ranks) {
    if (!verdict.ranks.contains(v.rank)) {
      continue;
    }
    if (v.gil_holder != nullptr) {
      const model::ThreadStack* main = v.stacks->main_thread();
      out.push_back(tr("rank {}: {} waits for the GIL in {}, {} holds it", v.rank, thread_words(*main),
                       place(place_of(main->frames)), thread_words(*v.gil_holder)));
    }
    if (v.in_acquire.size() > 1) {
      for (const model::ThreadStack* t : v.in_acquire) {
        out.push_back(
            tr("rank {}: {} waits for a lock in {}", v.rank, thread_words(*t), place(place_of(t->frames))));
      }
    }
    if (v.full_pipe != nullptr) {
      out.push_back(tr("rank {}: pid {} waits for the end of pid {}, which cannot write to a full pipe",
                       v.rank, v.pipe_reader->pid, v.full_pipe->pid));
    }
  }
}

// Workers and children of the culprits whose position is in user or package code: often the true cause.
void add_helpers(const Scene& scene, const Verdict& verdict, std::vector<std::string>& out) {
  size_t shown = 0;
  for (const model::ProcessStacks& s : scene.facts.stacks) {
    const bool helper = s.role == model::ProcessRole::worker || s.role == model::ProcessRole::child;
    const model::ThreadStack* t = s.main_thread();
    if (!helper || t == nullptr || !verdict.ranks.contains(s.rank)) {
      continue;
    }
    const auto where = place_of_helper(s);
    if (where.function.empty() || shown++ == kMostHelpers) {
      continue;
    }
    out.push_back(tr("{} of rank {} (pid {}) in {}", word_of(s.role), s.rank, s.pid, place(where)));
  }
}

// The traceback of the exception that ended the culprit, and exceptions of other threads, which may explain a
// rank's wait.
void add_exceptions(const Scene& scene, Verdict& verdict, std::vector<std::string>& out) {
  const model::RunManifest& run = scene.facts.run;
  const auto is_culprit = [&](base::Pid pid, size_t node) {
    return pid == verdict.pid && (run.nodes.empty() || host_of(run, node) == verdict.host);
  };
  for (const Ending& e : scene.endings) {
    if (e.raised() && is_culprit(e.process->pid, e.process->node) && verdict.kind == VerdictKind::exception) {
      add_traceback(*e.exception, out);
      verdict.exception = for_verdict(*e.exception);
      if (model::out_of_memory(e.exception->chain.front())) {
        const auto words = gpu_memory_words(run, *e.process);
        out.insert(out.end(), words.begin(), words.end());
        const auto held = held_words(scene.facts.memory, e.process->rank);
        out.insert(out.end(), held.begin(), held.end());
      }
    }
  }
  size_t shown = 0;
  for (const model::PythonException& x : run.exceptions) {
    const bool concerns =
        x.rank != base::kNoRank ? verdict.ranks.contains(x.rank) : is_culprit(x.pid, x.node);
    if (concerns && x.kind == model::ExceptionKind::thread && shown++ < kMostThreads) {
      out.push_back(tr("{}: thread {} of {} {}", moment_words(run, x.at_s, 2), base::sanitize(x.thread),
                       x.rank != base::kNoRank ? rank_words({x.rank}) : tr("pid {}", x.pid),
                       raised_words(x)));
    }
  }
}

// Who held what a killed rank had gathered, if its memory had grown; what ranks that ended well had gathered.
void add_growers(const Scene& scene, const Verdict& verdict, std::vector<std::string>& out) {
  if (verdict.kind == VerdictKind::none || verdict.kind == VerdictKind::slow) {
    for (const base::Rank rank : gathering_ranks(scene.facts.memory).ranks()) {
      const auto words = grower_words(scene.facts.memory, rank, false);
      out.insert(out.end(), words.begin(), words.end());
    }
  }
  model::RankSet said;
  for (const Ending& e : scene.endings) {
    if ((e.signal == SIGKILL || verdict.memory.present()) && e.process->role == model::ProcessRole::rank &&
        verdict.ranks.contains(e.process->rank) && !said.contains(e.process->rank)) {
      said.insert(e.process->rank);
      for (const auto& words : {heap_words(scene.facts.memory, e.process->rank),
                                grower_words(scene.facts.memory, e.process->rank, false)}) {
        out.insert(out.end(), words.begin(), words.end());
      }
    }
  }
}

std::string how_with_cause(const Ending& e, size_t processes) {
  const std::string how = how_it_ended(e, processes);
  return e.cause.empty() ? how : tr("{} ({})", how, tr(e.cause));
}

// Whether the verdict's sentence already reports this end, with its time.
bool is_reported(const Ending& e, const Verdict& verdict, const model::RunManifest& run) {
  const bool of_end = verdict.kind == VerdictKind::crash || verdict.kind == VerdictKind::exit ||
                      verdict.kind == VerdictKind::exception;
  return of_end && e.process->pid == verdict.pid && verdict.ranks.contains(e.process->rank) &&
         e.at_s == verdict.seconds && (run.nodes.empty() || host_of(run, e.process->node) == verdict.host);
}

// Processes of ranks that later ones have replaced.
std::vector<const model::ProcessRecord*> replaced_ranks(const model::RunManifest& run) {
  const auto current = current_ranks(run);
  std::vector<const model::ProcessRecord*> out;
  for (const model::ProcessRecord& p : run.processes) {
    const bool rank = p.role == model::ProcessRole::rank && p.rank >= 0;
    if (rank && std::find(current.begin(), current.end(), &p) == current.end()) {
      out.push_back(&p);
    }
  }
  return out;
}

void add_endings(const Scene& scene, const Verdict& verdict, std::vector<std::string>& out) {
  struct Line {
    RankSet ranks;
    bool lost = false;  // a connection
    std::string who;
    std::string how;  // of one process; processes with the same text share a line
    const Ending* first = nullptr;
  };
  std::vector<Line> lines;
  const auto before = replaced_ranks(scene.facts.run);
  // xpurun's own message already says that xpurun ended the ranks of a hang.
  const bool ended_by_us = scene.facts.run.outcome == model::RunOutcome::hang;
  bool rank_failed = !verdict.ranks.empty() && verdict.kind != VerdictKind::hang;
  for (const Ending& e : scene.endings) {
    if (ended_by_us && e.follower) {
      continue;
    }
    const bool launcher = is_launcher(*e.process, scene.facts.run);
    if (e.process->role != model::ProcessRole::rank && !(launcher && e.failed())) {
      continue;
    }
    const model::RunManifest& run = scene.facts.run;
    const bool earlier = std::find(before.begin(), before.end(), e.process) != before.end();
    if (earlier || is_plain_command(*e.process) || is_reported(e, verdict, run)) {
      continue;  // the sentence says the same
    }
    // The failure of a launcher after a failure of its ranks is expected.
    if (launcher && rank_failed && e.signal == 0) {
      continue;
    }
    rank_failed = rank_failed || (!launcher && e.failed());
    const std::string lost = lost_peer_words(e);
    std::string how = lost.empty() ? how_with_cause(e, 1) : lost;
    const std::string host =
        run.nodes.empty() ? "" : tr("host {}, ", base::sanitize(host_of(run, e.process->node)));
    const std::string name =
        launcher ? tr("{} ({}pid {})", base::sanitize(e.process->comm), host, e.process->pid) : "";
    // The launcher's own end may be noticed between those of its ranks.
    const auto same = std::find_if(lines.rbegin(), lines.rend(), [&](const Line& l) {
      const bool beside = l.lost || &l == &lines.back() || e.at_s - l.first->at_s <= kSameMomentS;
      return beside && l.how == how && l.who.empty();
    });
    if (same != lines.rend() && name.empty()) {
      same->ranks.insert(e.process->rank);
      continue;
    }
    lines.push_back({.lost = !lost.empty(), .who = name, .how = std::move(how), .first = &e});
    if (!launcher) {
      lines.back().ranks.insert(e.process->rank);
    }
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i == kMostEndings) {
      out.push_back(lines.size() - i == 1 ? tr("and one later end: see run.json")
                                          : tr("and {} later ends: see run.json", lines.size() - i));
      break;
    }
    const Line& l = lines[i];
    out.push_back(tr("{}: {} {}", moment_words(scene.facts.run, l.first->at_s, 2),
                     l.who.empty() ? scene.names(l.ranks) : l.who,
                     l.lost ? l.how : how_with_cause(*l.first, std::max<size_t>(l.ranks.size(), 1))));
  }
}

void add_dump(const Scene& scene, const Verdict& verdict, std::vector<std::string>& out) {
  if (!scene.facts.dump) {
    return;
  }
  RankSet ended;  // a process that ends while others are dumped has no stacks, as expected
  for (const Ending& e : scene.endings) {
    if (verdict.kind != VerdictKind::hang && e.dead && e.process->role == model::ProcessRole::rank) {
      ended.insert(e.process->rank);
    }
  }
  const model::DumpManifest& dump = *scene.facts.dump;
  size_t good = 0;
  std::map<std::string, RankSet> bad;
  const RankSet unheard = scene.unheard();
  size_t wanted = 0;
  for (const model::DumpedProcess& p : dump.processes) {
    const bool good_one = p.status == model::DumpStatus::ok || p.status == model::DumpStatus::partial;
    if (!good_one && p.role == model::ProcessRole::rank && ended.contains(p.rank)) {
      continue;
    }
    ++wanted;
    if (good_one) {
      ++good;
    } else if (p.rank >= 0 && p.role == model::ProcessRole::rank && !unheard.contains(p.rank)) {
      bad[model::reason_or_status(p.reason, p.status)].insert(p.rank);
    }
  }
  for (const auto& [reason, ranks] : bad) {
    out.push_back(tr("no stacks of {}: {}", rank_words(ranks), tr(base::sanitize(reason))));
  }
  if (good > 0 && good < wanted) {
    out.push_back(tr("{} has the stacks of {} of {} processes", scene.facts.dump_dir, good, wanted));
  }
}

// Stalls that ended by themselves or by a restart of the ranks.
// What the library would have recorded is missing for a reason that the user can mend.
void add_lost_preload(const Scene& scene, std::vector<std::string>& out) {
  if (const model::RankSet lost = model::ranks_without_preload(scene.facts.run); !lost.empty()) {
    out.push_back(lost_preload_words(lost));
  }
}

void add_past_stalls(const Scene& scene, std::vector<std::string>& out) {
  const model::Stall* reported = stall_that_matters(scene.facts.run);
  for (const model::Stall& i : scene.facts.run.stalls) {
    if (i.cleared_s < 0 || &i == reported || was_no_hang(i)) {
      continue;
    }
    // A stall is raised after the hang timeout. The verdict's seconds do not help: a second report on the
    // same stall counts from a later moment.
    const double since_s =
        i.since_s < 0 ? i.at_s - std::min(scene.facts.run.hang_timeout_s, i.at_s) : i.since_s;
    const double length = std::max(0.0, i.cleared_s - since_s);
    const std::string subject = i.verdict.ranks.empty()
                                    ? tr("the job stalled")
                                    : tr("{} stalled the job", rank_words(i.verdict.ranks));
    out.push_back(tr("{}: {} for about {}, then {}", moment_words(scene.facts.run, i.at_s), subject,
                     seconds_words(length),
                     i.restarted_s >= 0 ? tr("xpurun had the ranks restarted") : tr("the job continued")));
  }
}

void add_earlier_attempts(const Scene& scene, std::vector<std::string>& out) {
  const auto failures = failures_before_restarts(scene.endings, scene.facts.run);
  const size_t first = failures.size() > kMostAttempts ? failures.size() - kMostAttempts : 0;
  for (size_t i = first; i < failures.size(); ++i) {
    const Ending& e = *failures[i];
    out.push_back(tr("{}, before a restart: rank {} {}", moment_words(scene.facts.run, e.at_s, 2),
                     e.process->rank, how_it_ended(e)));
  }
}

}  // namespace

namespace {

// Calls that differed and ended all the same, before those of the verdict.
void add_silent_mismatch(const Scene& scene, const Verdict& verdict, std::vector<std::string>& out) {
  const auto& f = scene.silent_mismatch;
  if (f &&
      (f->collective.id != verdict.collective.id || f->collective.sequence != verdict.collective.sequence)) {
    out.push_back(tr("before, ranks went on with wrong data: {}",
                     fault_text(*f, [&](const model::RankSet& ranks) { return scene.names(ranks); })));
  }
}

// What could not be seen of the hosts, each source once.
void add_missing_sources(const Scene& scene, std::vector<std::string>& out) {
  std::vector<std::string> lines;
  for (const model::MachineHistory& machine : scene.facts.machines) {
    for (const model::MissingSource& one : machine.missing) {
      std::string line = fmt::format("{} ({})", base::sanitize(one.source), base::sanitize(one.reason));
      if (std::find(lines.begin(), lines.end(), line) == lines.end()) {
        lines.push_back(std::move(line));
      }
    }
  }
  if (!lines.empty()) {
    out.push_back(tr("not seen of the host: {}; xpurun doctor names the command that grants each",
                     base::join(lines, tr(", "))));
  }
}

}  // namespace

void add_evidence(const Scene& scene, Verdict& verdict) {
  std::vector<std::string>& out = verdict.evidence;
  add_gaps(scene, out);
  add_exceptions(scene, verdict, out);
  add_growers(scene, verdict, out);
  if (verdict.kind == VerdictKind::hang) {
    add_handled(scene, verdict, out);
  }
  if (verdict.kind == VerdictKind::crash || verdict.kind == VerdictKind::exit ||
      verdict.kind == VerdictKind::exception) {
    add_endings(scene, verdict, out);
  }
  // The sentence about different calls names two sides.
  const bool two_sides = verdict.id == kHangMismatch && verdict.collective.calls.size() == 2;
  for (std::string& line : call_evidence(verdict.collective)) {
    (two_sides ? verdict.details : out).push_back(std::move(line));
  }
  add_silent_mismatch(scene, verdict, out);
  if (verdict.kind != VerdictKind::none) {
    name_gpu_error(scene, verdict);
    add_surroundings(scene, out);
  }
  if (scene.facts.dump && verdict.kind != VerdictKind::none) {
    add_native_frame(scene, verdict, verdict.details);
    add_threads(scene, verdict, out);
    add_classes(scene, verdict);
    add_helpers(scene, verdict, out);
    add_dump(scene, verdict, out);
  }
  if (verdict.kind == VerdictKind::hang || verdict.kind == VerdictKind::interrupted) {
    add_endings(scene, verdict, out);
  }
  add_earlier_attempts(scene, out);
  add_past_stalls(scene, out);
  if (verdict.kind != VerdictKind::none) {
    add_lost_preload(scene, out);
  }
  if (verdict.kind != VerdictKind::none && !scene.facts.kernel_gap.empty()) {
    out.push_back(tr("the kernel's messages are missing: {}", tr(scene.facts.kernel_gap)));
  }
  if (verdict.kind == VerdictKind::hang || verdict.kind == VerdictKind::slow) {
    add_missing_sources(scene, out);
  }
  for (std::vector<std::string>* lines : {&out, &verdict.details}) {
    for (std::string& line : *lines) {
      line = base::tidied(std::move(line));
    }
  }
}

}  // namespace xpurun::report
