#include "report/diagnosis/helpers.h"

#include "common/base/os/system_call.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/frame_text.h"
#include "report/diagnosis/ends/exceptions.h"
#include "report/diagnosis/ends/origin.h"
#include "report/diagnosis/holders.h"
#include "report/diagnosis/rank_exceptions.h"
#include "report/diagnosis/vocabulary.h"
#include "report/diagnosis/waits/async_waits.h"
#include "report/diagnosis/waits/code_place.h"
#include "report/diagnosis/waits/thread_waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace xpurun::report {

using base::later;
using base::tr;
using model::HelperLife;
using model::HelperObservation;
using model::OutsideWait;
using model::ThreadStack;

namespace {

constexpr size_t kMostThreadPlaces = 2;
// In the user's code: the loop that takes work, and a function that it calls to do so.
constexpr size_t kFramesOfWork = 3;

// `thread` knows the object that `waiter` waits for.
bool shares(const ThreadStack& waiter, const ThreadStack& thread) {
  return std::find(waiter.sharers.begin(), waiter.sharers.end(), thread.tid) != waiter.sharers.end();
}

size_t user_frames(const std::vector<model::Frame>& frames) {
  return static_cast<size_t>(std::count_if(frames.begin(), frames.end(), [](const model::Frame& f) {
    return f.kind == model::FrameKind::python && owner_of(f.file) == CodeOwner::user;
  }));
}

const model::ProcessStacks* stacks_of(const Scene& scene, const RankView& v, base::Pid pid) {
  const auto it = std::find_if(
      scene.facts.stacks.begin(), scene.facts.stacks.end(),
      [&](const model::ProcessStacks& s) { return s.pid == pid && (s.host.empty() || s.host == v.host); });
  return it == scene.facts.stacks.end() ? nullptr : &*it;
}

// Processes of multiprocessing itself, or of loky in joblib, which wait for requests all the time.
bool serves_multiprocessing(std::string_view file) {
  return file.ends_with("/resource_tracker.py") || file.ends_with("/multiprocessing/forkserver.py") ||
         file.ends_with("/multiprocessing/managers.py");
}

bool serves_multiprocessing(const std::vector<model::Frame>& frames) {
  return std::any_of(frames.begin(), frames.end(),
                     [](const model::Frame& f) { return serves_multiprocessing(f.file); });
}

// A process of Ray without a task: an idle worker, or one of the cluster's own.
bool idles_in_ray(const std::vector<model::Frame>& frames) {
  return user_frames(frames) == 0 && std::any_of(frames.begin(), frames.end(), [](const model::Frame& f) {
           return f.file.find("-packages/ray/") != std::string::npos;
         });
}

// What a process of multiprocessing was started for. The frames below are those of its start: of the server
// that has forked it, or of its parent.
std::vector<model::Frame> frames_of_work(const std::vector<model::Frame>& frames) {
  return {frames.begin(), std::find_if(frames.begin(), frames.end(), [](const model::Frame& f) {
            return f.file.ends_with("/multiprocessing/process.py");
          })};
}

// A wait for work; not one inside of a piece of work.
bool waits_for_work(const std::vector<model::Frame>& work, const Wait& wait, const std::string& callee) {
  const bool takes = wait.what == "queue" && !callee.ends_with(".put");
  const size_t users = user_frames(work);
  return waits_for_peers(wait.kind) || users == 0 || (takes && users < kFramesOfWork);
}

// The last helper of the rank that was found dead before the dump.
const model::HelperDeath* dead_helper(const Scene& scene, const RankView& v) {
  const auto& all = scene.facts.run.helper_deaths;
  const auto it = std::find_if(all.rbegin(), all.rend(), [&](const model::HelperDeath& h) {
    return h.parent == v.pid && h.rank == v.rank && (!scene.facts.dump || h.at_s <= scene.facts.dump->at_s);
  });
  return it == all.rend() ? nullptr : &*it;
}

model::CodeLocation place_as_seen(const model::ProcessStacks* stacks, const HelperObservation& h) {
  const model::ThreadStack* main = stacks != nullptr ? stacks->main_thread() : nullptr;
  if (main != nullptr && !main->frames.empty()) {
    return place_of_helper(*stacks);
  }
  if (serves_multiprocessing(h.file) || h.function.empty() ||
      find_wait_at(h.function, h.file, {.idle = true})) {
    return {};
  }
  return {.function = h.function, .file = h.file, .line = h.line};
}

// Waits for a lock that another process of the rank may hold, in a library that knows no holders.
bool takes_lock(const model::CodeLocation& where) {
  return where.callee.ends_with(".acquire") || where.callee.ends_with(".__enter__");
}

// Another process of the rank may say why it waits: of workers of dask, the one that has a task.
bool says_little(const model::CodeLocation& where) {
  return takes_lock(where) || owner_of(where.file) != CodeOwner::user;
}

// Without any observation of the helpers, their stacks give a position but no duration.
std::optional<HelperPlace> helper_by_stacks(const Scene& scene, const RankView& v) {
  std::optional<HelperPlace> at_least;
  for (const model::ProcessStacks& s : scene.facts.stacks) {
    const bool helper = s.role == model::ProcessRole::worker || s.role == model::ProcessRole::child;
    if (!helper || s.rank != v.rank || s.main_thread() == nullptr || s.main_thread()->frames.empty()) {
      continue;
    }
    auto where = place_as_seen(&s, {});
    const bool little = says_little(where);
    if (!where.function.empty() && (!little || !at_least)) {
      at_least = HelperPlace{.pid = s.pid, .where = std::move(where), .stacks = &s};
      if (!little) {
        return at_least;
      }
    }
  }
  return at_least;
}

// The job would be ended for a confirmed hang, and --busy-timeouts is off.
bool needs_busy_timeouts(const model::RunManifest& run) {
  bool ends = false;
  for (const model::OptionOrigin& o : run.options) {
    if (o.name == "busy-timeouts" && o.value != "off") {
      return false;
    }
    ends = o.name == "on-hang" ? o.value != "report" : ends;
  }
  return ends;
}

}  // namespace

