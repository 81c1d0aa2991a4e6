#include "report/diagnosis/rank_exceptions.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/frame_text.h"
#include "report/diagnosis/ends/exceptions.h"
#include "report/diagnosis/ends/origin.h"
#include "report/diagnosis/holders.h"
#include "report/diagnosis/waits/async_waits.h"
#include "report/diagnosis/waits/code_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace xpurun::report {

using base::tr;
using model::ExceptionKind;
using model::ExceptionLink;
using model::PythonException;

namespace {

// Programs may run indefinitely inside a handler of these exceptions. They only say that something does not
// exist or is exhausted.
constexpr std::array<std::string_view, 4> kOrdinary = {"ImportError", "ModuleNotFoundError", "StopIteration",
                                                       "StopAsyncIteration"};
// A library that raises and catches one of these itself asks whether something is there.
constexpr std::array<std::string_view, 4> kOrdinaryInLibraries = {"IndexError", "KeyError", "AttributeError",
                                                                  "BlockingIOError"};

// The last report of the rank's Python before the dump. Later exceptions may be caused by the job's end.
template <typename Of>
const PythonException* last_one(const Scene& scene, ExceptionKind kind, Of is_of) {
  const auto& all = scene.facts.run.exceptions;
  const auto it = std::find_if(all.rbegin(), all.rend(), [&](const PythonException& x) {
    return x.kind == kind && is_of(x) && !x.chain.empty() &&
           (!scene.facts.dump || x.at_s <= scene.facts.dump->at_s);
  });
  return it == all.rend() ? nullptr : &*it;
}

const PythonException* last_of(const Scene& scene, const RankView& v, ExceptionKind kind) {
  return last_one(scene, kind, [&](const PythonException& x) { return x.pid == v.pid; });
}

bool sleeps_in_loop(const RankView& v) {
  return v.seen != nullptr && v.seen->outside == model::OutsideWait::polling;
}

// A process of the rank, from which the rank waits for something, has caught it and has gone on.
bool is_of_helper(const Scene& scene, const RankView& v, const PythonException& x) {
  const auto& all = scene.facts.run.exceptions;
  return x.rank == v.rank && x.kind == ExceptionKind::logged && in_multiprocessing(v.thread->frames) &&
         std::none_of(all.begin(), all.end(), [&](const PythonException& other) {
           return other.pid == x.pid && other.kind == ExceptionKind::raised;
         });
}

// The last exception before the dump that was caught since shortly before the rank stood still, where the
// rank waits for something that its own code should have given, or sleeps before it tries again.
const PythonException* swallowed_by(const Scene& scene, const RankView& v) {
  constexpr double kBeforeS = 30;
  const bool waits =
      v.state == RankState::stuck && v.thread != nullptr &&
      ((v.waits_locally() && v.wait->kind != WaitKind::input) || loop_waits(*v.thread) || sleeps_in_loop(v));
  const PythonException* last = nullptr;
  for (const ExceptionKind kind : {ExceptionKind::kept, ExceptionKind::logged}) {
    const PythonException* one =
        waits
            ? last_one(scene, kind,
                       [&](const PythonException& x) { return x.pid == v.pid || is_of_helper(scene, v, x); })
            : nullptr;
    last = one != nullptr && (last == nullptr || one->at_s > last->at_s) ? one : last;
  }
  const double dumped_s = scene.dump_at_s();
  return last != nullptr && last->at_s >= dumped_s - v.seconds - kBeforeS ? last : nullptr;
}

const ExceptionLink* handled_by(const RankView& v) {
  return v.thread != nullptr && !v.thread->handling.empty() ? &v.thread->handling : nullptr;
}

bool is_one_of(const ExceptionLink& link, const auto& types) {
  return std::find(types.begin(), types.end(), link.type) != types.end();
}

// A library asks itself whether something is there.
bool is_of_library(const ExceptionLink& link) {
  return is_one_of(link, kOrdinaryInLibraries) && !link.frames.empty() &&
         std::none_of(link.frames.begin(), link.frames.end(),
                      [](const auto& f) { return owner_of(f.file) == CodeOwner::user; });
}

bool is_ordinary(const ExceptionLink& link) {
  return is_one_of(link, kOrdinary) || is_of_library(link);
}

std::string handled_clause(const RankView& v) {
  return handled_type(v).empty() ? std::string() : tr(" while handling {}", words_of(*handled_by(v)));
}

// The exception that the rank's loop has caught before it sleeps.
const ExceptionLink* caught_by(const RankView& v) {
  const bool known = v.thread != nullptr && !v.thread->caught.empty() && !is_ordinary(v.thread->caught);
  return known && (v.state == RankState::stuck || v.state == RankState::busy) ? &v.thread->caught : nullptr;
}

// What the loop asks for says more than the exception that the answer becomes.
std::string loop_clause(const Scene& scene, const RankView& v) {
  const ExceptionLink* caught = caught_by(v);
  if (caught == nullptr || !poll_clause(scene, v).empty()) {
    return {};
  }
  // The outermost frame is the function that caught the exception.
  const model::PythonFrame* f = caught->frames.empty() ? nullptr : &caught->frames.front();
  return f == nullptr ? tr("; its loop has caught {}", words_of(*caught))
                      : tr("; its loop has caught {} in {}", words_of(*caught),
                           place({.function = f->function, .file = f->file, .line = f->line}));
}

}  // namespace

