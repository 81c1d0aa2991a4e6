// Verdicts of runs without a culprit: finished, interrupted, not started, still running.
#include "common/base/os/wait_status.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/call_words.h"
#include "report/diagnosis/ends/exceptions.h"
#include "report/diagnosis/ends/interruption.h"
#include "report/diagnosis/helpers.h"
#include "report/diagnosis/rule.h"
#include "report/diagnosis/rules/machine_words.h"
#include "report/diagnosis/vocabulary.h"
#include "report/diagnosis/waits/code_place.h"
#include "report/diagnosis/waits/wait_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <sys/wait.h>

namespace xpurun::report {

using base::tr;
using model::Confidence;
using model::RankSet;
using model::RunManifest;
using model::Verdict;
using model::VerdictKind;

namespace {

std::string count_of_ranks(const RunManifest& run) {
  const auto ranks = current_ranks(run);
  const size_t n = ranks.size() == 1 && is_plain_command(*ranks.front()) ? 0 : ranks.size();
  // In a job of several nodes whose data has not been merged, only the ranks of this node are known.
  const bool others = run.nodes.size() <= 1 && run.world_size > 0 && static_cast<size_t>(run.world_size) > n;
  if (n > 0 && others) {
    return n == 1 ? tr("the only rank of this node") : tr("all {} ranks of this node", n);
  }
  return n == 0 ? tr("the command") : n == 1 ? tr("the only rank") : tr("all {} ranks", n);
}

// The node with this outcome; this node if no other has it.
const std::string& host_with(const RunManifest& run, model::RunOutcome outcome) {
  const auto it = std::find_if(run.nodes.begin(), run.nodes.end(),
                               [&](const model::RunNode& n) { return n.answered && n.outcome == outcome; });
  return it == run.nodes.end() ? run.host : it->host;
}

// The launcher of a run without ranks, if it waits for other nodes.
const model::ProcessRecord* waiting_launcher(const RunManifest& run) {
  const auto found = std::find_if(run.processes.begin(), run.processes.end(), model::waits_for_nodes);
  const bool alone = found != run.processes.end() &&
                     std::all_of(run.processes.begin(), run.processes.end(), [&](const auto& p) {
                       return &p == &*found || p.role != model::ProcessRole::rank;
                     });
  return alone ? &*found : nullptr;
}

// "the launcher waited in rendezvous for other nodes (--nnodes 2), and had started no rank"
std::string rendezvous_words(const model::ProcessRecord& launcher) {
  const std::string wanted = model::nodes_wanted(launcher);
  return tr("the launcher waited in rendezvous for other nodes{}, and had started no rank",
            wanted.empty() ? "" : tr(" (--nnodes {})", base::sanitize(wanted)));
}

// The signal that ended the run, 0 if unknown.
int ending_signal(const RunManifest& run) {
  if (run.exit_status > 128 && run.exit_status < 128 + NSIG) {
    return run.exit_status - 128;
  }
  return run.child_status.signal();
}

std::string counted_requests(size_t count) {
  return count == 1 ? tr("a request of MPI") : tr("{} requests of MPI", count);
}

// "; on host node2, rank 3 had been at train.py:5 read_shard for 13 s"
std::string elsewhere_words(const RunManifest& run) {
  std::string out;
  for (const model::StillElsewhere& s : run.interrupt.elsewhere) {
    const std::string at = s.where.empty() ? tr("an unknown place") : base::sanitize(s.where);
    out += tr("; on host {}, rank {} had been at {} for {}", base::sanitize(s.host), s.rank, at,
              seconds_words(s.still_s));
  }
  return out;
}

// A thread of the program has raised, which only Python has said, on standard error. Threads of libraries
// raise at the end of healthy programs.
void name_dead_thread(const Scene& scene, const std::string& normally, Verdict& v) {
  const auto& all = scene.facts.run.exceptions;
  const auto dead = std::find_if(all.begin(), all.end(), [](const model::PythonException& x) {
    return x.kind == model::ExceptionKind::thread && x.rank >= 0 && !x.chain.empty() &&
           owner_of(place_of(x).file) == CodeOwner::user;
  });
  if (dead == all.end()) {
    return;
  }
  v.id = kNoneThreadRaised;
  v.ranks.insert(dead->rank);
  v.pid = dead->pid;
  v.where = place_of(*dead);
  v.exception = for_verdict(*dead);
  say(v, tr("{}, but thread {} of {} {}", normally, base::sanitize(dead->thread),
            scene.names(RankSet::of({dead->rank})), raised_words(*dead)));
}

model::CalledBy row_of_request(const model::RequestsLeft& left) {
  const model::CollectiveCall& c = left.first;
  return {.sequence = 1,
          .op = c.op,
          .name = c.name,
          .count = c.count,
          .dtype = c.dtype,
          .root = c.root,
          .peer = c.peer,
          .tag = c.tag,
          .where = c.where};
}

// "last seen before the signal: rank 2 in converge (fit.py:7: time.sleep)": the ranks that had not ended
// before the signal.
std::vector<std::string> last_places(const Scene& scene) {
  constexpr size_t kMost = 4;
  std::map<std::string, RankSet> places;
  RankSet ended;
  for (const Ending& e : scene.endings) {
    const model::ProcessRecord& p = *e.process;
    if (p.role != model::ProcessRole::rank) {
      continue;
    }
    if (!after_interrupt(scene.facts.run, e)) {
      ended.insert(p.rank);
    } else if (!p.place.empty()) {
      places[place(p.place)].insert(p.rank);
    }
  }
  std::vector<std::string> out;
  for (const auto& [at, ranks] : places) {
    if (out.size() < kMost) {
      out.push_back(tr("last seen before the signal: {} in {}", scene.names(ranks), at));
    }
  }
  if (!out.empty() && !ended.empty()) {
    out.push_back(tr("ended before the signal: {}", scene.names(ended)));
  }
  return out;
}

}  // namespace

std::optional<Verdict> not_started(const Scene& scene) {
  const RunManifest& run = scene.facts.run;
  if (run.outcome != model::RunOutcome::spawn_failed) {
    return std::nullopt;
  }
  Verdict v{.id = std::string(kExitNotStarted), .kind = VerdictKind::exit, .confidence = Confidence::high};
  v.exit_code = run.exit_status;
  v.host = host_with(run, run.outcome);
  const std::string where = run.nodes.size() > 1 ? tr(" on host {}", base::sanitize(v.host)) : "";
  say(v, tr("the command could not be started{}: {}", where,
            run.command.empty() ? tr("it is empty") : base::sanitize(run.command.front())));
  v.next.text = tr("check the command's name, PATH and permissions");
  return v;
}

std::optional<Verdict> interrupted(const Scene& scene) {
  const RunManifest& run = scene.facts.run;
  if (!ended_by_interrupt(run)) {
    return std::nullopt;
  }
  const Ending* failure = scene.root_failure();
  failure = failure != nullptr && failure->known ? failure : nullptr;
  const bool failed_before = failure != nullptr && !by_sigint(*failure) && run.interrupt.at_s >= 0 &&
                             !after_interrupt(run, *failure);
  const int signal = run.interrupt.signal != 0 ? run.interrupt.signal : ending_signal(run);
  const bool by_user = signal == 0 || (signal == SIGINT && run.interrupt.from_terminal);
  const std::string by = by_user ? tr("by the user") : tr("by {}", base::signal_name(signal));
  const std::string after = seconds_words(run.elapsed_s);
  // Of the samples before the signal, not of processes that are ending: a rank without a place says nothing.
  if (auto hang = hung(scene); hang && hang->id != kHangSilent && hang->id != kHangUnknown) {
    Verdict v = *hang;
    v.id = hang->level == model::VerdictLevel::confirmed ? kInterruptedHung : kInterrupted;
    v.kind = VerdictKind::interrupted;
    v.signal = signal;
    say(v, tr("{} after {}, while {}", by, after, hang->headline) + elsewhere_words(run));
    return v;
  }
  if (run.child_status.succeeded() && run.outcome == model::RunOutcome::exit &&
      (failure == nullptr || failed_before)) {
    return std::nullopt;  // the job has caught the signal, and ended well or by an earlier failure
  }
  if (failed_before) {
    if (auto failed = rank_failed(scene)) {
      failed->id = kInterrupted;
      failed->kind = VerdictKind::interrupted;
      say(*failed,
          tr("{} after {}; before the signal, {}", by, after, failed->headline) + elsewhere_words(run));
      return failed;
    }
  }
  Verdict v{
      .id = std::string(kInterrupted), .kind = VerdictKind::interrupted, .confidence = Confidence::high};
  v.host = host_with(run, run.outcome);
  v.signal = signal;
  v.seconds = run.elapsed_s;
  say(v, tr("{} after {}", by, after) + elsewhere_words(run));
  v.evidence = last_places(scene);
  if (const auto& wrong = scene.silent_mismatch) {
    v.ranks = wrong->accused;
    v.collective = wrong->collective;
    say(v, tr("{} after {}, while the job went on with wrong data: {}", by, after,
              fault_text(*wrong, [&](const RankSet& ranks) { return scene.names(ranks); })));
  } else if (const model::ProcessRecord* launcher = waiting_launcher(run)) {
    say(v, tr("{} after {}, while {}", by, after, rendezvous_words(*launcher)));
    v.next.text = tr("start the job on the other nodes, with the same rendezvous endpoint and id");
  } else if (auto slow = was_slow(scene)) {
    // Why the user has lost patience.
    const std::string headline = slow->headline;
    slow->id = kInterrupted;
    slow->kind = VerdictKind::interrupted;
    slow->signal = signal;
    slow->seconds = run.elapsed_s;
    say(*slow, tr("{} after {}; {}", by, after, headline) + elsewhere_words(run));
    return slow;
  }
  return v;
}

// timeout(1) has ended the job, and tells nobody before. No stack was taken: the watch of the ranks' places
// says who stood still.
std::optional<Verdict> timed_out(const Scene& scene) {
  constexpr int kTimedOut = 124;
  constexpr double kLeastS = 5;
  constexpr double kBeforeEndS = 5;  // for what the ranks and the launcher do about the signal
  const RunManifest& run = scene.facts.run;
  if (run.outcome != model::RunOutcome::exit || !run.child_status.exited() ||
      run.child_status.exit_code() != kTimedOut || scene.root_failure() != nullptr) {
    return std::nullopt;
  }
  Verdict v{
      .id = std::string(kInterrupted), .kind = VerdictKind::interrupted, .confidence = Confidence::medium};
  v.level = model::VerdictLevel::suspected;
  v.state = model::RankState::stuck;
  v.exit_code = kTimedOut;
  for (const model::ProcessRecord* p : current_ranks(run)) {
    const bool moved = p->still.empty() || p->still.back().to_s < run.elapsed_s - kBeforeEndS;
    const double until_end_s = p->death.at_s - p->last_progress_s;
    const double still_s =
        moved ? until_end_s : std::max(until_end_s, p->still.back().to_s - p->still.back().from_s);
    if (still_s < kLeastS || p->place.empty()) {
      continue;
    }
    const auto wait = find_wait_at(p->place.callee, "torch/distributed/distributed_c10d.py", {.idle = true});
    if (wait && waits_for_peers(wait->kind)) {
      v.waiting.push_back({.ranks = {p->rank}, .what = wait->what, .where = p->place});
    } else if (still_s > v.seconds || v.ranks.empty()) {
      v.ranks = {p->rank};
      v.where = p->place;
      v.seconds = still_s;
      v.pid = p->pid;
      v.host = host_of(run, p->node);
    }
  }
  if (v.ranks.empty()) {
    return std::nullopt;
  }
  const std::string waits = waiting_clause(v.waiting, 1);
  const std::string after = seconds_words(run.elapsed_s);
  const std::string who = scene.names(v.ranks);
  const std::string at = place(v.where);
  const std::string still = seconds_words(v.seconds);
  // A script may pass on the status of a timeout of its own.
  const bool by_command = !run.command.empty() && base::base_name(run.command.front()) == "timeout";
  say(v, (by_command ? tr("by the time limit of timeout after {}, while {} had been in {} for {}", after, who,
                          at, still)
                     : tr("by a time limit (status 124) after {}, while {} had been in {} for {}", after, who,
                          at, still)) +
             (waits.empty() ? "" : tr("; ") + waits));
  v.next.text =
      tr("see where the rank stands while the job runs: xpurun now, or --hang-timeout below the time "
         "limit");
  return v;
}

std::optional<Verdict> looked_at(const Scene& scene) {
  if (!scene.facts.run.judged_now) {
    return std::nullopt;
  }
  Verdict v{.id = std::string(kRunningNow), .kind = VerdictKind::running, .confidence = Confidence::low};
  if (auto hang = hung(scene)) {
    // A second of stillness is no proof of a hang.
    v = *hang;
    v.id = kRunningNow;
    v.kind = VerdictKind::running;
    v.level = std::min(v.level, model::VerdictLevel::suspected);
    const std::string look = scene.facts.run.attached
                                 ? tr("; xpurun looked for {}, so that the stillness may be older",
                                      seconds_words(scene.facts.run.elapsed_s))
                                 : "";
    say(v, hang->headline + look);
    return v;
  }
  v.host = scene.facts.run.host;
  v.seconds = scene.facts.run.elapsed_s;
  const model::ProcessRecord* launcher = waiting_launcher(scene.facts.run);
  const auto server = std::find_if(scene.ranks.begin(), scene.ranks.end(), serves);
  if (server != scene.ranks.end()) {
    say(v, tr("{} waits for requests in {}", scene.names(RankSet::of({server->rank})), place(server->where)));
    return v;
  }
  say(v, launcher != nullptr
             ? rendezvous_words(*launcher)
             : tr("{}, and no rank stood still for a second", count_of_ranks(scene.facts.run)));
  return v;
}

namespace {

// "/data is 100 % full": what the job could not write then may be missing, although it ended well.
std::string full_file_system(const Scene& scene) {
  constexpr double kFull = 0.995;
  for (const model::MachineHistory& machine : scene.facts.machines) {
    for (const model::MachineSeries& s : machine.series) {
      if (s.fact != model::MachineFact::space && s.fact != model::MachineFact::inodes) {
        continue;
      }
      for (const model::MachineSpell& spell : telling_spells(machine, s)) {
        if (spell.amount >= kFull) {
          return machine_words(machine, s, spell.amount);
        }
      }
    }
  }
  return {};
}

}  // namespace

std::optional<Verdict> finished(const Scene& scene) {
  const RunManifest& run = scene.facts.run;
  if (run.outcome != model::RunOutcome::exit || !run.child_status.succeeded()) {
    return std::nullopt;
  }
  // A wrapper may hide a failure ("torchrun ...; true"). Unknown statuses count as no failure if the run
  // succeeded.
  const Ending* failure = scene.root_failure();
  if (failure != nullptr && failure->known) {
    return std::nullopt;
  }
  Verdict v{.id = std::string(kNoneFinished), .kind = VerdictKind::none, .confidence = Confidence::high};
  v.host = run.host;
  v.seconds = run.elapsed_s;
  // Its processes may do the work: it is no job of one rank then.
  const size_t started = scene.facts.measured ? 0 : started_by_only_rank(run);
  const std::string who = started == 0   ? count_of_ranks(run)
                          : started == 1 ? tr("the command and the process that it started")
                                         : tr("the command and the {} processes that it started", started);
  const std::string normally = tr("{} finished normally in {}", who, base::human_duration(run.elapsed_s));
  say(v, normally);
  const std::vector<model::RequestsLeft> left = model::requests_left(scene.facts.at_end);
  if (left.empty()) {
    name_dead_thread(scene, normally, v);
    if (const std::string full = v.id == kNoneFinished ? full_file_system(scene) : ""; !full.empty()) {
      say(v, tr("{}; {}", normally, full));
      v.next.text = tr("look for files that the job could not write, such as checkpoints");
    }
    return v;
  }
  v.id = kNoneRequestsLeft;
  for (const model::RequestsLeft& one : left) {
    v.ranks.insert(one.rank);
    v.evidence.push_back(tr("{} never completed {}: {}", scene.names(RankSet::of({one.rank})),
                            counted_requests(one.count), call_at_line(row_of_request(one))));
  }
  v.where = left.front().first.where;
  say(v, tr("{}, but {}", normally, v.evidence.front()));
  return v;
}

std::optional<Verdict> watch_ended(const Scene& scene) {
  const RunManifest& run = scene.facts.run;
  const std::string after = base::human_duration(run.elapsed_s);
  if (const Ending* failure = scene.root_failure(); failure != nullptr && failure->known) {
    return std::nullopt;
  }
  if (run.outcome == model::RunOutcome::detached) {
    Verdict v{
        .id = std::string(kRunningDetached), .kind = VerdictKind::running, .confidence = Confidence::low};
    v.host = run.host;
    v.seconds = run.elapsed_s;
    say(v, tr("{} when xpurun stopped watching after {}, nothing wrong seen", count_of_ranks(run), after));
    return v;
  }
  if (run.outcome == model::RunOutcome::exit && !run.child_status.known()) {
    Verdict v{
        .id = std::string(kNoneUnknownStatus), .kind = VerdictKind::none, .confidence = Confidence::low};
    v.host = run.host;
    v.seconds = run.elapsed_s;
    say(v, tr("{} ended after {} of watching, nothing wrong seen; only their parent knows the exit "
              "status",
              count_of_ranks(run), after));
    return v;
  }
  return std::nullopt;
}

std::optional<Verdict> still_running(const Scene& scene) {
  const RunManifest& run = scene.facts.run;
  Verdict v{.id = std::string(kRunning), .kind = VerdictKind::running, .confidence = Confidence::low};
  v.host = run.host;
  v.seconds = run.elapsed_s;
  say(v, tr("{} for {} when this was written, nothing wrong seen", count_of_ranks(run),
            base::human_duration(run.elapsed_s)));
  v.next.text = tr("if no process is left, xpurun itself was killed and did not see the end");
  // Only a manifest that could not be read has neither a begin nor a command.
  if (run.started_wall_ns == 0 && run.elapsed_s <= 0 && run.command.empty() && run.processes.empty()) {
    say(v, tr("run.json cannot be read, so the end of the run is unknown"));
    v.next.text = tr("look at the stacks in the run directory");
  }
  return v;
}

}  // namespace xpurun::report