model::CodeLocation place_of_helper(const model::ProcessStacks& process) {
  const model::ThreadStack& main = *process.main_thread();
  const std::vector<model::Frame> work = frames_of_work(main.frames);
  model::CodeLocation place = place_with_target(main);
  const auto wait = find_wait(main.frames, {.idle = true});
  // Workers of a pool take turns at the lock of their queue.
  const bool turns = !acquires_lock(main) || user_frames(work) == 0;
  const bool idle = wait && turns && waits_for_work(work, *wait, place.callee);
  if (idle || serves_multiprocessing(work) || idles_in_ray(work)) {
    return {};
  }
  const bool in_loop = loop_waits(main) || serves_requests(main) || owner_of(place.file) != CodeOwner::user;
  const model::ThreadStack* other = in_loop ? thread_in_user_code(process) : nullptr;
  return other != nullptr ? place_with_target(*other) : std::move(place);
}

namespace {

// A task waits for an event of asyncio, or the only one for a future, which a handler of signals may set: a
// service waits so for its end.
bool awaits_event(const RankView& v) {
  const auto in_event = [](const model::AsyncTask& task) {
    return !task.frames.empty() && task.frames.front().func.ends_with("wait") &&
           task.frames.front().file.ends_with("/asyncio/locks.py");
  };
  return v.thread != nullptr && loop_waits(*v.thread) && v.stacks != nullptr &&
         (v.stacks->tasks.size() == 1 ||
          std::any_of(v.stacks->tasks.begin(), v.stacks->tasks.end(), in_event));
}

bool checks_only(const RankView& v) {
  return v.thread != nullptr && v.stacks != nullptr && loop_waits(*v.thread) && only_checks(*v.stacks);
}

}  // namespace

bool waits_for_own_pool(const RankView& v) {
  const bool waits = v.waits_locally() || (v.thread != nullptr && loop_waits(*v.thread));
  return v.state == RankState::stuck && waits && v.stacks != nullptr && !pool_of_waiters(*v.stacks).empty();
}

bool idles(const RankView& v) {
  const bool still = v.state == RankState::stuck || v.state == RankState::silent;
  return still && v.seen != nullptr && !waits_for_own_pool(v) &&
         (v.seen->outside != OutsideWait::none || awaits_event(v) || checks_only(v));
}

// A task that waits for a lock waits for another task.
bool serves(const RankView& v) {
  const auto acquires = [](const model::AsyncTask& task) {
    return !task.frames.empty() && task.frames.front().func.ends_with("acquire");
  };
  return idles(v) && v.seen->outside == OutsideWait::requests && v.stacks != nullptr &&
         v.at_work == nullptr && std::none_of(v.stacks->tasks.begin(), v.stacks->tasks.end(), acquires);
}