std::string exception_clause(const Scene& scene, const RankView& v) {
  if (v.state != RankState::stuck && v.state != RankState::waiting) {
    return {};
  }
  if (const PythonException* raised = last_of(scene, v, ExceptionKind::raised)) {
    return tr(" after it {}", raised_words(*raised));
  }
  if (std::string handled = handled_clause(v); !handled.empty()) {
    return handled;
  }
  if (const PythonException* thread = last_of(scene, v, ExceptionKind::thread)) {
    return tr("; its thread {} {}", base::sanitize(thread->thread), raised_words(*thread));
  }
  if (const PythonException* caught = swallowed_by(scene, v)) {
    if (const auto origin = origin_of(*caught); origin && origin->carrier == Carrier::pool) {
      return tr("; before, a task {}, and nobody has asked for the result", raised_words(*caught));
    }
    if (caught->pid != v.pid) {
      return tr("; before, its process (pid {}) {} and went on", caught->pid, raised_words(*caught));
    }
    const std::string thread = base::sanitize(caught->thread);
    return caught->kind == ExceptionKind::kept
               ? tr("; before, a task in its thread {} {}, which only the future knows", thread,
                    raised_words(*caught))
               : tr("; before, its thread {} {} and went on", thread, raised_words(*caught));
  }
  return loop_clause(scene, v);
}

std::string caught_clause(const Scene& scene, const RankView& v) {
  if (v.state != RankState::busy) {
    return {};
  }
  const std::string handled = handled_clause(v);
  return handled.empty() ? loop_clause(scene, v) : handled;
}

std::string handled_type(const RankView& v) {
  const ExceptionLink* handled = handled_by(v);
  return handled == nullptr || is_ordinary(*handled) ? std::string() : base::sanitize(handled->type);
}

std::string hidden_type(const Scene& scene, const RankView& v) {
  const PythonException* logged = sleeps_in_loop(v) ? swallowed_by(scene, v) : nullptr;
  const ExceptionLink* hidden = logged != nullptr ? &logged->chain.front() : caught_by(v);
  const std::string handled = v.state == RankState::busy ? handled_type(v) : std::string();
  return !handled.empty() || hidden == nullptr ? handled : base::sanitize(hidden->type);
}

const PythonException* unseen_exception(const Scene& scene) {
  const model::RunManifest& run = scene.facts.run;
  const auto it = std::find_if(run.exceptions.begin(), run.exceptions.end(), [&](const PythonException& x) {
    const bool known = std::any_of(run.processes.begin(), run.processes.end(),
                                   [&](const auto& p) { return p.pid == x.pid; });
    return x.kind == ExceptionKind::raised && x.rank == base::kNoRank && !known && !x.chain.empty() &&
           x.at_s <= scene.dump_at_s();
  });
  return it == run.exceptions.end() ? nullptr : &*it;
}

void add_handled(const Scene& scene, const model::Verdict& verdict, std::vector<std::string>& out) {
  for (const RankView& v : scene.ranks) {
    const ExceptionLink* handled = handled_by(v);
    const bool in_sentence =
        handled != nullptr && verdict.sentence.find(words_of(*handled)) != std::string::npos;
    if (handled == nullptr || is_of_library(*handled) || in_sentence || !verdict.ranks.contains(v.rank)) {
      continue;
    }
    out.push_back(tr("rank {} is handling {}", v.rank, words_of(*handled)));
    // The outermost frame is the function that caught the exception.
    if (!handled->frames.empty()) {
      const model::PythonFrame& f = handled->frames.front();
      out.back() +=
          tr(", caught in {} ({})", base::sanitize(f.function), base::sanitize(model::source_name(f.file)));
    }
    return;
  }
}

std::string exit_call_words(const Ending& e) {
  if (!e.known || e.signal != 0 || e.raised()) {
    return {};
  }
  if (e.exception != nullptr) {
    return exit_words(*e.exception);
  }
  const bool by_mpi = e.notice != nullptr;
  return by_mpi || e.process->place.empty()
             ? std::string()
             : tr("{}, last seen in {}", how_it_ended(e), place(e.process->place));
}

std::string helper_end_words(const Scene& scene, const model::HelperDeath& death) {
  const model::RunManifest& run = scene.facts.run;
  const auto record = std::find_if(run.processes.rbegin(), run.processes.rend(),
                                   [&](const auto& p) { return p.pid == death.pid; });
  const model::ProcessRecord unseen;
  Ending end{.process = record == run.processes.rend() ? &unseen : &*record, .known = true};
  end.signal = death.status.signal();
  end.exit_code = death.status.exited() ? death.status.exit_code() : end.exit_code;
  const auto call = std::find_if(run.exceptions.rbegin(), run.exceptions.rend(), [&](const auto& x) {
    return x.pid == death.pid && end.signal == 0 && x.code == end.exit_code && !x.chain.empty() &&
           (x.kind == model::ExceptionKind::sys_exit || x.kind == model::ExceptionKind::os_exit);
  });
  end.exception = call == run.exceptions.rend() ? nullptr : &*call;
  const std::string words = exit_call_words(end);
  const std::string how = words.empty() ? how_it_ended(end) : words;
  return end.signal == 0 || end.process->place.empty()
             ? how
             : tr("{}, last seen in {},", how, place(end.process->place));
}

}  // namespace xpurun::report
