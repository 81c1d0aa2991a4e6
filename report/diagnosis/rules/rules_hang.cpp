// Verdicts of kind hang: the rank that keeps the others waiting. Cheap certainties come first (dead,
// stopped), then ranks that did not enter a call, then findings that need a comparison of all ranks.
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/diagnose.h"
#include "report/diagnosis/ends/exceptions.h"
#include "report/diagnosis/helpers.h"
#include "report/diagnosis/holders.h"
#include "report/diagnosis/rank_exceptions.h"
#include "report/diagnosis/rule.h"
#include "report/diagnosis/rules/blame.h"
#include "report/diagnosis/vocabulary.h"
#include "report/diagnosis/waits/code_place.h"
#include "report/diagnosis/waits/thread_waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace xpurun::report {

using base::tr;
using model::Confidence;
using model::RankSet;
using model::Verdict;
using model::VerdictLevel;

namespace {

// A death with another explanation is not the cause while there is an unexplained death.
Views without_follower_deaths(const Scene& scene, const Views& views) {
  Views out;
  std::copy_if(views.begin(), views.end(), std::back_inserter(out), [&](const RankView* v) {
    const Ending* e = scene.ending_of(*v);
    return v->state != RankState::dead || e == nullptr || !e->follower;
  });
  return out.empty() ? views : out;
}

// The rank's host is outside the call that the others wait in. The host of a rank that has launched a
// collective on its GPU may be anywhere: then its calls decide. If a rank is in a call by its record and
// still counts as stuck, its stack contradicts the record.
bool is_outside(const Scene& scene, const RankView& v) {
  const model::CollectiveFacts& calls = scene.facts.collectives;
  const bool kernel = v.wait && v.wait->kind == WaitKind::kernel;
  return v.state != RankState::stuck || kernel || v.gil_holder != nullptr ||
         call_of_host(calls, v.rank) != nullptr || !has_open_call(calls, v.rank);
}

// By the recorded calls the ranks that wait have made a call too many: nobody owes them one.
bool others_departed(const Scene& scene, base::Rank rank) {
  const auto& fault = scene.call_fault;
  return fault && fault->fault == CallFault::departed && !fault->accused.contains(rank);
}

// The rank ends, because it has lost the connection to a rank that had ended before.
bool lost_an_ended_rank(const Scene& scene, const RankView& v) {
  const auto& all = scene.facts.run.exceptions;
  const auto lost = std::find_if(all.begin(), all.end(), [&](const model::PythonException& e) {
    return e.pid == v.pid && e.rank == v.rank && says_peer_is_gone(e);
  });
  return lost != all.end() && std::any_of(scene.endings.begin(), scene.endings.end(), [&](const Ending& e) {
           return e.dead && e.process->rank >= 0 && e.process->rank != v.rank && e.at_s <= lost->at_s;
         });
}

// The backend of the rank has given up waiting, whether the rank has ended since or not.
bool gave_up(const Scene& scene, const RankView& v) {
  const auto& all = scene.facts.run.exceptions;
  return std::any_of(all.begin(), all.end(), [&](const model::PythonException& e) {
    return e.kind == model::ExceptionKind::raised && e.pid == v.pid && e.rank == v.rank &&
           says_backend_gave_up(e);
  });
}

// The same, and the rank that it waited for still stands somewhere.
bool gave_up_waiting(const Scene& scene, const RankView& v) {
  const Views others =
      scene.in({RankState::stuck, RankState::busy, RankState::stopped, RankState::uninterruptible});
  return gave_up(scene, v) && std::any_of(others.begin(), others.end(),
                                          [&](const RankView* other) { return !gave_up(scene, *other); });
}

// Some ranks wait for peers, and others are dead, held or outside any call: these are the culprits.
std::optional<Verdict> held_or_outside(const Scene& scene) {
  const Views waiting = scene.in({RankState::waiting});
  if (waiting.empty()) {
    return std::nullopt;
  }
  Views left;
  Views sure;
  for (const RankView* v :
       scene.in({RankState::dead, RankState::stopped, RankState::uninterruptible, RankState::stuck})) {
    const bool in_peace = v->state == RankState::dead && exited_cleanly(scene, *v);
    const bool innocent = ((in_peace || v->state == RankState::stuck) && others_departed(scene, v->rank)) ||
                          (v->state == RankState::stuck && lost_an_ended_rank(scene, *v)) ||
                          gave_up_waiting(scene, *v) || serves(*v);
    if (is_outside(scene, *v) && !innocent) {
      (in_peace ? left : sure).push_back(v);
    }
  }
  for (const Views& culprits : {sure, left}) {
    if (!culprits.empty()) {
      return blame(scene, without_idle(without_follower_deaths(scene, culprits)), waiting);
    }
  }
  return std::nullopt;
}

// Some ranks have waited for long, and others have only just come to their calls: these were working, and may
// go on to the calls of the ranks that wait. Only ranks that have made different calls never will. A rank
// that polls changes its position while it waits.
std::optional<Verdict> others_just_came(const Scene& scene) {
  if (scene.call_fault && is_mismatch(scene.call_fault->fault)) {
    return std::nullopt;
  }
  Views waiting;
  std::vector<RankView> came;
  for (const RankView* v : scene.in({RankState::waiting})) {
    if (!v->moved || v->seen->outside == model::OutsideWait::polling) {
      waiting.push_back(v);
      continue;
    }
    RankView& own = came.emplace_back(*v);
    own.state = RankState::busy;
    own.where = v->seen->common_place.empty() ? v->where : v->seen->common_place;
  }
  if (waiting.empty() || came.empty()) {
    return std::nullopt;
  }
  return blame(scene, pointers_to(came), waiting);
}

// The basis for comparing waiting ranks. Pipeline stages rightly wait in different sends and receives, so all
// of these count as one call. Compared with a collective they do not: a rank in recv has not entered the
// collective.
struct Calls {
  std::vector<model::Waiting> sites;  // for the sentence: every call site, largest first
  std::vector<RankSet> sides;         // for the decision: largest first
  bool some_point_to_point = false;

