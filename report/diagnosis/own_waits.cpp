#include "report/diagnosis/own_waits.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/stacks/frozen.h"
#include "report/diagnosis/helpers.h"
#include "report/diagnosis/rank_exceptions.h"
#include "report/diagnosis/waits/code_place.h"
#include "report/diagnosis/waits/thread_waits.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace xpurun::report {

using base::tr;
using model::ProcessRecord;
using model::ThreadStack;

namespace {

constexpr size_t kMostEnded = 3;  // told of

// open() of a FIFO sleeps in these functions of the kernel until another process opens the other end.
bool opens_fifo(const ThreadStack& t) {
  return (t.syscall == "openat" || t.syscall == "open") && !t.target.empty() &&
         (t.wchan == "wait_for_partner" || t.wchan == "fifo_open");
}

// The thread of the rank, or of the process that it waits for, that opens a FIFO; null: none.
const ThreadStack* fifo_opener(const Scene& scene, const RankView& v) {
  if (v.state != RankState::stuck) {
    return nullptr;
  }
  if (v.thread != nullptr && opens_fifo(*v.thread)) {
    return v.thread;
  }
  const auto helper = awaited_helper(scene, v);
  const ThreadStack* main = helper && helper->stacks != nullptr ? helper->stacks->main_thread() : nullptr;
  return main != nullptr && opens_fifo(*main) ? main : nullptr;
}

// The processes that the rank has started, if all of them had ended by the dump.
std::vector<const ProcessRecord*> ended_workers(const Scene& scene, const RankView& v) {
  const double until_s = scene.facts.dump ? scene.facts.dump->at_s : scene.facts.run.elapsed_s;
  std::vector<const ProcessRecord*> out;
  for (const ProcessRecord& p : scene.facts.run.processes) {
    const bool of_rank = p.role == model::ProcessRole::worker && p.rank == v.rank && p.ppid == v.pid &&
                         host_of(scene.facts.run, p.node) == v.host;
    if (!of_rank || serves_processes(p)) {
      continue;
    }
    if (!p.death.happened || p.death.at_s > until_s) {
      return {};
    }
    out.push_back(&p);
  }
  return out;
}

// In a queue or pipe of multiprocessing, as the reader.
bool takes_from_processes(const RankView& v) {
  const auto takes = [](const model::Frame& f) {
    const std::string_view name = last_component(f.func);
    return (f.file.ends_with("/multiprocessing/queues.py") && name == "get") ||
           (f.file.ends_with("/multiprocessing/connection.py") && (name == "recv" || name == "recv_bytes"));
  };
  return v.state == RankState::stuck && v.thread != nullptr && (!v.wait || v.wait->kind == WaitKind::lock) &&
         std::any_of(v.thread->frames.begin(), v.thread->frames.end(), takes);
}

// In a call of a pool of multiprocessing, or as one of its processes.
bool in_pool(const std::vector<model::Frame>& frames, size_t innermost) {
  return std::any_of(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(innermost),
                     [](const model::Frame& f) { return f.file.ends_with("/multiprocessing/pool.py"); });
}

std::string end_of(const Scene& scene, const ProcessRecord& p) {
  const auto ending = std::find_if(scene.endings.begin(), scene.endings.end(),
                                   [&p](const Ending& e) { return e.process == &p; });
  if (ending == scene.endings.end()) {
    return tr("pid {} {}", p.pid, tr("ended"));
  }
  const std::string call = exit_call_words(*ending);
  return tr("pid {} {}", p.pid, call.empty() ? how_it_ended(*ending) : call);
}

}  // namespace

std::string fifo_clause(const Scene& scene, const RankView& v) {
  return fifo_opener(scene, v) != nullptr ? tr("; no process has opened the other end of this FIFO") : "";
}