bool only_serves(const Scene& scene, const model::RankSet& ranks) {
  const bool counts = scene.facts.dump && scene.facts.dump->idle_counts;
  return !counts && !ranks.empty() && scene.in({RankState::waiting}).empty() &&
         std::all_of(scene.ranks.begin(), scene.ranks.end(),
                     [&](const RankView& v) { return !ranks.contains(v.rank) || serves(v); });
}

Views without_idle(const Views& views) {
  Views out;
  std::copy_if(views.begin(), views.end(), std::back_inserter(out),
               [](const RankView* v) { return !idles(*v); });
  return out.empty() ? views : out;
}

bool helpers_stir(const RankView& v) {
  return v.state == RankState::stuck && v.seen != nullptr && v.seen->helper_life == HelperLife::stirring;
}

namespace {

// "event" of Event.wait: what the user's line waits for; empty if that is no object that a thread sets,
// notifies or fills.
std::string_view awaited_object(const ThreadStack& thread) {
  struct Object {
    std::string_view type;
    std::string_view name;
  };
  constexpr Object kObjects[] = {{"Event", later("event")},
                                 {"Condition", later("condition")},
                                 {"Barrier", later("barrier")},
                                 {"Semaphore", later("semaphore")},
                                 {"BoundedSemaphore", later("semaphore")},
                                 {"Queue", later("queue")},
                                 {"LifoQueue", later("queue")},
                                 {"PriorityQueue", later("queue")},
                                 {"Future", later("future")}};
  const size_t called = called_frames(thread.frames);
  const model::Frame* outer = nullptr;
  for (size_t i = 0; i < called; ++i) {
    outer = thread.frames[i].kind == model::FrameKind::python ? &thread.frames[i] : outer;
  }
  if (outer == nullptr || in_multiprocessing(thread.frames) ||
      !(outer->file.ends_with("/threading.py") || outer->file.ends_with("/queue.py") ||
        outer->file.ends_with("/concurrent/futures/_base.py"))) {
    return {};
  }
  const std::string_view type = std::string_view(outer->func).substr(0, outer->func.find('.'));
  const auto* it =
      std::find_if(std::begin(kObjects), std::end(kObjects), [&](const Object& o) { return o.type == type; });
  return it == std::end(kObjects) ? std::string_view() : it->name;
}

// Those that know the object that the thread waits for come first.
std::vector<const ThreadStack*> other_threads(const RankView& v) {
  std::vector<const ThreadStack*> out;
  for (const ThreadStack& t : v.stacks->threads) {
    if (!t.main && &t != v.thread) {
      out.push_back(&t);
    }
  }
  std::stable_partition(out.begin(), out.end(), [&](const ThreadStack* t) { return shares(*v.thread, *t); });
  return out;
}

}  // namespace

bool nobody_is_left(const RankView& v) {
  if (v.state != RankState::stuck || v.stacks == nullptr || v.thread == nullptr || !v.wait ||
      v.wait->kind != WaitKind::lock || v.stacks->status != model::DumpStatus::ok) {
    return false;
  }
  const auto& all = v.stacks->threads;
  const bool others = std::any_of(all.begin(), all.end(),
                                  [&](const ThreadStack& t) { return &t != v.thread && runs_python(t); });
  return !others && !awaited_object(*v.thread).empty();
}

std::string nobody_clause(const RankView& v) {
  return !nobody_is_left(v) ? std::string()
         : v.stacks->threads.size() == 1
             ? tr("; no other thread of the process is left that could end this wait")
             : tr("; no other thread of the process runs Python");
}

const ThreadStack* likely_setter(const RankView& v) {
  if (v.state != RankState::stuck || v.stacks == nullptr || v.thread == nullptr) {
    return nullptr;
  }
  const auto& all = v.stacks->threads;
  const auto it = std::find_if(all.begin(), all.end(), [&](const ThreadStack& t) {
    return shares(*v.thread, t) && called_frames(t.frames) < t.frames.size() &&
           owner_of(place_of(t.frames).file) == CodeOwner::user;
  });
  return it == all.end() ? nullptr : &*it;
}

bool lacks_task_done(const RankView& v) {
  return v.state == RankState::stuck && v.stacks != nullptr && v.thread != nullptr &&
         lacks_task_done(*v.stacks, *v.thread);
}