  bool differ() const { return sides.size() > 1; }
  bool tie() const { return differ() && sides[0].size() == sides[1].size(); }
};

Calls calls_of(const Views& waiting) {
  Calls out{.sites = waiting_groups(waiting)};
  RankSet point_to_point;
  for (const RankView* v : waiting) {
    if (v->wait->kind == WaitKind::point_to_point) {
      point_to_point.insert(v->rank);
    }
  }
  out.some_point_to_point = !point_to_point.empty();
  Views others;
  std::copy_if(waiting.begin(), waiting.end(), std::back_inserter(others),
               [&](const RankView* v) { return !point_to_point.contains(v->rank); });
  for (const model::Waiting& w : waiting_groups(others)) {
    out.sides.push_back(w.ranks);
  }
  if (out.some_point_to_point) {
    out.sides.push_back(point_to_point);
  }
  std::stable_sort(out.sides.begin(), out.sides.end(),
                   [](const RankSet& a, const RankSet& b) { return a.size() > b.size(); });
  return out;
}

// Ranks without readable data. Ranks of a node that did not answer are culprits only if all others wait in
// one call. Ranks of a node that answered without a dump of that moment never are: only their data is
// missing.
Views silent_ranks(const Scene& scene, bool calls_differ) {
  const RankSet unheard = scene.unheard();
  Views out;
  for (const RankView* v : scene.in({RankState::silent})) {
    const bool looked_at = v->seen != nullptr || v->stacks != nullptr;
    if (looked_at || (unheard.contains(v->rank) && !calls_differ)) {
      out.push_back(v);
    }
  }
  return out;
}

// Some wait for peers and some do not.
std::optional<Verdict> somebody_is_missing(const Scene& scene) {
  const Views waiting = scene.in({RankState::waiting});
  for (const RankState state : {RankState::stuck, RankState::busy}) {
    Views culprits = without_idle(scene.in({state}));
    std::erase_if(culprits, [&](const RankView* v) { return gave_up_waiting(scene, *v) || serves(*v); });
    if (!waiting.empty() && !culprits.empty()) {
      return blame(scene, culprits, waiting);
    }
  }
  const Views culprits = silent_ranks(scene, calls_of(waiting).differ());
  return waiting.empty() || culprits.empty() ? std::nullopt : std::optional(blame(scene, culprits, waiting));
}

// Everybody waits, but not in the same call.
std::optional<Verdict> mismatch(const Scene& scene) {
  const Views waiting = scene.in({RankState::waiting});
  const Calls calls = calls_of(waiting);
  if (!calls.differ()) {
    return std::nullopt;
  }
  const bool tie = calls.tie();
  const bool on_gpu = std::any_of(waiting.begin(), waiting.end(),
                                  [](const RankView* v) { return v->wait->kind == WaitKind::gpu; });
  Views minority;
  Views majority;
  for (const RankView* v : waiting) {
    const bool in_majority = !tie && calls.sides[0].contains(v->rank);
    (in_majority ? majority : minority).push_back(v);
  }
  // The same operation at another line may be the same call in another place of the program.
  const bool same_op = std::all_of(calls.sites.begin(), calls.sites.end(), [&](const model::Waiting& w) {
    return w.what == calls.sites.front().what;
  });
  const bool unsure = tie || on_gpu || same_op || calls.sides.size() > 2;
  Verdict v =
      begin_hang(scene, {.id = kHangMismatch, .confidence = unsure ? Confidence::low : Confidence::medium},
                 {{.state = RankState::waiting, .views = minority}}, tie ? waiting : majority);
  if (tie) {
    accuse_nobody(v);
    std::string parts;
    for (size_t i = 0; i < calls.sites.size() && i < kMostClauses; ++i) {
      const model::Waiting& site = calls.sites[i];
      parts += tr("{}{} in {}", i == 0 ? "" : tr(", "), rank_words(site.ranks),
                  waiting_place(site.what, site.where));
    }
    say(v, tr("ranks have waited for each other in different calls for {}: {}",
              seconds_words(longest(waiting)), parts));
  } else {
    const auto odd = waiting_groups(minority);
    const auto most = waiting_groups(majority);
    // An exception may be on its way out, while its cleanup makes another call.
    const std::string raised = minority.size() == 1 ? exception_clause(scene, *minority.front()) : "";
    say(v,
        tr("{} {} in {} for {}{} while {} {} in {}", scene.names(ranks_of(minority)),
           pick({"has waited", "have waited"}, minority.size()),
           waiting_place(odd.front().what, odd.front().where), seconds_words(longest(minority)),
           raised.empty() ? raised : raised + tr(","), rank_words(ranks_of(majority)),
           pick({"waits", "wait"}, majority.size()), waiting_place(most.front().what, most.front().where)));
  }
  v.next.text =
      calls.some_point_to_point
          ? tr("make every rank enter the collective, and match every send with a recv; look for a branch on "
               "the rank or the data")
          : tr("make all ranks call the same collectives in the same order; look for a branch on the rank or "
               "the data");
  return v;
}

// Nothing else explains the wait: a rank serves requests from outside of the job, instead of the call.
std::optional<Verdict> server_is_missing(const Scene& scene) {
  const Views waiting = scene.in({RankState::waiting});
  Views culprits = scene.in({RankState::stuck});
  std::erase_if(culprits, [&](const RankView* v) { return gave_up_waiting(scene, *v); });
  return waiting.empty() || culprits.empty() ? std::nullopt : std::optional(blame(scene, culprits, waiting));
}

std::string all_ranks(size_t n, std::string_view after) {
  return n == 1 ? tr("the only rank{}", after) : tr("all {} ranks{}", n, after);
}

std::optional<Verdict> all_wait(const Scene& scene) {
  const Views waiting = scene.in({RankState::waiting});
  if (waiting.empty()) {
    return std::nullopt;
  }
  const bool others = scene.facts.run.world_size > static_cast<int>(waiting.size());
  const bool several = scene.facts.run.nodes.size() > 1;
  Verdict v = begin_hang(scene, {.id = kHangAllWaiting, .confidence = Confidence::low},
                         {{.state = RankState::waiting, .views = waiting}}, waiting);
  accuse_nobody(v);
  const auto& first = v.waiting.front();
  // Several calls remain here only if all are sends and receives; whether they match is unknown.
  const bool one_call = v.waiting.size() == 1;
  const std::string elsewhere = one_call ? "" : tr(" and other calls");
  const bool by_processes = std::all_of(waiting.begin(), waiting.end(), [](const RankView* w) {
    return w->thread != nullptr && in_multiprocessing(w->thread->frames);
  });
  const model::PythonException* unseen = by_processes ? unseen_exception(scene) : nullptr;
  const std::string why =
      unseen != nullptr ? tr("pid {} {} before", unseen->pid, raised_words(*unseen))
      : by_processes    ? tr("no other process is left that could end this wait")
      : others && several
          ? tr("the state of the other ranks of {} at that moment is unknown", scene.facts.run.world_size)
      : others   ? tr("the others of {} are not on this host or never started", scene.facts.run.world_size)
      : one_call ? tr("none is missing; it was not recorded whether they called it with the same size, type "
                      "and root, or wait for the network or a GPU")
                 : tr("none is missing, so a send or recv may lack its counterpart");
  const size_t n = waiting.size();
  say(v, tr("{} {} in {}{} for {}; {}", all_ranks(n, others ? tr(" seen here") : ""),
            pick({"has waited", "have waited"}, n), waiting_place(first.what, first.where), elsewhere,
            seconds_words(longest(waiting)), why));
  v.next.text =
      unseen != nullptr ? advice_on(*unseen)
      : by_processes
          ? tr("look for a process that has ended before, or has called wait() less often, and for what "
               "should set or notify the object")
      : others && several
          ? tr("make the report from the run directories of all nodes: xpurun report DIR1 DIR2 ...")
      : others   ? tr("look at the other hosts' runs: one of their ranks is missing in this call")
      : one_call ? tr("compare what each rank passes to this call, then check network and GPUs: "
                      "NCCL_DEBUG=INFO, nvidia-smi, dmesg | tail")
                 : tr("compare which rank each send and recv names, and their order and tags");
  return v;
}

// No rank is in a known wait for a peer, but a rank died by itself or is held.
std::optional<Verdict> held_or_dead(const Scene& scene) {
  Views culprits = scene.in({RankState::stopped, RankState::uninterruptible});
  for (const RankView* v : scene.in({RankState::dead})) {
    const Ending* e = scene.ending_of(*v);
    if (!exited_cleanly(scene, *v) && (e == nullptr || !e->follower) && !gave_up_waiting(scene, *v)) {
      culprits.push_back(v);
    }
  }
  if (culprits.empty()) {
    return std::nullopt;
  }
  Verdict v = blame(scene, culprits, {});
  v.confidence = v.state == RankState::dead ? Confidence::medium : v.confidence;
  return v;
}

// Whether other processes can end the wait: primitives of multiprocessing are shared between processes.
bool shared_by_processes(const RankView& v) {
  return v.thread == nullptr || in_multiprocessing(v.thread->frames);
}

// The rank waits for a thread that waits for a lock of the rank's.
bool waits_for_locked_out(const RankView& v) {
  const model::ThreadStack* out = v.waits_locally() && v.stacks != nullptr && v.thread != nullptr
                                      ? locked_out_by(*v.stacks, *v.thread)
                                      : nullptr;
  return out != nullptr && is_deadlock(*v.stacks, *v.thread, *out);
}

// Ranks that acquire a lock of their own process, in which nothing moves: no other rank can end such a wait.
// A wait for an event, a queue or a thread may be that of a server, whose threads wait for other ranks.
Views locked_out(const Views& living) {
  Views out;
  std::copy_if(living.begin(), living.end(), std::back_inserter(out), [](const RankView* v) {
    const bool acquires =
        std::find(v->in_acquire.begin(), v->in_acquire.end(), v->thread) != v->in_acquire.end();
    return v->state == RankState::stuck && (acquires || waits_for_locked_out(*v)) &&
           v->gil_holder == nullptr && v->seen != nullptr &&
           v->seen->helper_life == model::HelperLife::still && !shared_by_processes(*v);
  });
  return out;
}

// Ranks that cannot write, because the process that should read waits for their end.
Views cut_off(const Views& living) {
  Views out;
  std::copy_if(living.begin(), living.end(), std::back_inserter(out), [](const RankView* v) {
    return v->state == RankState::stuck && v->cut_off() && v->seen != nullptr &&
           v->seen->helper_life == model::HelperLife::still;
  });
  return out;
}

VerdictLevel level_of_work(const Scene& scene) {
  return escalated(scene) ? VerdictLevel::confirmed : VerdictLevel::suspected;
}

// Ranks that wake up again and again in one place: in a wait that polls, or in a short loop that works.
bool some_loop(const Scene& scene, const Views& views) {
  return !(scene.facts.dump && scene.facts.dump->idle_counts) &&
         std::any_of(views.begin(), views.end(), [](const RankView* v) {
           return v->seen != nullptr && v->seen->outside == model::OutsideWait::polling;
         });
}

// Ranks of which none works: locks at rest do not resolve themselves; other waits may end, until they have
// lasted.
VerdictLevel level_of_still(const Scene& scene, const Views& living) {
  const bool all_still = std::all_of(living.begin(), living.end(), [](const RankView* v) {
    return v->state == RankState::stuck && v->seen != nullptr &&
           v->seen->helper_life == model::HelperLife::still;
  });
  const bool all_locked = std::all_of(living.begin(), living.end(), [](const RankView* v) {
    return v->thread != nullptr && acquires_lock(*v->thread) && v->gil_holder == nullptr;
  });
  if (!all_still || some_loop(scene, living)) {
    return level_of_work(scene);
  }
  return all_locked || outlasted(scene) ? VerdictLevel::confirmed : level_of_work(scene);
}

// Ranks that may wait for others by means that are not known.
Verdict suspect(const Scene& scene, const Views& culprits) {
  Verdict v = blame(scene, culprits, {});
  v.level = some_loop(scene, culprits) ? VerdictLevel::suspected : level_of_work(scene);
  v.confidence = Confidence::low;
  say(v, tr("{}; no rank waits for another", culprit_clauses(scene, group_culprits(scene, culprits), 0)));
  return v;
}

// "different places (rank 2 in step (train.py:55), rank 3 in read_shard (train.py:16))"
std::string different_places(const std::map<std::string, Views>& by_place) {
  constexpr size_t kMostPlaces = 3;
  std::string list;
  for (const auto& [where, views] : by_place) {
    list += (list.empty() ? "" : tr(", ")) + tr("{} in {}", rank_words(ranks_of(views)), where);
  }
  return by_place.size() > kMostPlaces ? tr("different places") : tr("different places ({})", list);
}

// No rank waits for another: a job of one process, a long call on all ranks, or ranks that use an unknown
// library.
std::optional<Verdict> nobody_waits(const Scene& scene) {
  Views living = without_idle(scene.in({RankState::stuck, RankState::busy, RankState::silent}));
  std::erase_if(living, [&](const RankView* v) { return gave_up_waiting(scene, *v); });
  if (living.empty()) {
    return std::nullopt;
  }
  for (const Views& known : {locked_out(living), cut_off(living)}) {
    if (!known.empty()) {
      return blame(scene, known, {});
    }
  }
  Views still;
  std::copy_if(living.begin(), living.end(), std::back_inserter(still),
               [](const RankView* v) { return v->state == RankState::stuck; });
  if (living.size() == 1) {
    return still.empty() || !scene.others_work() ? blame(scene, living, {}) : suspect(scene, living);
  }
  if (std::all_of(living.begin(), living.end(), [](const RankView* r) {
        return r->thread != nullptr && waits_for_shared_lock(*r->thread);
      })) {
    return shared_locks(scene, living, level_of_still(scene, living));
  }
  std::map<std::string, Views> by_place;
  for (const RankView* v : living) {
    by_place[place(v->where)].push_back(v);
  }
  const auto largest = std::max_element(by_place.begin(), by_place.end(), [](const auto& a, const auto& b) {
    return a.second.size() < b.second.size();
  });
  const size_t most = largest->second.size();
  if (most < living.size() && most * 2 > living.size() && !still.empty()) {
    Views odd;
    std::copy_if(living.begin(), living.end(), std::back_inserter(odd), [&](const RankView* v) {
      return v->state == RankState::stuck && place(v->where) != largest->first;
    });
    if (!odd.empty()) {
      Verdict v = blame(scene, odd, {});
      v.level = level_of_still(scene, living);
      v.confidence = Confidence::low;
      say(v, tr("{}; {} {} in {}", culprit_clauses(scene, group_culprits(scene, odd), 0),
                rank_words(ranks_of(largest->second)), pick({"is", "are"}, most), largest->first));
      return v;
    }
  }
  const bool some_work = std::any_of(living.begin(), living.end(),
                                     [](const RankView* v) { return v->state == RankState::busy; });
  if (most < living.size() && !still.empty() && some_work) {
    return suspect(scene, still);
  }
  const RankState state = some_work ? RankState::busy : RankState::stuck;
  const VerdictLevel level = some_loop(scene, living)         ? VerdictLevel::suspected
                             : !some_work && outlasted(scene) ? VerdictLevel::confirmed
                                                              : level_of_still(scene, living);
  Verdict v = begin_hang(scene, {.id = kHangLongCall, .level = level, .confidence = Confidence::low},
                         {{.state = state, .views = living}}, {});
  v.state = state;
  const std::string polls = polls_words(living);
  say(v,
      tr("{} have been in {} for {}{}; {}",
         living.size() == scene.ranks.size() ? all_ranks(living.size(), "") : scene.names(ranks_of(living)),
         most == living.size() ? largest->first : different_places(by_place), seconds_words(longest(living)),
         some_work ? tr(" and are working") : "",
         polls.empty() ? tr("no rank waits for another")
                       : tr("they look for files that do not exist: {}", polls)));
  v.next.text = raise_timeout_words(scene.facts.run.hang_timeout_s);
  return v;
}

// The dump is unreadable or says nothing: the supervisor's record decides, else the bare stall.
std::optional<Verdict> recorded(const Scene& scene) {
  const model::Stall* stall = stall_that_matters(scene.facts.run);
  if (stall != nullptr && stall->verdict.kind == model::VerdictKind::hang) {
    Verdict v = stall->verdict;
    v.dump = stall->dump;
    v.evidence.clear();
    if (base::spoken() != base::Language::english) {
      v.sentence = sentence_of(v);
      v.headline.clear();
      v.next.text.clear();  // English prose
    }
    return v;
  }
  Verdict v = begin_hang(scene, {.id = kHangUnknown, .confidence = Confidence::low}, {}, {});
  v.dump = stall != nullptr ? stall->dump : scene.facts.dump_dir;
  say(v, tr("no progress for the timeout, and no readable stack shows why"));
  v.next = {.text = tr("see xpurun.log in the run directory for why the dump failed"),
            .command = "xpurun doctor"};
  return v;
}

constexpr Rule kHangRules[] = {
    gpu_failed,            // before the ranks that wait for it
    lock_circle,           // before each of its ranks
    looked_for_in_circle,  // likewise
    locked,                // before the ranks that wait for it
    not_all_joined,        // those that died of it included
    died_in_call,          // before the dead, who are victims
    held_or_outside,       // certain without the recorded calls
    others_just_came,      // the recorded calls are those of ranks that stand in them
    key_is_missing,        // before the calls that the ranks without the key have not entered
    called_wrongly,        // from the recorded calls
    somebody_is_missing,   // from here on by stacks alone
    left_the_steps,        // before the ties
    mismatch,              //
    server_is_missing,     //
    all_wait,              //
    held_or_dead,          // no rank waits
    left_before_waits,     // no rank waits in a known call
    nobody_waits,          //
    recorded,              // no readable dump
};

// MPI spins while it waits, and with too few CPUs a rank may need long for the little that it has to do. Only
// calls that can never meet prove a hang then.
void doubt_starved(const Scene& scene, Verdict& v) {
  constexpr double kStarvedShare = 0.2;
  const bool proved = scene.call_fault && scene.call_fault->fault < CallFault::not_launched;
  if (v.level != VerdictLevel::confirmed || proved || outlasted(scene)) {
    return;
  }
  const bool starved = std::any_of(scene.ranks.begin(), scene.ranks.end(), [&](const RankView& r) {
    return r.state == RankState::waiting && r.seen != nullptr && r.seen->main_cpu_share > 0 &&
           r.seen->main_queue_share >= kStarvedShare && calls_mpi(scene.facts.collectives, r.rank);
  });
  v.level = starved ? VerdictLevel::suspected : v.level;
}

}  // namespace

