#include "report/diagnosis/rules/last_place.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/collectives/analysis.h"
#include "report/diagnosis/ends/exceptions.h"
#include "report/diagnosis/ends/origin.h"
#include "report/diagnosis/helpers.h"
#include "report/diagnosis/memory/memory_words.h"
#include "report/diagnosis/rank_exceptions.h"
#include "report/diagnosis/several_nodes.h"
#include "report/diagnosis/waits/code_place.h"

#include <algorithm>
#include <csignal>
#include <vector>

namespace xpurun::report {

using base::tr;
using model::CodeLocation;
using model::CrashNotice;
using model::ThreadStack;

namespace {

// Whether the stack was taken after the signal, while xpurun's handler held the thread. SIGTERM can arrive
// anywhere, so a stack from just before the signal is equally good.
bool shows_the_end(const ThreadStack& t, const CrashNotice& notice) {
  const std::vector<model::Frame> frames = crash_frames(t);
  const bool in_handler = frames.size() < t.frames.size();
  return !frames.empty() && (t.crashed || (t.tid == notice.tid && (in_handler || !is_fault(notice.signal))));
}

// A library without symbols is named by its file. The C library only passes signals on.
CodeLocation library_of(const std::vector<model::Frame>& frames) {
  const auto found = std::find_if(frames.begin(), frames.end(), [](const model::Frame& f) {
    return !f.module.empty() && !f.module.starts_with("libc.so") && !f.module.starts_with("libc-") &&
           !f.module.starts_with("libpthread") && !f.module.starts_with("libstdc++") &&
           !f.module.starts_with("ld-linux");
  });
  return found == frames.end() ? CodeLocation{} : CodeLocation{.function = found->module};
}

// The first process of the rank that failed by itself in these seconds of the run; null: none.
const Ending* failed_helper(const Scene& scene, const Ending& root, double from_s, double to_s) {
  const auto it = std::find_if(scene.endings.begin(), scene.endings.end(), [&](const Ending& e) {
    const model::ProcessRecord& p = *e.process;
    return p.role == model::ProcessRole::worker && p.rank == root.process->rank &&
           p.node == root.process->node && e.failed() && e.known && !e.follower && e.signal != SIGTERM &&
           e.at_s >= from_s && e.at_s <= to_s;
  });
  return it == scene.endings.end() ? nullptr : &*it;
}

}  // namespace

bool carries_address(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL;
}

bool is_fault(int signal) {
  return carries_address(signal) || signal == SIGABRT;
}

const ThreadStack* crashed_thread(const Scene& scene, const Ending& e) {
  if (e.notice == nullptr || scene.facts.dump_dir.empty() || e.notice->dump != scene.facts.dump_dir) {
    return nullptr;
  }
  for (const model::ProcessStacks& s : scene.facts.stacks) {
    const bool elsewhere = !s.host.empty() && s.host != host_of(scene.facts.run, e.process->node);
    if (s.pid != e.process->pid || (elsewhere && !scene.facts.run.nodes.empty())) {
      continue;
    }
    const auto it = std::find_if(s.threads.begin(), s.threads.end(),
                                 [&](const ThreadStack& t) { return shows_the_end(t, *e.notice); });
    return it == s.threads.end() ? nullptr : &*it;
  }
  return nullptr;
}

CodeLocation unwound_at_exit(const ThreadStack& t) {
  const std::vector<model::Frame> frames = crash_frames(t);
  const auto has = [&](std::string_view function) {
    return std::any_of(frames.begin(), frames.end(),
                       [&](const model::Frame& f) { return f.func.starts_with(function); });
  };
  if (!has("_Unwind_ForcedUnwind") || !has("PyThread_exit_thread")) {
    return {};
  }
  const auto outermost = std::find_if(frames.rbegin(), frames.rend(), [](const model::Frame& f) {
    return !f.func.empty() && !f.func.starts_with(f.module) && !f.module.starts_with("libc.so") &&
           !f.module.starts_with("libstdc++");
  });
  return {.function = outermost->func, .file = outermost->module};
}

CodeLocation where_it_ended(const Scene& scene, const Ending& e) {
  if (e.exception != nullptr) {
    const model::ExceptionLink* handled = handled_by_exit(*e.exception);
    return handled != nullptr ? place_of({.chain = {*handled}}) : place_of(*e.exception);
  }
  const ThreadStack* t = crashed_thread(scene, e);
  if (t == nullptr && !exit_call_words(e).empty()) {
    return e.process->place;
  }
  if (t == nullptr) {
    return place_of_last_call(scene.facts.collectives, e.process->rank);
  }
  if (CodeLocation at_exit = unwound_at_exit(*t); !at_exit.empty()) {
    return at_exit;
  }
  const std::vector<model::Frame> frames = without_abort(crash_frames(*t));
  CodeLocation place = place_of(frames);
  return place.function.empty() ? library_of(frames) : std::move(place);
}

std::string in_place(const CodeLocation& where) {
  return where.function.empty() ? std::string() : tr(" in {}", place(where));
}

const Ending* helper_before(const Scene& scene, const Ending& root) {
  constexpr double kEndedS = 5;  // a worker that is missed is missed soon
  // The connections of a process are closed before its parent can read how it ended.
  const bool misses = root.raised() && (says_peer_is_gone(*root.exception) || misses_worker(*root.exception));
  const double seen_late_s = misses ? 1 : 0;
  return failed_helper(scene, root, root.at_s - kEndedS, root.at_s + seen_late_s);
}

const model::PythonException* exception_before(const Scene& scene, const Ending& root) {
  constexpr double kRaisedS = 60;
  const model::ProcessRecord& p = *root.process;
  return helper_exception(scene, p.rank, p.pid, root.at_s - kRaisedS, root.at_s);
}

namespace {

// Whether the rank ended because of this process: by a status of its own, as one that misses a worker, or at
// once.
bool caused(const Ending& root, double ended_s) {
  constexpr double kAtOnceS = 1;
  return !root.raised() || misses_worker(*root.exception) || root.at_s - ended_s <= kAtOnceS;
}

}  // namespace

HelperFailure helper_failure(const Scene& scene, const Ending& root) {
  const bool exited = root.signal == 0 && root.failed();
  if (!(root.raised() ? !origin_of(*root.exception) : exited)) {
    return {};
  }
  if (const auto* before = exception_before(scene, root)) {
    model::PythonException bare{
        .kind = before->kind,
        .chain = {{.type = before->chain.front().type, .message = before->chain.front().message}}};
    return {.pid = before->pid,
            .how = raised_words(*before),
            .title = raised_words(bare),
            .where = place_of(*before),
            .caused = caused(root, before->at_s)};
  }
  const Ending* failed = helper_before(scene, root);
  if (failed == nullptr) {
    return {};
  }
  HelperFailure out{.pid = failed->process->pid, .how = how_it_ended(*failed)};
  if (const model::KernelEvent* oom =
          oom_kill_of(scene.facts.kernel, failed->process->node, failed->process->pid, failed->at_s)) {
    out.how += out_of_memory_words(*oom);
  } else if (failed->signal == 0 && failed->exception != nullptr) {
    const model::ExceptionKind kind = failed->exception->kind;
    const bool called = kind == model::ExceptionKind::sys_exit || kind == model::ExceptionKind::os_exit;
    out.how = called ? exit_words(*failed->exception) : raised_words(*failed->exception);
  } else {
    out.how += failed->notice != nullptr && failed->notice->stack_overflow ? tr(" (stack overflow)") : "";
    out.title = out.how;
    out.where = where_it_ended(scene, *failed);
    out.how += in_place(out.where);
    out.caused = is_fault(failed->signal) && caused(root, failed->at_s);
  }
  return out;
}

}  // namespace xpurun::report
