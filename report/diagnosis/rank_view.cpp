#include "report/diagnosis/rank_view.h"

#include "common/base/tr.h"
#include "common/model/stacks/frozen.h"
#include "report/diagnosis/collectives/analysis.h"
#include "report/diagnosis/waits/async_waits.h"
#include "report/diagnosis/waits/code_place.h"
#include "report/diagnosis/waits/thread_waits.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace xpurun::report {

using model::ProcessRecord;
using model::ThreadStack;

namespace {

constexpr double kBusyCpuShare = 0.1;  // of one core; ranks may share cores, a stuck thread uses none
// A loop on a host with many more runnable threads than cores gets little CPU, but always wants the CPU. A
// thread that sleeps between short polls waits for a CPU now and then.
constexpr double kReadyShare = 0.5;
constexpr double kBusyIoBytesPerSecond = 1 << 20;  // a checkpoint being written does more, logging less
// A rank whose position changed within this part of the timeout was working, not still.
constexpr double kMovedShare = 0.5;

std::string known_or(const std::string& value, const std::string& fallback) {
  return value.empty() ? fallback : value;
}

bool uses_cpu(const RankView& v) {
  return v.seen != nullptr && (v.seen->main_cpu_share >= kBusyCpuShare ||
                               v.seen->main_cpu_share + v.seen->main_queue_share >= kReadyShare);
}

// The main thread comes back to the same state again and again, and no other thread of the process works.
bool goes_nowhere(const RankView& v) {
  return v.thread != nullptr && v.thread->circles &&
         (v.seen == nullptr || v.seen->cpu_share - v.seen->main_cpu_share < kBusyCpuShare);
}

bool is_busy(const RankView& v) {
  const bool nowhere = goes_nowhere(v);
  if (v.seen == nullptr) {
    return v.thread != nullptr && v.thread->state == 'R' && !nowhere;
  }
  if (v.wait && v.wait->kind == WaitKind::kernel) {
    return false;  // CUDA spins while it waits
  }
  if ((uses_cpu(v) && !nowhere) || v.seen->io_bytes_per_s >= kBusyIoBytesPerSecond) {
    return true;
  }
  if (v.seen->helper_life == model::HelperLife::working) {
    return true;
  }
  // The rank waits for its own threads, which work.
  if ((v.waits_locally() || v.gil_holder != nullptr) && v.seen->cpu_share >= kBusyCpuShare &&
      !v.holds_its_own_lock()) {
    return true;
  }
  return v.moved;
}

double still_share(const RankView& v, double timeout_s) {
  const bool known = v.seen != nullptr && v.seen->alive && timeout_s > 0;
  return known ? std::min(v.seen->still_s / timeout_s, 1.0) : 1.0;
}

char kernel_state(const RankView& v) {
  const char seen = v.seen != nullptr ? v.seen->state : '?';
  const char stack = v.thread != nullptr && v.thread->main ? v.thread->state : '?';
  // State D passes quickly in a healthy process. If both the poll and the dump have a state, both must agree.
  if (seen == 'D' && stack != '?' && stack != 'D') {
    return stack;
  }
  return seen == '?' ? stack : seen;
}

bool is_autograd_thread(const ThreadStack& t) {
  return t.comm.starts_with("pt_autograd");
}

// Finds the wait of the thread that trains, usually the main thread. If the main thread only waits for
// another thread of the process (a trainer thread, the autograd engine), that thread counts.
void find_thread_and_wait(RankView& v) {
  v.thread = v.stacks->main_thread();
  if (v.thread == nullptr) {
    return;
  }
  // A thread that waits for the GIL is passive: the thread that holds the GIL decides.
  v.gil_holder = gil_holder(*v.stacks, *v.thread);
  if (v.gil_holder != nullptr) {
    v.thread = v.gil_holder;
    const auto wait = find_wait(v.thread->frames, {.idle = false});
    if (wait && waits_for_peers(wait->kind)) {
      v.wait = wait;
    }
    return;
  }
  const WaitQuery query{.idle = !uses_cpu(v), .launches = v.calls_nothing};
  v.wait = find_wait(v.thread->frames, query);
  if (v.wait) {
    refine_by_kernels(*v.wait, v.stacks->gpu_kernels);
    if (v.wait->kind == WaitKind::input && v.seen != nullptr &&
        v.seen->outside == model::OutsideWait::terminal) {
      v.wait->what = base::later("line at the terminal");
    }
  }
  const bool in_autograd = std::any_of(v.thread->frames.begin(), v.thread->frames.end(), [](const auto& f) {
    return f.func.starts_with("torch::autograd::Engine") || f.func.starts_with("torch::autograd::python");
  });
  if (!in_autograd && !v.waits_locally()) {
    return;
  }
  for (const ThreadStack& t : v.stacks->threads) {
    const bool candidate = in_autograd ? is_autograd_thread(t) : called_frames(t.frames) < t.frames.size();
    if (t.main || !candidate) {
      continue;
    }
    std::optional<Wait> wait = find_wait(t.frames, {.idle = false, .launches = v.calls_nothing});
    if (!wait || !waits_for_peers(wait->kind)) {
      continue;
    }
    if (in_autograd) {
      wait->where = place_of(v.thread->frames);
      wait->what = "backward (" + wait->what + ")";
    } else {
      v.thread = &t;
    }
    v.wait = std::move(wait);
    return;
  }
}

// Whether the stack may have been taken inside this call: same file and function, as far as both are known.
bool fits(const model::CodeLocation& stack, const model::CodeLocation& call) {
  if (stack.file.empty() || call.file.empty()) {
    return true;
  }
  return stack.file == call.file && last_component(stack.function) == last_component(call.function);
}

// A rank with a recorded entry of a call and no recorded return is in that call, whatever its stack shows.
void stand_in_call(RankView& v, const model::CollectiveCall& call) {
  const bool unclear =
      v.state == RankState::stuck || v.state == RankState::busy || v.state == RankState::silent;
  const bool own_affair =
      v.gil_holder != nullptr || v.in_acquire.size() > 1 || (v.wait && v.wait->kind == WaitKind::kernel);
  if (!unclear || own_affair || !fits(v.where, call.where)) {
    return;
  }
  v.wait = Wait{.kind = is_message(call.operation()) ? WaitKind::point_to_point : WaitKind::collective,
                .what = call.name.empty() ? call.op : call.name,
                .where = call.where.file.empty() ? v.where : call.where};
  v.where = v.wait->where;
  v.state = RankState::waiting;
}

// A dump on a busy machine may have no time for the Python frames; the last sample has the innermost one.
bool lost_its_python_frames(const RankView& v) {
  return v.seen != nullptr && v.seen->has_python && !v.seen->function.empty() &&
         v.stacks->status == model::DumpStatus::partial &&
         std::none_of(v.thread->frames.begin(), v.thread->frames.end(),
                      [](const model::Frame& f) { return f.kind == model::FrameKind::python; });
}

// Whether the rank has made no call that its records know for much of the time for which it has stood still.
bool calls_nothing(const std::vector<const model::RankCollectives*>& recorded, const RankView& v) {
  std::optional<double> newest_s;
  for (const model::RankCollectives* r : recorded) {
    for (const model::Communicator& c : r->communicators) {
      for (const auto* calls : {&c.calls, &c.point_to_point}) {
        for (const model::CollectiveCall& call : *calls) {
          newest_s = call.age_s >= 0 ? std::min(newest_s.value_or(call.age_s), call.age_s) : newest_s;
        }
      }
    }
  }
  return newest_s && v.seen != nullptr && v.seen->still_s > 0 && *newest_s >= kMovedShare * v.seen->still_s;
}

// The main thread only runs a loop, and hands out the work.
const ThreadStack* thread_behind_loop(const RankView& v) {
  const bool moves = v.seen != nullptr && v.seen->helper_life != model::HelperLife::still;
  return v.thread->main && !moves && pool_of_waiters(*v.stacks).empty() &&
                 (loop_waits(*v.thread) || serves_requests(*v.thread))
             ? thread_at_work(*v.stacks)
             : nullptr;
}

void classify(RankView& v, bool uses_mpi, double timeout_s) {
  v.still_share = still_share(v, timeout_s);
  v.moved = v.still_share < kMovedShare && (v.seen->has_python || uses_mpi);
  v.works = uses_cpu(v);
  if (v.seen != nullptr && !v.seen->alive) {
    v.state = RankState::dead;
    v.seconds = v.seen->dead_s;
    v.where = {.function = v.seen->function, .file = v.seen->file, .line = v.seen->line};
    return;
  }
  if (v.stacks != nullptr) {
    const auto crashed = std::find_if(v.stacks->threads.begin(), v.stacks->threads.end(),
                                      [](const ThreadStack& t) { return t.crashed; });
    if (crashed != v.stacks->threads.end()) {
      // The process exists only because the preload library's handler holds it. The handler's wait does not
      // count as the rank's.
      v.state = RankState::dead;
      v.crashed = true;
      v.thread = &*crashed;
      v.where = place_of(without_abort(crash_frames(*crashed)));
      return;
    }
    find_thread_and_wait(v);
    if (v.waits_locally()) {
      v.in_acquire = threads_in_acquire(*v.stacks);
    }
  }
  if (v.thread != nullptr && !v.thread->frames.empty()) {
    v.where = v.wait && !v.wait->where.function.empty() ? v.wait->where : place_of(v.thread->frames);
    if (!v.wait || v.wait->kind == WaitKind::store) {
      v.where.target = v.thread->target;
    }
    if (const ThreadStack* last = last_thread(v); last != nullptr) {
      v.where = place_of(last->frames);
    }
    // The line that runs the event loop says nothing.
    const auto tasks = loop_waits(*v.thread) ? last_tasks(*v.stacks) : std::vector<const model::AsyncTask*>();
    if (!tasks.empty()) {
      v.where = place_of(*tasks.front());
    }
    v.at_work = thread_behind_loop(v);
    if (v.at_work != nullptr) {
      v.where = place_with_target(*v.at_work);
      v.wait.reset();
    }
    if (!v.wait && lost_its_python_frames(v)) {
      v.where = {.function = v.seen->function, .file = v.seen->file, .line = v.seen->line};
    }
  } else if (v.seen != nullptr && v.seen->has_python) {
    v.wait = find_wait_at(v.seen->function, v.seen->file, {.idle = !uses_cpu(v)});
    v.where = {.function = v.seen->function, .file = v.seen->file, .line = v.seen->line};
    const bool called = v.record != nullptr && v.record->function == v.seen->function &&
                        owner_of(v.seen->file) != CodeOwner::user && !v.record->place.empty();
    if (called) {
      v.where = v.record->place;
    } else if (v.wait) {
      v.where = {};
    }
  }
  v.seconds = v.seen != nullptr ? v.seen->still_s : 0;

  const char kernel = kernel_state(v);
  const bool writes = v.seen != nullptr && v.seen->io_bytes_per_s >= kBusyIoBytesPerSecond;
  v.frozen = v.thread != nullptr && model::is_frozen(v.thread->wchan);
  if (kernel == 'T' || kernel == 't' || v.frozen) {
    v.state = RankState::stopped;
    v.debugged = kernel == 't';
  } else if (kernel == 'Z' || kernel == 'X') {
    v.state = RankState::dead;
  } else if (v.wait && waits_for_peers(v.wait->kind)) {
    v.state = RankState::waiting;
  } else if (kernel == 'D' && !writes && !v.works && !v.moved) {
    v.state = RankState::uninterruptible;
  } else if (is_busy(v)) {
    v.state = RankState::busy;
    const bool moved = std::exchange(v.moved, false);
    v.only_moved = moved && !is_busy(v);
    v.moved = moved;
    // One stack shows where the rank was at that moment; many samples, where it works.
    if (v.seen != nullptr && !v.seen->common_place.empty()) {
      v.where = v.seen->common_place;
    }
  } else if (v.where.function.empty()) {
    v.state = RankState::silent;
  } else {
    v.state = RankState::stuck;
  }
}

}  // namespace

