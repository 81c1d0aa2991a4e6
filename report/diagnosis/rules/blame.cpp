#include "report/diagnosis/rules/blame.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/ends/exceptions.h"
#include "report/diagnosis/helpers.h"
#include "report/diagnosis/holders.h"
#include "report/diagnosis/memory/memory_words.h"
#include "report/diagnosis/memory/page_faults.h"
#include "report/diagnosis/own_waits.h"
#include "report/diagnosis/rank_exceptions.h"
#include "report/diagnosis/rules/last_place.h"
#include "report/diagnosis/rules/storage.h"
#include "report/diagnosis/vocabulary.h"
#include "report/diagnosis/waits/async_waits.h"
#include "report/diagnosis/waits/code_place.h"
#include "report/diagnosis/waits/thread_waits.h"
#include "report/diagnosis/waits/wait_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sys/wait.h>

namespace xpurun::report {

using base::tr;
using model::Confidence;
using model::RankSet;
using model::Verdict;
using model::VerdictLevel;

double longest(const Views& views) {
  double s = 0;
  for (const RankView* v : views) {
    s = std::max(s, v->seconds);
  }
  return s;
}

bool exited_cleanly(const Scene& scene, const RankView& v) {
  const Ending* e = scene.ending_of(v);
  return (v.seen != nullptr && !v.seen->alive && v.seen->wait_status.succeeded()) ||
         (e != nullptr && !e->failed());
}

namespace {

base::WaitStatus status_of(const RankView& v) {
  if (v.seen != nullptr && v.seen->wait_status.known()) {
    return v.seen->wait_status;
  }
  return v.record != nullptr && v.record->death.happened ? v.record->death.wait_status : base::WaitStatus();
}

std::string death_words(const Scene& scene, const RankView& v) {
  const Ending* e = scene.ending_of(v);
  const std::string call = e != nullptr && e->signal == 0 ? exit_call_words(*e) : std::string();
  if (exited_cleanly(scene, v)) {
    return tr("left early ({})", call.empty() ? tr("exit status 0") : call);
  }
  if (e != nullptr) {
    return call.empty() ? how_it_ended(*e) : call;
  }
  const base::WaitStatus status = status_of(v);
  Ending seen{.known = status.known()};
  seen.signal = status.signal();
  seen.exit_code = status.exited() ? status.exit_code() : seen.exit_code;
  return how_it_ended(seen);
}

constexpr size_t kMostLockWaits = 2;

// "thread 105 (poller) holds the GIL in usleep (libc.so.6), called by hold (train.py:9)"
std::string gil_words(const RankView& v) {
  const std::string function = innermost_native(v.gil_holder->frames);
  const std::string caller = place(place_of(v.gil_holder->frames));
  return tr("{} holds the GIL in {}", thread_words(*v.gil_holder),
            function.empty() ? caller : tr("{}, called by {}", function, caller));
}

// Two threads of a process that both wait for a lock: ": thread 100 (MainThread) waits in a (x.py:3:
// b.acquire), thread 105 (Thread-1) in b (x.py:9: a.acquire), each perhaps for a lock that the other holds".
std::string lock_words(const RankView& v) {
  if (v.in_acquire.size() < 2) {
    return {};
  }
  std::string out;
  for (size_t i = 0; i < kMostLockWaits; ++i) {
    const model::ThreadStack& t = *v.in_acquire[i];
    out += fmt::format("{}{} {} {}", i == 0 ? tr(": ") : tr(", "), thread_words(t),
                       i == 0 ? tr("waits for a lock in") : tr("in"), place(place_of(t.frames)));
  }
  const model::ThreadStack& one = *v.in_acquire[0];
  const model::ThreadStack& other = *v.in_acquire[1];
  const bool certain = one.lock.kind == "lock" && other.lock.kind == "lock" && one.lock.tid == other.tid &&
                       other.lock.tid == one.tid;
  return out + (certain ? tr(", each for a lock that the other holds")
                        : tr(", each perhaps for a lock that the other holds"));
}

std::string main_place(const model::ProcessStacks& p) {
  const model::ThreadStack* t = p.main_thread();
  return place(t != nullptr ? place_of(t->frames) : model::CodeLocation{});
}

// Where the program of an event loop waits; else where the loop is run.
std::string loop_place(const model::ProcessStacks& p) {
  const auto tasks = last_tasks(p);
  return tasks.empty() ? main_place(p) : place(place_of(*tasks.front()));
}

// ": its child (pid 77) cannot write to a full pipe in main (child.py:2: print), and the rank does not read"
std::string pipe_words(const RankView& v) {
  if (v.full_program != nullptr) {
    return tr(": its child {} (pid {}) cannot write to a full pipe, and the rank does not read",
              base::sanitize(v.full_program->name), v.full_program->pid);
  }
  if (v.full_pipe == v.stacks) {
    return waits_for_child(*v.pipe_reader) ? tr(": it cannot write to a full pipe while its parent (pid {}) "
                                                "waits for its end in {} and does "
                                                "not read",
                                                v.pipe_reader->pid, main_place(*v.pipe_reader))
                                           : tr(": it cannot write to a full pipe while its parent (pid {}) "
                                                "stands in {} and does not read",
                                                v.pipe_reader->pid, main_place(*v.pipe_reader));
  }
  return tr(": its child (pid {}) cannot write to a full pipe in {}, and the rank does not read",
            v.full_pipe->pid, main_place(*v.full_pipe));
}

// The kernel killed the process that the rank waits for, for lack of memory; null: it did not.
const model::KernelEvent* oom_of_lost_helper(const Scene& scene, const RankView& v) {
  const auto lost = lost_helper(scene, v);
  return lost && lost->death != nullptr && v.record != nullptr
             ? oom_kill_of(scene.facts.kernel, v.record->node, lost->death->pid, lost->death->at_s)
             : nullptr;
}

// The target of a wait inside the rank: a full pipe, locks of two threads, the position of the rank's helper,
// or else, of a rank alone, those of its threads.
std::string own_wait_words(const Scene& scene, const RankView& v, bool alone) {
  if (v.wait && v.wait->kind == WaitKind::input) {
    return {};
  }
  if (v.cut_off()) {
    return pipe_words(v);
  }
  if (v.thread != nullptr && asks_name_server(v.thread->frames)) {
    return tr(": it waits for an answer of the name server");
  }
  std::string words = holder_words(scene, v);
  if (words.empty() && v.wait) {
    words = lock_words(v);
  }
  if (words.empty()) {
    words = lost_helper_clause(scene, v);
    const model::KernelEvent* oom = oom_of_lost_helper(scene, v);
    words += oom != nullptr ? out_of_memory_words(*oom) : std::string();
  }
  if (words.empty()) {
    words = ended_workers_clause(scene, v);
  }
  if (words.empty()) {
    words = lost_task_clause(scene, v);
  }
  if (words.empty()) {
    words = helper_clause(scene, v);
  }
  if (words.empty() && v.at_work != nullptr) {
    words = tr(" in its {}, while its main thread runs the loop in {}", thread_words(*v.at_work),
               loop_place(*v.stacks));
  }
  if (words.empty() && v.thread != nullptr && v.stacks != nullptr) {
    words = async_clause(*v.stacks, *v.thread);
  }
  words = words.empty() && alone ? thread_clause(v) : words;
  return words + poll_clause(scene, v) + fifo_clause(scene, v) + full_pipe_clause(scene, v) +
         (words.empty() ? lonely_pipe_clause(v) : "") + storage_clause(scene, v);
}

// ", in a signal handler that has interrupted save (train.py:12)", ", at the end of the program". Empty in
// the course of the program.
std::string occasion_words(const model::ThreadStack& thread) {
  if (const auto frames = interrupted_frames(thread); !frames.empty()) {
    return tr(", in a signal handler that has interrupted {}", place(place_of(frames)));
  }
  return is_finalising(thread) && runs_python(thread) ? tr(", at the end of the program") : std::string();
}

// "has been in load_batch (train.py:31: time.sleep) for 10 s"
std::string predicate(const Scene& scene, const Group& group, double waited) {
  const RankView& v = *group.views.front();
  const size_t n = group.views.size();
  const std::string at = place(v.where);
  const std::string how_long = seconds_words(longest(group.views));
  if (v.gil_holder != nullptr && (group.state == RankState::stuck || group.state == RankState::busy)) {
    return tr(
        "{} not run Python for {}: {}", pick({"has", "have"}, n),
        group.state == RankState::busy ? seconds_words(std::max(waited, longest(group.views))) : how_long,
        gil_words(v));
  }
  switch (group.state) {
    case RankState::dead:
      return tr("{} {} ago", death_words(scene, v), how_long);
    case RankState::stopped:
      if (v.frozen) {
        return tr("{} been frozen with control group {} in {} for {}", pick({"has", "have"}, n),
                  base::sanitize(v.thread->target), at, how_long);
      }
      return v.debugged ? tr("{} held by a debugger in {} for {}", pick({"is", "are"}, n), at, how_long)
                        : tr("{} stopped (SIGSTOP) in {} for {}", pick({"is", "are"}, n), at, how_long);
    case RankState::uninterruptible:
      return tr("{} been blocked in the kernel (uninterruptible) in {} for {}{}", pick({"has", "have"}, n),
                at, how_long, storage_clause(scene, v) + page_fault_clause(scene, v));
    case RankState::silent:
      return tr("{} no sign of life: {}", pick({"gives", "give"}, n),
                v.silent_reason.empty() ? tr("no stack could be read")
                                        : tr("no stack could be read ({})", base::sanitize(v.silent_reason)));
    case RankState::busy:
      return (escalated(scene)
                  ? tr("{} been busy in {} for {}", pick({"has", "have"}, n), at, seconds_words(waited))
                  : tr("{} still working in {} after {}", pick({"is", "are"}, n), at,
                       seconds_words(waited))) +
             caught_clause(scene, v) + poll_clause(scene, v) + lost_helper_clause(scene, v) +
             page_fault_clause(scene, v);
    case RankState::stuck:
    case RankState::waiting:
    case RankState::none:
      break;
  }
  if (const model::ThreadStack* last = last_thread(v); last != nullptr) {
    return tr("{} ended its program {} ago and waits for its {}, which is in {}", pick({"has", "have"}, n),
              how_long, thread_words(*last), at);
  }
  const std::string occasion = v.thread != nullptr ? occasion_words(*v.thread) : std::string();
  const std::string raised = exception_clause(scene, v);
  const std::string own = own_wait_words(scene, v, n == 1);
  const std::string details =
      occasion + raised + own + (raised.empty() && own.empty() && n == 1 ? nobody_clause(v) : "");
  if (v.wait) {
    return tr("{} been waiting for a {} in {} for {}{}", pick({"has", "have"}, n), tr(v.wait->what), at,
              how_long, details);
  }
  if (v.thread != nullptr && v.thread->circles) {
    return tr("{} spun in {} for {}", pick({"has", "have"}, n), at, how_long);
  }
  return tr("{} been in {} for {}{}", pick({"has", "have"}, n), at, how_long, details);
}

// A lock of the rank or of its process, in a title.
std::string lock_title(const Scene& scene, const RankView& v, const std::string& who) {
  const bool in_handler =
      v.thread != nullptr && acquires_lock(*v.thread) && !interrupted_frames(*v.thread).empty();
  if (v.holds_its_own_lock()) {
    return in_handler ? tr("{} waits in a signal handler for a lock that it holds itself", who)
                      : tr("{} waits for a lock that it holds itself", who);
  }
  if (in_handler) {
    return tr("{} waits for a lock in a signal handler", who);
  }
  if (v.thread != nullptr && v.stacks != nullptr && loop_waits(*v.thread) && v.at_work == nullptr) {
    const auto& tasks = v.stacks->tasks;
    return std::any_of(tasks.begin(), tasks.end(),
                       [&](const auto& t) { return in_lock_circle(*v.stacks, t); })
               ? tr("tasks of {} wait for each other's locks", who)
               : std::string();
  }
  if (const model::ThreadStack* out = v.thread != nullptr && v.stacks != nullptr && v.waits_locally()
                                          ? locked_out_by(*v.stacks, *v.thread)
                                          : nullptr;
      out != nullptr) {
    return tr("{} waits for {}, which waits for a lock that the rank holds", who, thread_words(*out));
  }
  const auto helper = awaited_helper(scene, v);
  const bool forked = helper && helper->stacks != nullptr && !fork_words(scene, *helper->stacks).empty();
  return forked ? tr("a process of {} waits for a lock that was held when it was forked", who)
                : std::string();
}

// Where the place alone says too little, what the rank waits for; else empty.
std::string title_words(const Scene& scene, const Group& group) {
  const RankView& v = *group.views.front();
  if (v.frozen) {
    return group.views.size() == 1 ? tr("{} is frozen with its control group", scene.names({v.rank}))
                                   : tr("{} ranks are frozen with their control group", group.views.size());
  }
  if (group.views.size() > 1 || group.state != RankState::stuck) {
    return {};
  }
  const std::string who = scene.names({v.rank});
  if (v.cut_off()) {
    return v.full_pipe == v.stacks ? tr("{} cannot write to a full pipe, and its parent waits", who)
                                   : tr("{} waits, and its child cannot write to a full pipe", who);
  }
  if (lacks_task_done(v)) {
    return tr("{} waits for a task_done() that was left out", who);
  }
  if (oom_of_lost_helper(scene, v) != nullptr) {
    return tr("{} waits for a process that was killed (out of memory)", who);
  }
  return lock_title(scene, v, who);
}

void say_culprits(const Scene& scene, Verdict& v, const std::vector<Group>& groups, double waited) {
  const std::string waits = waiting_clause(v.waiting, v.ranks.size());
  say(v, culprit_clauses(scene, groups, waited) + (waits.empty() ? "" : tr("; ") + waits));
}

model::NextStep advice(const Scene& scene, const Group& group) {
  const RankView& v = *group.views.front();
  if (auto storage = storage_advice(scene, v); !storage.empty()) {
    return storage;
  }
  if (auto own = own_wait_advice(scene, v); !own.empty()) {
    return own;
  }
  switch (group.state) {
    case RankState::dead:
      if (const Ending* e = scene.ending_of(v); e != nullptr && e->raised()) {
        return {.text = advice_on(*e->exception)};
      }
      return {.text = tr("read the end of rank {}'s log to see why it left", v.rank)};
    case RankState::stopped:
      if (v.frozen) {
        return thaw_advice(*v.thread);
      }
      return v.debugged
                 ? model::NextStep{.text = tr("let the debugger of pid {} continue the process", v.pid)}
                 : model::NextStep{.command = fmt::format("kill -CONT {}", v.pid)};
    case RankState::uninterruptible:
      if (!page_fault_clause(scene, v).empty()) {
        return {.text = page_fault_advice()};
      }
      return {.text = tr("check the file system or device that rank {} uses", v.rank),
              .command = "dmesg | tail"};
    case RankState::silent:
      if (v.pid == 0) {
        return {.text = tr("check host {}: is it up, and is its xpurun running?", base::sanitize(v.host))};
      }
      return {.command = fmt::format("gdb -p {} -batch -ex 'thread apply all bt'", v.pid)};
    case RankState::busy:
      if (!page_fault_clause(scene, v).empty()) {
        return {.text = page_fault_advice()};
      }
      if (!escalated(scene) && !lost_helper(scene, v)) {
        return {.text = raise_timeout_words(scene.facts.run.hang_timeout_s)};
      }
      break;
    case RankState::stuck:
    case RankState::waiting:
    case RankState::none:
      break;
  }
  if (v.gil_holder != nullptr) {
    return {.text = tr("release the GIL around the C call in {} on rank {}, or find out why it does not "
                       "return",
                       place(v.where), v.rank)};
  }
  const bool queue = v.full_pipe != nullptr &&
                     std::any_of(v.full_pipe->threads.begin(), v.full_pipe->threads.end(), [](const auto& t) {
                       return writes_to_full_pipe(t) && in_multiprocessing(t.frames);
                     });
  if (queue) {
    return {
        .text = tr(
            "take everything from the queue before join(): a process ends only when its queues are written")};
  }
  if (v.thread != nullptr && asks_name_server(v.thread->frames)) {
    return {.text = tr("check the name service of the host of rank {}: the name servers of /etc/resolv.conf, "
                       "and whether they can be reached",
                       v.rank)};
  }
  if (v.cut_off()) {
    return {.text = tr(
                "read the child's output before waiting for its end: subprocess's communicate() does both")};
  }
  if (const auto lost = lost_helper(scene, v); lost && lost->exception != nullptr) {
    return {.text =
                tr("mend the exception in the process that rank {} waits for; concurrent.futures raises it "
                   "in the rank, instead of a wait without end",
                   v.rank)};
  } else if (const model::KernelEvent* oom = oom_of_lost_helper(scene, v); oom != nullptr) {
    return advice_on_memory(oom->memory_limit);
  } else if (lost) {
    return {.text = tr("the work of the dead process is lost: find out why it died, and use "
                       "concurrent.futures, which raises then"),
            .command = "dmesg | grep -i 'killed process'"};
  }
  if (waits_for_own_pool(v)) {
    return {
        .text = tr(
            "give the tasks that others wait for a pool of their own: a task that waits for another one of "
            "its pool keeps the thread that this one needs")};
  }
  if (v.in_acquire.size() > 1) {
    return {.text = tr("take the locks in the same order in all threads")};
  }
  if (v.wait && v.wait->kind == WaitKind::kernel) {
    return {.text =
                tr("find the kernel that does not end: with CUDA_LAUNCH_BLOCKING=1 the rank stands in the "
                   "line that launches the kernel")};
  }
  if (v.wait && v.wait->kind == WaitKind::lock && v.where.callee.ends_with(".put")) {
    return {.text = tr("the queue is full: find out why no consumer takes from it, after {} on rank {}",
                       place(v.where), v.rank)};
  }
  if (last_thread(v) != nullptr) {
    return {.text = tr("end that thread before the program ends, or make it a daemon thread")};
  }
  if (v.thread != nullptr && acquires_lock(*v.thread) && !interrupted_frames(*v.thread).empty()) {
    return {.text = tr(
                "take no lock in a signal handler: the code that it interrupts may hold the lock; set a flag "
                "there, and act on the flag in the program")};
  }
  const auto helper = awaited_helper(scene, v);
  if (const std::string cure = holder_advice(scene, v, helper ? helper->stacks : nullptr); !cure.empty()) {
    return {.text = cure};
  }
  if (v.thread != nullptr && v.wait && blocks_loop(*v.thread)) {
    return {.text =
                tr("await the result (asyncio.wrap_future), or wait in another thread (asyncio.to_thread)")};
  }
  if (v.thread != nullptr && stops_own_server(*v.thread)) {
    return {.text = tr("call shutdown() of the server in another thread than that of serve_forever()")};
  }
  if (helper && helper->seen != nullptr && v.wait && v.wait->kind == WaitKind::helper) {
    return {.text =
                tr("find out what {} (pid {}) waits for, or give the call a time limit: subprocess.run(..., "
                   "timeout=...)",
                   helper->name, helper->pid)};
  }
  if (model::NextStep cure = poll_advice(v); !cure.text.empty()) {
    return cure;
  }
  if (const std::string hidden = hidden_type(scene, v); !hidden.empty()) {
    return {.text =
                tr("find out why {} is raised: a loop that catches it and goes on hides the reason", hidden)};
  }
  if (v.waits_locally() && exception_clause(scene, v).starts_with(tr("; "))) {
    return {.text = tr(
                "mend the exception of that thread, and let the thread report its end to who waits for it")};
  }
  if (const model::ThreadStack* setter = v.waits_locally() ? likely_setter(v) : nullptr; setter != nullptr) {
    return {.text = tr("find out why {} does not end the wait of rank {}, or wait with a time limit",
                       thread_words(*setter), v.rank)};
  }
  if (nobody_is_left(v)) {
    return {.text = tr(
                "find out which thread should have ended the wait and has ended before, or wait with a time "
                "limit")};
  }
  if (const std::string handled = v.state == RankState::stuck ? handled_type(v) : ""; !handled.empty()) {
    return {.text = tr("mend {} first: what hangs is the code that runs after it", handled)};
  }
  const model::CodeLocation& where = helper && !helper->where.empty() ? helper->where : v.where;
  if (where.target.starts_with('/')) {
    return {.text = tr("see whether the path answers"),
            .command = "timeout 5 stat " + base::shell_quote(base::sanitize(where.target))};
  }
  return {};  // the stacks of all threads, where there is a dump
}

Blamed finding_of(const Scene& scene, const Group& worst, size_t waiting) {
  const RankView& v = *worst.views.front();
  const Confidence by_stacks = v.stacks != nullptr ? Confidence::high : Confidence::medium;
  switch (worst.state) {
    case RankState::dead: {
      const bool peace = std::all_of(worst.views.begin(), worst.views.end(),
                                     [&](const RankView* d) { return exited_cleanly(scene, *d); });
      // If most ranks have left, the remaining ones may simply have had more work.
      const bool most_left = worst.views.size() >= waiting;
      return {.id = peace ? kHangLeftEarly : kHangDead,
              .confidence = peace && most_left ? Confidence::medium : Confidence::high};
    }
    case RankState::stopped:
      return {.id = kHangStopped};
    case RankState::uninterruptible:
      return {.id = kHangUninterruptible};
    case RankState::silent:
      return {.id = kHangSilent, .confidence = Confidence::low};
    case RankState::busy:
      return {.id = kHangBusy,
              .level = escalated(scene) ? VerdictLevel::confirmed : VerdictLevel::suspected,
              .confidence = escalated(scene) ? by_stacks : Confidence::medium};
    case RankState::stuck:
    case RankState::waiting:
    case RankState::none:
      break;
  }
  const bool lock = v.wait && v.wait->kind != WaitKind::kernel && v.wait->kind != WaitKind::input;
  const bool kernel = v.wait && v.wait->kind == WaitKind::kernel;
  return {.id = lock ? kHangLock : kernel ? kHangKernel : kHangStuck, .confidence = by_stacks};
}

}  // namespace

std::vector<Group> group_culprits(const Scene& scene, const Views& culprits) {
  std::map<std::pair<RankState, std::string>, Group> groups;
  for (const RankView* v : culprits) {
    std::string detail = v->state == RankState::dead ? death_words(scene, *v) : place(v->where);
    // The details of one rank's threads must not stand for another rank's.
    detail += v->gil_holder != nullptr ? " GIL" : v->cut_off() ? " pipe" : lock_words(*v);
    detail += exception_clause(scene, *v);
    Group& g = groups[{v->state, detail}];
    g.state = v->state;
    g.views.push_back(v);
  }
  std::vector<Group> out;
  out.reserve(groups.size());
  for (auto& [key, g] : groups) {
    out.push_back(std::move(g));
  }
  std::stable_sort(out.begin(), out.end(), [](const Group& a, const Group& b) {
    return a.state != b.state ? a.state < b.state : a.views.front()->rank < b.views.front()->rank;
  });
  return out;
}

std::string culprit_clauses(const Scene& scene, const std::vector<Group>& groups, double waited) {
  std::string out;
  RankSet rest;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i >= kMostClauses) {
      rest.insert(ranks_of(groups[i].views));
      continue;
    }
    out += tr("{}{} {}", i == 0 ? "" : tr(", and "), scene.names(ranks_of(groups[i].views)),
              predicate(scene, groups[i], waited));
  }
  return rest.empty() ? out : tr("{}, and so {} elsewhere", out, rank_words(rest));
}