std::string thread_clause(const RankView& v) {
  if (lacks_task_done(v)) {
    return tr(
        "; the threads that take from it wait for its next item: task_done() was called less often than "
        "put()");
  }
  if (waits_for_own_pool(v)) {
    const auto pool = pool_of_waiters(*v.stacks);
    const std::string at = place(place_of(pool.front()->frames));
    return pool.size() == 1 ? tr("; the only thread of the pool {} waits for a future of its own, in {}",
                                 base::sanitize(pool_name(*pool.front())), at)
                            : tr("; all {} threads of the pool {} wait for futures of their own, in {}",
                                 pool.size(), base::sanitize(pool_name(*pool.front())), at);
  }
  if (v.state != RankState::stuck || v.stacks == nullptr || !v.wait || v.wait->kind != WaitKind::lock) {
    return {};
  }
  std::string out;
  std::set<std::string> reported;
  for (const ThreadStack* other : other_threads(v)) {
    const ThreadStack& t = *other;
    const bool knows = shares(*v.thread, t);
    const bool users = called_frames(t.frames) < t.frames.size();
    const model::CodeLocation where = users ? place_of(t.frames) : model::CodeLocation();
    const auto wait = find_wait(t.frames, {.idle = true});
    // A thread that waits for work is not the reason, unless the wait is part of a piece of work. A thread
    // that waits for other ranks makes its rank a waiting rank.
    const bool takes = wait && wait->what == "queue" && !where.callee.ends_with(".put");
    const bool idle =
        wait && (waits_for_peers(wait->kind) || (takes && user_frames(t.frames) < kFramesOfWork));
    if (idle || !users || owner_of(where.file) != CodeOwner::user || reported.size() == kMostThreadPlaces ||
        !reported.insert(place(where)).second) {
      continue;
    }
    const std::string_view object = knows ? awaited_object(*v.thread) : std::string_view();
    if (!object.empty()) {
      out += wait
                 ? tr("; its {}, which has that {} too, waits for a {} in {}", thread_words(t), tr(object),
                      tr(wait->what), place(where))
                 : tr("; its {}, which has that {} too, is in {}", thread_words(t), tr(object), place(where));
      continue;
    }
    if (const Import import = awaited_import(*v.stacks, t); import.thread == v.thread) {
      out += tr("; its {} waits in {} for the end of the import of {}, in which the rank waits",
                thread_words(t), place(where), base::sanitize(model::source_name(import.module->file)));
      continue;
    }
    out += wait ? tr("; its {} waits for a {} in {}", thread_words(t), tr(wait->what), place(where))
                : tr("; its {} is in {}", thread_words(t), place(where));
  }
  return out;
}

const model::PythonException* helper_exception(const Scene& scene, base::Rank rank, base::Pid pid,
                                               double from_s, double to_s) {
  // Of a process that was gone before it was seen, nothing else is known. A process of an executor whose
  // initializer has raised ends with status 0.
  const auto ended = [&](base::Pid one) {
    const auto& known = scene.facts.run.processes;
    const auto p = std::find_if(known.rbegin(), known.rend(), [&](const auto& r) { return r.pid == one; });
    return p == known.rend() || (p->role == model::ProcessRole::worker && p->death.happened);
  };
  const bool only = current_ranks(scene.facts.run).size() == 1;
  const auto& all = scene.facts.run.exceptions;
  const auto it = std::find_if(all.rbegin(), all.rend(), [&](const model::PythonException& x) {
    const bool of_rank = x.rank == rank || (only && x.rank == base::kNoRank);
    const double at_s = reported_at(x, scene.facts.run);
    return x.kind == model::ExceptionKind::raised && of_rank && x.pid != pid && !x.chain.empty() &&
           at_s >= from_s && at_s <= to_s && ended(x.pid);
  });
  return it == all.rend() ? nullptr : &*it;
}

std::optional<LostHelper> lost_helper(const Scene& scene, const RankView& v) {
  const bool may_wait =
      v.waits_locally() || (!v.wait && v.thread != nullptr && in_multiprocessing(v.thread->frames));
  // A rank that spins may wait for a word of memory that the process has not written.
  const bool spins = v.state == RankState::busy && !v.wait;
  if (!spins && (v.state != RankState::stuck || !may_wait)) {
    return std::nullopt;
  }
  const model::HelperDeath* death = spins ? nullptr : dead_helper(scene, v);
  const double until_s = scene.facts.dump ? scene.facts.dump->at_s : scene.facts.run.elapsed_s;
  const model::PythonException* exception = helper_exception(scene, v.rank, v.pid, 0, until_s);
  if (death != nullptr && exception != nullptr && death->pid != exception->pid) {
    // A process that has raised exits; of one that has only exited, the exception may not be known yet.
    const bool raised = death->status.exited() || death->at_s < exception->at_s;
    death = raised ? nullptr : death;
    exception = raised ? exception : nullptr;
  }
  if (death == nullptr && exception == nullptr) {
    return std::nullopt;
  }
  return LostHelper{.pid = death != nullptr ? death->pid : exception->pid,
                    .name = death != nullptr ? base::sanitize(death->name) : std::string(),
                    .death = death,
                    .exception = exception};
}

