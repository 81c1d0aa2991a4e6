// Verdicts that rest on the recorded calls of the ranks.
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/call_words.h"
#include "report/diagnosis/collectives/analysis.h"
#include "report/diagnosis/ends/exceptions.h"
#include "report/diagnosis/rank_exceptions.h"
#include "report/diagnosis/rule.h"
#include "report/diagnosis/rules/blame.h"
#include "report/diagnosis/vocabulary.h"
#include "report/diagnosis/waits/code_place.h"
#include "report/diagnosis/waits/wait_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

namespace xpurun::report {

using base::later;
using base::tr;
using model::Confidence;
using model::RankSet;
using model::Verdict;

namespace {

struct FaultNames {
  std::string_view hang;  // id of the hang verdict
  Confidence confidence = Confidence::high;
  std::string_view advice;
};

constexpr std::string_view kSameCalls = later(
    "make all ranks call the same collectives in the same order; look for a branch on the rank or the data");
constexpr std::string_view kMatchMessages =
    later("match every send with a recv: peers, order, sizes and tags");

FaultNames names_of(CallFault fault) {
  switch (fault) {
    case CallFault::departed:
    case CallFault::operation:
      return {kHangMismatch, Confidence::high, kSameCalls};
    case CallFault::members:
      return {kHangMismatch, Confidence::high,
              later("every rank must create every group, with the same list of ranks in the same order")};
    case CallFault::root:
      return {kHangMismatchRoot, Confidence::high, later("give all ranks the same root")};
    case CallFault::type:
      return {kHangMismatchType, Confidence::high, later("give all ranks tensors of the same type")};
    case CallFault::splits:
      return {
          kHangMismatchSize, Confidence::high,
          later("what a rank sends to a peer must be what that peer expects from the rank: compare the split "
                "sizes of both")};
    case CallFault::size:
      return {kHangMismatchSize, Confidence::high,
              later("give all ranks tensors of the same size; look for uneven batches or parameters")};
    case CallFault::swapped:
      return {kHangOrder, Confidence::high, kSameCalls};
    case CallFault::order:
      return {kHangOrder, Confidence::medium,
              later("use the groups in the same order on all ranks, or wait for one before the next")};
    case CallFault::message:
    case CallFault::not_sent:
    case CallFault::not_received:
      return {kHangP2p, Confidence::medium, kMatchMessages};
    case CallFault::locked:
      return {kHangOrder, Confidence::high,
              later("end the lock of the window before the rank waits for others")};
    case CallFault::not_entered:
      return {kHangNotEntered, Confidence::high,
              later("look for a branch, an early end of the data or an exception that keeps the rank from "
                    "the call")};
    case CallFault::not_launched:
      return {kHangNotLaunched, Confidence::high,
              later("see the C++ stack of the rank to find out why NCCL does not launch the call")};
    case CallFault::queued:
      return {kHangQueued, Confidence::medium,
              later("look for a kernel or a copy that does not end on that GPU")};
    case CallFault::not_finished:
      return {kHangNotFinished, Confidence::medium, later("check the GPU and the links of the rank")};
    case CallFault::all_entered:
      break;
  }
  return {kHangNetwork, Confidence::medium, later("check network and GPUs")};
}

// A rank that has made a call of another line than ever before does not pass a wrong size to its usual call.
std::string_view advice_on_calls(const CallFinding& f) {
  const model::CalledBy& made = f.collective.departing;
  const model::CalledBy& usual = f.collective.expected;
  const bool other_line = f.collective.departure != model::Departure::none &&
                          (made.where.line != usual.where.line || made.where.file != usual.where.file);
  return other_line && is_mismatch(f.fault) ? kSameCalls : names_of(f.fault).advice;
}

// Ranks outside any call. Their position says more than the call that they have not entered.
Views outside(const Scene& scene, const RankSet& accused) {
  Views out;
  for (const RankView& v : scene.ranks) {
    if (accused.contains(v.rank) && v.state != RankState::waiting) {
      out.push_back(&v);
    }
  }
  return out;
}

// torch records the calls that the program makes in Python. A rank in a collective made by C++ code, such as
// DDP's, is in an unrecorded call, and the record cannot tell which of the two calls is wrong.
bool stand_in_unrecorded(const Scene& scene, const CallFinding& f, const Views& accused) {
  const bool message = f.fault == CallFault::not_sent || f.fault == CallFault::not_received;
  if ((!message && f.fault != CallFault::not_entered) || f.collective.source != model::CallSource::torch) {
    return false;
  }
  return f.thread.empty() && std::any_of(accused.begin(), accused.end(), [&](const RankView* v) {
           const bool waits =
               v->state == RankState::waiting && v->wait &&
               (v->wait->kind == WaitKind::collective || v->wait->kind == WaitKind::point_to_point);
           // "backward (all_reduce)": C++ code calls it.
           return waits && !has_open_call(scene.facts.collectives, v->rank) &&
                  (!message || v->wait->what.ends_with(')'));
         });
}

Views views_of(const Scene& scene, const RankSet& ranks) {
  Views out;
  for (const RankView& v : scene.ranks) {
    if (ranks.contains(v.rank)) {
      out.push_back(&v);
    }
  }
  return out;
}

// Another rank may not have set the keys that these wait for.
bool ask_for_keys(const Views& views) {
  return !views.empty() &&
         std::all_of(views.begin(), views.end(), [](const RankView* v) { return asks_for_key(*v); });
}

// Returns ranks that wait for GPU work outside NCCL, as culprits; empty if one of them may wait for another
// rank.
std::vector<RankView> waiting_for_own_work(const Scene& scene, const CallFinding& f, const Views& accused) {
  std::vector<RankView> out;
  for (const RankView* v : accused) {
    if (f.fault != CallFault::not_entered || !v->wait || v->wait->kind != WaitKind::gpu ||
        !gpu_has_finished_calls(scene.facts.collectives, v->rank)) {
      return {};
    }
    RankView& own = out.emplace_back(*v);
    own.state = RankState::stuck;
    own.wait->kind = WaitKind::kernel;
    own.wait->what = later("kernel of its own");
  }
  return out;
}

// "; rank 1 waits in store (train.py:12)"
std::string where_the_absent_wait(const Views& accused) {
  const std::vector<model::Waiting> groups = waiting_groups(accused);
  if (groups.empty()) {
    return {};
  }
  return tr("; {} {} in {}", rank_words(groups.front().ranks),
            pick({"waits", "wait"}, groups.front().ranks.size()),
            waiting_place(groups.front().what, groups.front().where));
}

// "; its thread metrics has ended"
std::string about_thread(const CallFinding& f, const Views& accused) {
  if (f.thread.empty()) {
    return {};
  }
  const bool lives = std::any_of(accused.begin(), accused.end(), [&](const RankView* v) {
    return v->stacks == nullptr ||
           std::any_of(v->stacks->threads.begin(), v->stacks->threads.end(),
                       [&](const model::ThreadStack& t) { return t.python_name == f.thread; });
  });
  return lives ? tr("; its thread {} made the calls before", f.thread)
               : tr("; its thread {} has ended", f.thread);
}

std::vector<model::Waiting> waiting_in_calls(const CallFinding& f) {
  std::vector<model::Waiting> out;
  RankSet left = f.waiting;
  for (const model::CalledBy& row : f.collective.calls) {
    RankSet ranks = row.ranks.minus(row.ranks.minus(left));
    left = row.entered() ? left.minus(ranks) : left;
    if (row.entered() && !ranks.empty()) {
      out.push_back({.ranks = std::move(ranks), .what = row.op, .where = row.where});
    }
  }
  return out;
}

// The first call of a communicator sets it up, which loads kernels and connects GPUs and hosts.
bool may_be_set_up(const Scene& scene, const CallFinding& f, const Views& in_call) {
  return f.fault >= CallFault::not_launched && f.collective.sequence == 1 && !outlasted(scene) &&
         std::any_of(in_call.begin(), in_call.end(), [](const RankView* v) { return v->works; });
}

RankNamer names_in(const Scene& scene) {
  return [&scene](const RankSet& ranks) { return scene.names(ranks); };
}

void add_place(const CallFinding& f, Verdict& v) {
  const auto row = std::find_if(f.collective.calls.begin(), f.collective.calls.end(),
                                [&](const model::CalledBy& r) { return f.accused.contains(r.ranks); });
  if (row != f.collective.calls.end() && row->entered()) {
    v.where = row->where;
  }
}

// Ranks of other nodes may not have entered the call.
std::optional<Verdict> entered_by_all(const Scene& scene, const CallFinding& f, Verdict v) {
  if (f.complete) {
    return v;
  }
  v.id = kHangAllWaiting;
  v.confidence = Confidence::low;
  v.next = {.text = tr("look at the other hosts' runs: one of their ranks is missing in this call")};
  const auto known = std::count_if(scene.ranks.begin(), scene.ranks.end(), [](const RankView& r) {
    return r.seen != nullptr || r.stacks != nullptr;
  });
  const bool others = scene.unheard().empty() && scene.facts.run.world_size > static_cast<int>(known);
  if (scene.facts.run.nodes.size() > 1) {
    v.next.text = tr("make the report from the run directories of all nodes: xpurun report DIR1 DIR2 ...");
  }
  return others ? std::optional(v) : std::nullopt;
}

}  // namespace

void add_calls(const Scene& scene, Verdict& v) {
  const auto& f = scene.call_fault;
  if (f && !v.collective.present() && v.ranks.minus(f->accused).size() < v.ranks.size()) {
    v.collective = f->collective;
  }
}

std::optional<Verdict> called_wrongly(const Scene& scene) {
  if (!scene.call_fault) {
    return std::nullopt;
  }
  const CallFinding& f = *scene.call_fault;
  const Views absent = is_mismatch(f.fault) ? Views() : outside(scene, f.accused);
  const bool enters = f.fault == CallFault::not_launched || f.fault == CallFault::queued ||
                      f.fault == CallFault::not_finished;
  if (!absent.empty() && !enters) {
    const Views left = views_of(scene, f.waiting);
    Verdict v = blame(scene, absent, left);
    v.collective = f.collective;
    const bool gave_up = std::none_of(left.begin(), left.end(), [](const RankView* w) { return w->wait; });
    if (const auto calls = waiting_in_calls(f); gave_up && !calls.empty()) {
      v.waiting = waiting_in_calls(f);
      say(v, tr("{}; {} waited in vain in {}", v.headline, rank_words(f.waiting),
                waiting_place(v.waiting.front().what, v.waiting.front().where)));
    }
    return v;
  }
  const FaultNames names = names_of(f.fault);
  const Views accused = views_of(scene, f.accused);
  if (stand_in_unrecorded(scene, f, accused)) {
    return std::nullopt;
  }
  const Views waiting = views_of(scene, f.waiting);
  if (const std::vector<RankView> own = waiting_for_own_work(scene, f, accused); !own.empty()) {
    Verdict v = blame(scene, pointers_to(own), waiting);
    v.collective = f.collective;
    return v;
  }
  Verdict v =
      begin_hang(scene,
                 {.id = names.hang,
                  .confidence = f.tie || ask_for_keys(accused) ? Confidence::medium : names.confidence},
                 {}, {});
  v.ranks = f.accused;
  v.state = RankState::waiting;
  v.seconds = std::max(longest(accused), longest(waiting));
  if (!accused.empty()) {
    v.state = accused.front()->state;
    v.host = accused.front()->host;
    v.pid = accused.front()->pid;
    v.where = accused.front()->where;
  }
  add_place(f, v);
  v.waiting = waiting_in_calls(f);
  v.collective = f.collective;
  const std::string extra = f.fault == CallFault::not_entered
                                ? where_the_absent_wait(accused) + about_thread(f, accused)
                                : std::string();
  if (may_be_set_up(scene, f, accused) || may_be_set_up(scene, f, waiting)) {
    v.level = model::VerdictLevel::suspected;
    say(v, tr("{}; ranks in it are working, perhaps to set it up", fault_text(f, names_in(scene))));
    v.next.text = raise_timeout_words(scene.facts.run.hang_timeout_s);
    return v;
  }
  // An exception may be on its way out, while the cleanup makes another call.
  const std::string raised = accused.size() == 1 ? exception_clause(scene, *accused.front()) : std::string();
  say(v, fault_text(f, names_in(scene)) + extra +
             (raised.empty() ? "" : tr(", {}{}", rank_words(f.accused), raised)));
  v.next.text = raised.empty()
                    ? tr(advice_on_calls(f))
                    : tr("find out why rank {} raised the exception; make no call that waits for other "
                         "ranks while handling one",
                         accused.front()->rank);
  if (f.fault == CallFault::all_entered) {
    v.next.command = "nvidia-smi; dmesg | tail";
    return entered_by_all(scene, f, std::move(v));
  }
  return v;
}

std::optional<Verdict> computed_wrongly(const Scene& scene) {
  const auto ended = scene.silent_mismatch ? finished(scene) : std::nullopt;
  if (!ended) {
    return std::nullopt;
  }
  const CallFinding& f = *scene.silent_mismatch;
  Verdict v = *ended;
  v.id = kMismatchSilent;
  v.kind = model::VerdictKind::mismatch;
  v.level = model::VerdictLevel::confirmed;
  v.confidence = f.tie ? Confidence::medium : Confidence::high;
  v.ranks = f.accused;
  v.collective = f.collective;
  add_place(f, v);
  if (const Views accused = views_of(scene, f.accused); !accused.empty()) {
    v.pid = accused.front()->pid;
    v.host = accused.front()->host;
  }
  v.evidence.push_back(ended->headline);
  say(v, tr("the job went on with wrong data: {}", fault_text(f, names_in(scene))));
  v.next.text = tr(advice_on_calls(f));
  return v;
}

namespace {

// The failure is the consequence of the calls.
Verdict failure_by_calls(const Scene& scene, const Ending& failure, const CallFinding& f,
                         std::string_view id) {
  Verdict v;
  v.id = id;
  const int signal = failure.raised() ? 0 : failure.signal;
  v.kind = signal != 0 ? model::VerdictKind::crash : model::VerdictKind::exit;
  v.level = model::VerdictLevel::confirmed;
  v.confidence = f.tie ? Confidence::medium : Confidence::high;
  v.ranks = f.accused;
  v.host = host_of(scene.facts.run, failure.process->node);
  v.signal = signal;
  v.exit_code = signal != 0 ? -1 : failure.exit_code;
  v.seconds = failure.at_s;
  v.dump = scene.facts.dump_dir;
  v.collective = f.collective;
  v.waiting = waiting_in_calls(f);
  add_place(f, v);
  const Views accused = views_of(scene, f.accused);
  if (!accused.empty()) {
    v.pid = accused.front()->pid;
    v.host = accused.front()->host;
  }
  v.next.text = tr(advice_on_calls(f));
  return v;
}

}  // namespace

namespace {

// NCCL's calls are open until the end: its watchdog ends the process.
bool was_ended_by_watchdog(const Scene& scene, const Ending& failure) {
  const auto gave_up = [](const model::ThreadStack& t) {
    return says_backend_gave_up(t.cpp_exception.message);
  };
  return failure.signal == SIGABRT &&
         std::any_of(scene.facts.stacks.begin(), scene.facts.stacks.end(),
                     [&](const model::ProcessStacks& s) {
                       return s.pid == failure.process->pid && s.rank == failure.process->rank &&
                              std::any_of(s.threads.begin(), s.threads.end(), gave_up);
                     });
}

// The rank has died in its call, for which it is not to blame or as one of those that differ.
bool is_victim(const Scene& scene, const CallFinding& f, const RankView& v) {
  const Ending* e = scene.ending_of(v);
  if (e == nullptr || e->follower) {
    return e != nullptr;
  }
  if (is_mismatch(f.fault)) {
    return (e->raised() ? e->in_wait : e->signal == SIGABRT) &&
           (f.waiting.contains(v.rank) || f.accused.contains(v.rank));
  }
  return f.waiting.contains(v.rank) &&
         (e->raised() ? says_backend_gave_up(*e->exception) : was_ended_by_watchdog(scene, *e));
}

}  // namespace

std::optional<Verdict> died_in_call(const Scene& scene) {
  const Views dead = scene.in({RankState::dead});
  const auto& f = scene.call_fault;
  const bool victims =
      f && f->fault < CallFault::not_launched && !dead.empty() &&
      std::all_of(dead.begin(), dead.end(), [&](const RankView* v) { return is_victim(scene, *f, *v); });
  return victims ? called_wrongly(scene) : std::nullopt;
}

// gloo and NCCL may end a rank because of another rank's call: the failure is the consequence.
std::optional<Verdict> failed_by_mismatch(const Scene& scene) {
  const Ending* failure = scene.root_failure();
  const auto& f = scene.call_fault;
  const bool can_follow =
      failure != nullptr && (failure->signal == 0 || failure->signal == SIGABRT || failure->raised());
  if (!can_follow || !f || !is_mismatch(f->fault) ||
      (!f->accused.contains(failure->process->rank) && !f->waiting.contains(failure->process->rank))) {
    return std::nullopt;
  }
  Verdict v = failure_by_calls(scene, *failure, *f,
                               failure->signal != 0 && !failure->raised() ? kCrashMismatch : kExitMismatch);
  say(v, tr("{}; because of it, {} {} after {}", fault_text(*f, names_in(scene)),
            scene.names({failure->process->rank}), how_it_ended(*failure), seconds_words(failure->at_s)));
  return v;
}

namespace {

// How the ranks have ended, before the failure and by it.
struct EndedRanks {
  RankSet gave_up;  // by an exception of a call that waits for others
  RankSet others;   // well and before, or by another exception
};

EndedRanks ended_ranks(const Scene& scene, const Ending& failure) {
  EndedRanks out;
  for (const Ending& e : scene.endings) {
    if (e.process->rank >= 0 && e.raised()) {
      (e.in_wait || says_backend_gave_up(*e.exception) ? out.gave_up : out.others).insert(e.process->rank);
    } else if (e.process->rank >= 0 && e.dead && !e.failed() && e.at_s < failure.at_s) {
      out.others.insert(e.process->rank);
    }
  }
  return out;
}

std::optional<FailedCalls> failed_calls(const Scene& scene, const Ending& failure, const RankSet& gave_up) {
  if (failure.raised()) {
    return find_fault_of_failure(scene.facts.collectives, gave_up, failure.process->rank);
  }
  return scene.call_fault && was_ended_by_watchdog(scene, failure)
             ? std::optional(FailedCalls{.finding = *scene.call_fault})
             : std::nullopt;
}

// Where the ranks were that had not come.
std::string absence_words(const Scene& scene, const FailedCalls& found, Verdict& v) {
  const RankSet& accused = found.finding.accused;
  if (accused.minus(found.late).empty()) {
    return tr("; {} made it {} after it had failed", scene.names(accused),
              base::human_duration(found.late_s));
  }
  const Views views = views_of(scene, accused);
  if (views.empty()) {
    return {};
  }
  // A rank that is ended while its stack is read may have no Python in it; then its latest sample is known.
  const model::ProcessRecord* record = views.front()->record;
  const bool sampled = views.front()->where.line == 0 && record != nullptr && !record->place.empty();
  const model::CodeLocation& where = sampled ? record->place : views.front()->where;
  if (where.file.empty()) {
    return {};
  }
  v.where = where;
  return tr("; {} was in {}", scene.names({views.front()->rank}), place(v.where));
}

}  // namespace

std::optional<Verdict> gave_up_first(const Scene& scene) {
  const Ending* failure = scene.root_failure();
  if (failure == nullptr) {
    return std::nullopt;
  }
  const EndedRanks ended = ended_ranks(scene, *failure);
  const auto found = failed_calls(scene, *failure, ended.gave_up);
  if (!found || found->finding.accused.empty() || found->finding.fault >= CallFault::not_launched) {
    return std::nullopt;
  }
  const CallFinding& f = found->finding;
  const base::Rank victim = failure->process->rank;
  const bool by_itself = is_mismatch(f.fault) && (f.accused.contains(victim) || f.waiting.contains(victim));
  RankSet excused = ended.gave_up.minus(found->late);
  excused.insert(ended.others);
  const bool by_others = !is_mismatch(f.fault) && f.waiting.contains(victim) &&
                         f.accused.minus(excused).size() == f.accused.size();
  if (!by_itself && !by_others) {
    return std::nullopt;
  }
  Verdict v = failure_by_calls(scene, *failure, f, by_itself ? kExitMismatch : kExitNotEntered);
  if (by_others && (found->late.size() > 1 || ask_for_keys(views_of(scene, f.accused)))) {
    // One of them may have waited for another one elsewhere, or for a key that another one has not set.
    v.level = model::VerdictLevel::suspected;
    v.confidence = Confidence::medium;
  }
  const std::string absence = by_others ? absence_words(scene, *found, v) : std::string();
  say(v, tr("{}{}; {} {} after {}", fault_text(f, names_in(scene)), absence, scene.names({victim}),
            how_it_ended(*failure), seconds_words(failure->at_s)));
  return v;
}

namespace {

enum class Whereabouts { unknown, in_call, own_code };

// By the latest sample of the rank. `call`: the line of the call in which another rank has failed.
Whereabouts whereabouts_of(const model::ProcessRecord& p, const model::CodeLocation& call) {
  const auto wait =
      find_wait({{.kind = model::FrameKind::python, .func = p.function, .file = p.file, .line = p.line}},
                {.idle = true});
  if ((wait && waits_for_peers(wait->kind)) || (p.place.file == call.file && p.place.line == call.line)) {
    return Whereabouts::in_call;
  }
  // A call in C++, such as DDP's, is made by torch's own code.
  return p.place.empty() || p.file.empty() || owner_of(p.file) != CodeOwner::user ? Whereabouts::unknown
                                                                                  : Whereabouts::own_code;
}

// The only rank that by its latest sample had not come to the call; null if others may not have come either.
const model::ProcessRecord* rank_elsewhere(const Scene& scene, const Ending& failure) {
  const model::RunManifest& run = scene.facts.run;
  const std::vector<const model::ProcessRecord*> ranks = current_ranks(run);
  const EndedRanks ended = ended_ranks(scene, failure);
  const model::CodeLocation call = place_of(*failure.exception);
  if (run.nodes.size() > 1 || run.world_size > static_cast<int>(ranks.size())) {
    return nullptr;
  }
  const model::ProcessRecord* elsewhere = nullptr;
  for (const model::ProcessRecord* p : ranks) {
    if (ended.gave_up.contains(p->rank)) {
      continue;
    }
    const Whereabouts at = whereabouts_of(*p, call);
    if (at == Whereabouts::unknown || ended.others.contains(p->rank) ||
        (at == Whereabouts::own_code && elsewhere != nullptr)) {
      return nullptr;
    }
    elsewhere = at == Whereabouts::own_code ? p : elsewhere;
  }
  return elsewhere;
}

}  // namespace

std::optional<Verdict> gave_up_unrecorded(const Scene& scene) {
  const Ending* failure = scene.root_failure();
  if (failure == nullptr || !failure->raised() || !says_backend_gave_up(*failure->exception)) {
    return std::nullopt;
  }
  const model::ProcessRecord* elsewhere = rank_elsewhere(scene, *failure);
  if (elsewhere == nullptr) {
    return std::nullopt;
  }
  Verdict v;
  v.id = kExitNotEntered;
  v.kind = model::VerdictKind::exit;
  v.level = model::VerdictLevel::suspected;
  v.confidence = Confidence::medium;
  v.ranks = {elsewhere->rank};
  v.host = host_of(scene.facts.run, elsewhere->node);
  v.pid = elsewhere->pid;
  v.where = elsewhere->place;
  v.exit_code = failure->exit_code;
  v.seconds = failure->at_s;
  v.dump = scene.facts.dump_dir;
  say(v, tr("{} was in {} when {} {} after {}; the calls were not recorded", scene.names(v.ranks),
            place(v.where), scene.names({failure->process->rank}), how_it_ended(*failure),
            seconds_words(failure->at_s)));
  v.next.text = tr(names_of(CallFault::not_entered).advice);
  return v;
}

}  // namespace xpurun::report