std::optional<Verdict> hung(const Scene& scene) {
  const model::RunManifest& run = scene.facts.run;
  const model::Stall* stall = stall_that_matters(run);
  const bool dumped = scene.facts.dump && (scene.facts.dump->why == model::DumpReason::hang ||
                                           (stall != nullptr && stall->dump == scene.facts.dump_dir));
  // The supervisor may ask after taking the dump and before recording the stall.
  const bool fresh = dumped && run.stalls.empty() && run.outcome == model::RunOutcome::running;
  if (stall == nullptr && !fresh) {
    if (run.outcome != model::RunOutcome::hang) {
      return std::nullopt;
    }
    // Without a dump by xpurun there may be dumps of PyTorch's Flight Recorder.
    auto by_calls = called_wrongly(scene);
    return by_calls ? by_calls : recorded(scene);
  }
  if (!dumped) {
    // Nothing is known about a stall while its dump is being taken.
    const bool soon = stall != nullptr && stall->dump.empty() && run.outcome == model::RunOutcome::running &&
                      stall->verdict.kind != model::VerdictKind::hang;
    return soon ? std::nullopt : recorded(scene);
  }
  for (const Rule rule : kHangRules) {
    if (auto v = rule(scene)) {
      doubt_stall(scene, *v);
      doubt_starved(scene, *v);
      if (only_serves(scene, v->ranks)) {
        return std::nullopt;  // a server that waits for requests is idle
      }
      if (stall != nullptr && stall->early && run.outcome == model::RunOutcome::running) {
        // A pause of this length is not a hang yet.
        v->level = std::min(v->level, VerdictLevel::suspected);
        say(*v, v->headline);
      } else {
        offer_busy_timeouts(scene, *v);
      }
      return v;
    }
  }
  return std::nullopt;
}

}  // namespace xpurun::report