const ThreadStack* last_thread(const RankView& v) {
  const ThreadStack* main = v.stacks != nullptr ? v.stacks->main_thread() : nullptr;
  const bool ends = main != nullptr && called_frames(main->frames) == main->frames.size() &&
                    std::any_of(main->frames.begin(), main->frames.end(), [](const model::Frame& f) {
                      return f.func == "_shutdown" && f.file.ends_with("/threading.py");
                    });
  if (!ends) {
    return nullptr;
  }
  const auto it = std::find_if(v.stacks->threads.begin(), v.stacks->threads.end(), [](const ThreadStack& t) {
    return !t.main && called_frames(t.frames) < t.frames.size();
  });
  return it == v.stacks->threads.end() ? nullptr : &*it;
}

std::vector<model::Frame> crash_frames(const ThreadStack& thread) {
  const auto& frames = thread.frames;
  const auto ours = std::find_if(frames.rbegin(), frames.rend(), [](const model::Frame& f) {
    return f.module.starts_with("libxpurun_preload");
  });
  auto first = ours.base();
  // The signal trampoline, which the kernel puts between the handler's frames and the interrupted frame.
  if (ours != frames.rend() && first != frames.end() && first->func.find("restore_rt") != std::string::npos) {
    ++first;
  }
  return {first, frames.end()};
}