Verdict begin_hang(const Scene& scene, const Blamed& finding, const std::vector<Group>& groups,
                   const Views& waiting) {
  Verdict v;
  v.id = finding.id;
  v.kind = model::VerdictKind::hang;
  v.level = finding.level;
  v.confidence = finding.confidence;
  v.dump = scene.facts.dump_dir;
  for (const Group& g : groups) {
    v.ranks.insert(ranks_of(g.views));
  }
  if (!groups.empty()) {
    const RankView& first = *groups.front().views.front();
    v.state = first.state;
    v.host = first.host;
    v.pid = first.pid;
    const auto helper = awaited_helper(scene, first);
    v.where = helper && !helper->where.empty() ? helper->where : first.where;
    v.seconds = longest(groups.front().views);
    if (first.state == RankState::dead) {
      const base::WaitStatus status = status_of(first);
      const Ending* e = scene.ending_of(first);
      v.signal = e != nullptr ? e->signal : status.signal();
      v.exit_code = e != nullptr ? e->exit_code : status.exit_code();
      if (e != nullptr && (v.where.empty() || e->exception != nullptr)) {
        v.where = where_it_ended(scene, *e);
      }
    }
  }
  v.waiting = waiting_groups(waiting);
  return v;
}

void accuse_nobody(Verdict& v) {
  v.ranks = {};
  v.host.clear();
  v.pid = 0;
  v.where = {};
}

Verdict blame(const Scene& scene, const Views& culprits, const Views& waiting) {
  const auto groups = group_culprits(scene, culprits);
  Blamed finding = finding_of(scene, groups.front(), waiting.size());
  for (const Group& g : groups) {
    // The lowest rank number must not decide between a lock and another wait.
    const bool same_state = g.state == groups.front().state;
    if (same_state && finding_of(scene, g, waiting.size()).id != finding.id) {
      finding.id = kHangStuck;
    }
  }
  Verdict v = begin_hang(scene, finding, groups, waiting);
  const double waited = std::max(
      longest(waiting), groups.front().state == RankState::busy && waiting.empty() ? longest(culprits) : 0.0);
  if (groups.front().state == RankState::busy) {
    v.seconds = waited;
  }
  say_culprits(scene, v, groups, waited);
  v.title = groups.size() == 1 ? title_words(scene, groups.front()) : std::string();
  v.next = advice(scene, groups.front());
  return v;
}

}  // namespace xpurun::report