std::string ended_workers_clause(const Scene& scene, const RankView& v) {
  const auto ended = takes_from_processes(v) ? ended_workers(scene, v) : std::vector<const ProcessRecord*>();
  if (ended.empty()) {
    return {};
  }
  std::string list;
  for (size_t i = 0; i < std::min(ended.size(), kMostEnded); ++i) {
    list += (i == 0 ? "" : tr(", ")) + end_of(scene, *ended[i]);
  }
  const size_t more = ended.size() - std::min(ended.size(), kMostEnded);
  list += more == 0 ? "" : more == 1 ? tr(", and another one") : tr(", and {} others", more);
  return ended.size() == 1 ? tr("; the only process that it had started has ended: {}", list)
                           : tr("; all {} processes that it had started have ended: {}", ended.size(), list);
}

std::string lost_task_clause(const Scene& scene, const RankView& v) {
  if (v.state != RankState::stuck || !v.waits_locally() || v.stacks == nullptr || v.thread == nullptr ||
      !in_pool(v.thread->frames, called_frames(v.thread->frames)) || lost_helper(scene, v) ||
      thread_in_user_code(*v.stacks) != nullptr) {
    return {};
  }
  size_t idle = 0;
  for (const model::ProcessStacks& s : scene.facts.stacks) {
    const ThreadStack* main = s.main_thread();
    const bool of_pool = s.role == model::ProcessRole::worker && s.rank == v.rank &&
                         (s.host.empty() || s.host == v.host) && main != nullptr &&
                         in_pool(main->frames, main->frames.size());
    if (of_pool && !place_of_helper(s).empty()) {
      return {};
    }
    idle += of_pool ? 1 : 0;
  }
  return idle == 0 ? std::string()
         : idle == 1
             ? tr("; the only process of its pool waits for a task, and has not the one that is missing")
             : tr("; all {} processes of its pool wait for a task, and none has the one that is missing",
                  idle);
}

model::NextStep own_wait_advice(const Scene& scene, const RankView& v) {
  if (const ThreadStack* t = fifo_opener(scene, v)) {
    const std::string path = base::sanitize(t->target);
    return {.text = tr("start the process that should open the other end of {}, or find out why it has not; "
                       "this shows who has it open",
                       path),
            .command = "fuser -v " + base::shell_quote(path)};
  }
  if (v.state != RankState::stuck) {
    return {};
  }
  if (v.wait && v.wait->kind == WaitKind::input && v.seen != nullptr &&
      v.seen->outside == model::OutsideWait::terminal) {
    return {.text = tr("answer at the terminal of the job, or give the program its input")};
  }
  if (v.wait && v.wait->kind == WaitKind::input) {
    return {.text = tr("remove the prompt or the breakpoint, or run one process without a launcher on a "
                       "terminal: the ranks of a launcher have none to answer on")};
  }
  if (!ended_workers_clause(scene, v).empty()) {
    return {.text = tr("let each process put a mark at its end, or wait with a timeout and see whether the "
                       "processes live; read why the last one ended")};
  }
  if (!lost_task_clause(scene, v).empty()) {
    return {
        .text = tr("find out which process of the pool has ended with the task, or why its result was not "
                   "sent; concurrent.futures raises then"),
        .command = "dmesg | grep -i 'killed process'"};
  }
  if (lacks_task_done(v)) {
    return {.text =
                tr("call task_done() for each item that get() has returned, also before `continue` and in "
                   "`finally`")};
  }
  const auto helper = awaited_helper(scene, v);
  if (helper && helper->reads_input) {
    return {.text = tr("give the program its input, or none: subprocess.run(..., stdin=subprocess.DEVNULL)")};
  }
  return {};
}

model::NextStep thaw_advice(const model::ThreadStack& thread) {
  const std::string group = base::sanitize(thread.target);
  const bool first_version = thread.wchan == model::kRefrigerator;
  return {.text = tr("thaw the control group, or find out who has frozen it (docker pause, systemctl freeze, "
                     "the scheduler)"),
          .command =
              first_version
                  ? "echo THAWED > " + base::shell_quote("/sys/fs/cgroup/freezer" + group + "/freezer.state")
                  : "echo 0 > " + base::shell_quote("/sys/fs/cgroup" + group + "/cgroup.freeze")};
}

}  // namespace xpurun::report