bool asks_for_key(const RankView& v) {
  constexpr std::array<std::string_view, 3> kMethods = {".get", ".wait", ".multi_get"};
  return v.wait && v.wait->kind == WaitKind::store &&
         std::any_of(kMethods.begin(), kMethods.end(),
                     [&](std::string_view name) { return v.where.callee.ends_with(name); });
}

bool waits_for_child(const model::ProcessStacks& p) {
  const ThreadStack* t = p.main_thread();
  const auto wait = t != nullptr ? find_wait(t->frames, {.idle = true}) : std::nullopt;
  return wait && wait->kind == WaitKind::helper;
}

namespace {

// The process, which should read what `writer` writes, waits for something else: the end of a process,
// another pipe, or room for what it writes itself.
bool neglects(const model::ProcessStacks& reader, const ThreadStack& writer, base::Pid writer_pid) {
  const ThreadStack* t = reader.main_thread();
  const auto has = [](const std::vector<base::Pid>& pids, base::Pid pid) {
    return std::find(pids.begin(), pids.end(), pid) != pids.end();
  };
  if (waits_for_child(reader)) {
    return writer.peers.empty() || has(writer.peers, reader.pid);
  }
  if (t == nullptr || t->state != 'S' || !has(writer.peers, reader.pid)) {
    return false;
  }
  const bool other_pipe = (t->syscall == "read" || t->syscall == "readv") &&
                          t->syscall_file.starts_with("pipe:") && t->syscall_file != writer.syscall_file;
  return other_pipe || (writes_to_full_pipe(*t) && has(t->peers, writer_pid));
}

// A thread of `writer` cannot write, because `reader` does not read.
bool is_cut_off(const model::ProcessStacks& writer, const model::ProcessStacks& reader) {
  return std::any_of(writer.threads.begin(), writer.threads.end(), [&](const ThreadStack& t) {
    return writes_to_full_pipe(t) && neglects(reader, t, writer.pid);
  });
}

// The same of a program without Python.
const model::HelperObservation* cut_off_program(const RankView& v) {
  if (v.seen == nullptr) {
    return nullptr;
  }
  const auto& all = v.seen->helpers;
  const auto it = std::find_if(all.begin(), all.end(), [&](const model::HelperObservation& h) {
    const ThreadStack call{
        .state = 'S', .syscall = h.syscall, .syscall_file = h.syscall_file, .peers = h.peers};
    return h.awaited && !h.python && writes_to_full_pipe(call) && neglects(*v.stacks, call, h.pid);
  });
  return it == all.end() ? nullptr : &*it;
}

// subprocess without communicate(): the child writes more than a pipe holds, and its parent waits for the
// child's end instead of reading. Either process may have been taken for the rank.
void find_full_pipe(RankView& v, const Facts& facts) {
  if (v.stacks == nullptr || v.state != RankState::stuck) {
    return;
  }
  for (const model::ProcessStacks& p : facts.stacks) {
    if (p.pid == v.pid) {
      continue;
    }
    const bool child =
        p.rank == v.rank && (p.role == model::ProcessRole::worker || p.role == model::ProcessRole::child);
    if (child && is_cut_off(p, *v.stacks)) {
      v.full_pipe = &p;
      v.pipe_reader = v.stacks;
      return;
    }
    const bool parent = v.record != nullptr && v.record->ppid == p.pid &&
                        (facts.run.nodes.empty() || v.stacks->host == p.host);
    if (parent && is_cut_off(*v.stacks, p)) {
      v.full_pipe = v.stacks;
      v.pipe_reader = &p;
      // A queue of multiprocessing writes in a thread of its own.
      const ThreadStack* main = v.stacks->main_thread();
      // A child of `python -c` has no file.
      const bool own = main != nullptr && writes_to_full_pipe(*main) && v.where.file != "<string>";
      v.where = own ? v.where : place_of(p.main_thread()->frames);
      return;
    }
  }
  v.full_program = cut_off_program(v);
}

}  // namespace