std::string lost_helper_clause(const Scene& scene, const RankView& v) {
  const auto lost = lost_helper(scene, v);
  if (!lost) {
    return {};
  }
  std::string how;
  if (lost->exception != nullptr) {
    how = raised_words(*lost->exception);
  } else {
    how = helper_end_words(scene, *lost->death);
  }
  const std::string place_and_time = tr(
      "; its {} (pid {}) {} {}", lost->name.empty() ? tr("process") : lost->name, lost->pid, how,
      moment_words(scene.facts.run, lost->exception != nullptr ? lost->exception->at_s : lost->death->at_s));
  if (lost->death == nullptr || lost->death->lost.empty()) {
    return place_and_time;
  }
  const bool several = lost->death->lost.find_first_of(",-") != std::string::npos;
  const std::string items = base::sanitize(lost->death->lost);
  return place_and_time + (several ? tr("; with it, items {} of {} are lost", items, lost->death->items)
                                   : tr("; with it, item {} of {} is lost", items, lost->death->items));
}

namespace {

// A shell waits for its command, so that the command decides.
bool waits_for_another(const std::vector<HelperObservation>& all, const HelperObservation& h) {
  const bool in_wait = base::kind_of_name(h.syscall) == base::CallKind::child;
  return in_wait && std::any_of(all.begin(), all.end(), [&](const HelperObservation& other) {
           return other.awaited && other.parent == h.pid;
         });
}

// "sh (pid 77)"; empty for a process that the rank itself has started.
std::string started_by(const RankView& v, const HelperObservation& h) {
  const auto& all = v.seen->helpers;
  const auto it =
      std::find_if(all.begin(), all.end(), [&](const HelperObservation& p) { return p.pid == h.parent; });
  return it == all.end() || it->name.empty() ? std::string()
                                             : tr("{} (pid {})", base::sanitize(it->name), it->pid);
}

}  // namespace

std::optional<HelperPlace> awaited_helper(const Scene& scene, const RankView& v) {
  const bool elsewhere = v.wait && !v.waits_locally();
  if (v.state != RankState::stuck || v.seen == nullptr || elsewhere) {
    return std::nullopt;
  }
  const bool local = v.waits_locally();
  std::optional<HelperPlace> at_least;
  for (const HelperObservation& h : v.seen->helpers) {
    if ((!local && !h.awaited) || waits_for_another(v.seen->helpers, h)) {
      continue;
    }
    const model::ProcessStacks* stacks = stacks_of(scene, v, h.pid);
    if (auto where = place_as_seen(stacks, h); !where.function.empty()) {
      const bool little = says_little(where);
      HelperPlace here{.pid = h.pid, .where = std::move(where), .still_s = h.still_s, .stacks = stacks};
      if (!little) {
        return here;
      }
      at_least = at_least ? std::move(at_least) : std::move(here);
    }
    if (h.awaited && !h.python && !h.name.empty()) {
      return HelperPlace{.pid = h.pid,
                         .where = {},
                         .still_s = h.still_s,
                         .name = base::sanitize(h.name),
                         .reads_input = h.reads_input,
                         .seen = &h,
                         .below = started_by(v, h)};
    }
  }
  // Only a few processes are observed.
  return at_least || !local ? std::move(at_least) : helper_by_stacks(scene, v);
}

std::string helper_clause(const Scene& scene, const RankView& v) {
  const auto helper = awaited_helper(scene, v);
  if (!helper) {
    return {};
  }
  const std::string what = v.wait && v.wait->kind == WaitKind::helper ? tr(v.wait->what) : tr("process");
  if (helper->reads_input) {
    return tr("; its {} {} (pid {}) has waited for its standard input for {}", what, helper->name,
              helper->pid, seconds_words(helper->still_s));
  }
  if (!helper->name.empty()) {
    const std::string call = program_call_words(scene, v, *helper->seen);
    return helper->below.empty()
               ? tr("; its {} {} (pid {}) has made no progress for {}{}", what, helper->name, helper->pid,
                    seconds_words(helper->still_s), call)
               : tr("; its {} {} (pid {}), which {} has started, has made no progress for {}{}", what,
                    helper->name, helper->pid, helper->below, seconds_words(helper->still_s), call);
  }
  std::string held = helper->stacks != nullptr ? shared_lock_words(scene, *helper->stacks) : std::string();
  if (held.empty() && helper->stacks != nullptr) {
    held = fork_words(scene, *helper->stacks);
  }
  return (helper->still_s < 0 ? tr("; its {} pid {} is in {}", what, helper->pid, place(helper->where))
                              : tr("; its {} pid {} has been in {} for {}", what, helper->pid,
                                   place(helper->where), seconds_words(helper->still_s))) +
         held;
}