bool is_plain_command(const ProcessRecord& process) {
  return process.role == model::ProcessRole::rank && process.identity == model::RankSource::single &&
         !process.python;
}

bool serves_processes(const ProcessRecord& process) {
  return std::any_of(process.cmdline.begin(), process.cmdline.end(), [](const std::string& word) {
    return word.find("resource_tracker") != std::string::npos || word.find("forkserver") != std::string::npos;
  });
}

size_t started_by_only_rank(const model::RunManifest& run) {
  size_t started = 0;
  for (const ProcessRecord& p : run.processes) {
    started += p.role == model::ProcessRole::worker && p.python && !serves_processes(p) ? 1 : 0;
  }
  return current_ranks(run).size() == 1 && run.world_size <= 1 ? started : 0;
}

std::vector<const ProcessRecord*> current_ranks(const model::RunManifest& run) {
  std::map<base::Rank, const ProcessRecord*> latest;
  for (const ProcessRecord& p : run.processes) {
    if (p.role != model::ProcessRole::rank || p.rank < 0) {
      continue;
    }
    const ProcessRecord*& slot = latest[p.rank];
    if (slot == nullptr || p.seen_s >= slot->seen_s) {
      slot = &p;
    }
  }
  std::vector<const ProcessRecord*> out;
  out.reserve(latest.size());
  for (const auto& [rank, record] : latest) {
    out.push_back(record);
  }
  return out;
}

std::vector<RankView> rank_views(const Facts& facts) {
  std::map<base::Rank, RankView> views;
  const auto view_of = [&](base::Rank rank) -> RankView& {
    RankView& v = views[rank];
    v.rank = rank;
    return v;
  };
  if (facts.dump) {
    for (const model::RankObservation& o : facts.dump->ranks) {
      // A restarted rank is listed twice: the dead process and the living one.
      if (o.rank >= 0 && (view_of(o.rank).seen == nullptr || o.alive)) {
        view_of(o.rank).seen = &o;
      }
    }
  }
  for (const model::ProcessStacks& s : facts.stacks) {
    if (s.role == model::ProcessRole::rank && s.rank >= 0) {
      view_of(s.rank).stacks = &s;
    }
  }
  for (const ProcessRecord* p : current_ranks(facts.run)) {
    view_of(p->rank).record = p;
  }
  if (facts.dump) {
    for (const model::DumpedProcess& p : facts.dump->processes) {
      const bool of_rank = p.role == model::ProcessRole::rank && p.rank >= 0;
      if (of_rank && p.status != model::DumpStatus::ok) {
        // Nothing else is known about a node that did not answer.
        RankView& v = view_of(p.rank);
        v.silent_reason = model::reason_or_status(p.reason, p.status);
        v.host = p.host;
      }
    }
  }
  double timeout_s = facts.run.hang_timeout_s;
  std::string host = facts.run.host;
  if (facts.dump) {
    timeout_s = facts.dump->hang_timeout_s > 0 ? facts.dump->hang_timeout_s : timeout_s;
    host = known_or(facts.dump->host, host);
  }
  std::map<base::Rank, std::vector<const model::RankCollectives*>> calls;
  for (const model::RankCollectives& r : facts.collectives.ranks) {
    calls[r.rank].push_back(&r);
  }
  std::vector<RankView> out;
  out.reserve(views.size());
  for (auto& [rank, v] : views) {
    v.host = known_or(v.host, host);
    if (v.record != nullptr) {
      v.pid = v.record->pid;
      v.host = facts.run.nodes.empty() ? v.host : host_of(facts.run, v.record->node);
    }
    if (v.stacks != nullptr) {
      v.pid = v.stacks->pid;
      v.host = known_or(v.stacks->host, v.host);
    }
    if (v.seen != nullptr) {
      v.pid = v.seen->pid != 0 ? v.seen->pid : v.pid;
      v.host = known_or(v.seen->host, v.host);
    }
    const auto& recorded = calls[rank];
    const bool uses_mpi = std::any_of(recorded.begin(), recorded.end(),
                                      [](const model::RankCollectives* r) { return calls_mpi(*r); });
    v.calls_nothing = calls_nothing(recorded, v);
    classify(v, uses_mpi, timeout_s);
    // Who polls its GPU changes its position. Its unfinished call shows for how long it has waited.
    if (v.wait && v.wait->kind == WaitKind::gpu && gpu_waits_since(recorded) >= kMovedShare * timeout_s) {
      v.moved = false;
    }
    if (const model::CollectiveCall* call = call_of_host(calls[rank])) {
      stand_in_call(v, *call);
    }
    find_full_pipe(v, facts);
    out.push_back(std::move(v));
  }
  return out;
}

}  // namespace xpurun::report