namespace {

// The ranks that wait for this rank have been still for the timeout; the rank itself was seen to work since
// then. Where somebody cannot wait for the timeout, less is enough. A lock of its own never comes free.
bool moved_lately(const Scene& scene, const RankView& v) {
  const bool by_stillness = (v.state == RankState::stuck && !v.holds_its_own_lock() && !v.in_vain) ||
                            v.state == RankState::uninterruptible;
  return by_stillness && scene.facts.dump &&
         scene.facts.dump->hang_timeout_s >= scene.facts.run.hang_timeout_s && v.still_share < 1;
}

bool all_moved_lately(const Scene& scene, const model::RankSet& ranks) {
  return !ranks.empty() && !escalated(scene) &&
         std::none_of(scene.ranks.begin(), scene.ranks.end(),
                      [&](const RankView& v) { return ranks.contains(v.rank) && !moved_lately(scene, v); });
}

}  // namespace

void doubt_stall(const Scene& scene, model::Verdict& verdict) {
  if (verdict.kind != model::VerdictKind::hang || verdict.level != model::VerdictLevel::confirmed) {
    return;
  }
  size_t culprits = 0;
  size_t idle = 0;
  size_t stirring = 0;
  for (const RankView& v : scene.ranks) {
    if (verdict.ranks.contains(v.rank)) {
      ++culprits;
      idle += idles(v) ? 1 : 0;
      stirring += helpers_stir(v) ? 1 : 0;
    }
  }
  const bool has_peers = !scene.in({RankState::waiting}).empty();
  const bool counts = scene.facts.dump && scene.facts.dump->idle_counts;
  const bool at_terminal = std::any_of(scene.ranks.begin(), scene.ranks.end(), [&](const RankView& v) {
    return verdict.ranks.contains(v.rank) && idles(v) && v.seen->outside == OutsideWait::terminal;
  });
  const bool alone = !has_peers && poll_circle(scene).empty();
  const bool doubted_idle = idle == culprits && (alone || at_terminal) && !counts;
  const bool doubted_helpers = stirring == culprits && !escalated(scene);
  if (culprits == 0 || !(doubted_idle || doubted_helpers || all_moved_lately(scene, verdict.ranks))) {
    return;
  }
  verdict.level = model::VerdictLevel::suspected;
  verdict.confidence = model::Confidence::low;
  if (!verdict.headline.empty()) {
    say(verdict, verdict.headline);
  }
  if (doubted_idle && culprits == 1 && !verdict.next.text.empty()) {
    return;  // the cure of this wait
  }
  verdict.next.text = at_terminal    ? verdict.next.text
                      : doubted_idle ? tr("if this wait is not intended, run with --hang-idle")
                                     : raise_timeout_words(scene.facts.run.hang_timeout_s);
}

void offer_busy_timeouts(const Scene& scene, model::Verdict& verdict) {
  const bool work =
      verdict.kind == model::VerdictKind::hang && verdict.level == model::VerdictLevel::suspected &&
      std::any_of(scene.ranks.begin(), scene.ranks.end(),
                  [&](const RankView& v) { return verdict.ranks.contains(v.rank) && !idles(v); });
  // Where nothing works, the stall is confirmed without the option, after kStillTimeouts, and ranks that
  // moved lately are judged again after the timeout.
  const bool ends_without = (verdict.id == kHangLongCall && verdict.state == RankState::stuck) ||
                            all_moved_lately(scene, verdict.ranks);
  const bool goes_on = scene.facts.run.outcome == model::RunOutcome::running;
  if (work && !ends_without && goes_on && !verdict.headline.empty() && needs_busy_timeouts(scene.facts.run)) {
    say(verdict,
        verdict.headline + tr("; the job goes on, because this may be work (--busy-timeouts N ends it after "
                              "N timeouts)"));
  }
}

}  // namespace xpurun::report
