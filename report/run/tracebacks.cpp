#include "report/run/tracebacks.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/wording.h"

#include <fmt/format.h>

namespace xpurun::report {

using base::later;
using base::tr;

namespace {

constexpr size_t kMostTracebacks = 8;

std::string_view title_of(model::ExceptionKind kind) {
  switch (kind) {
    case model::ExceptionKind::raised:
      return later("exception");
    case model::ExceptionKind::thread:
      return later("exception that ended a thread");
    case model::ExceptionKind::unraisable:
      return later("exception that could only be printed");
    case model::ExceptionKind::sys_exit:
      return later("call of sys.exit");
    case model::ExceptionKind::os_exit:
      return later("call of os._exit");
    case model::ExceptionKind::kept:
      return later("exception that a future keeps");
    case model::ExceptionKind::logged:
      return later("exception that the program has logged");
  }
  return "";
}

// A program that ended itself with status 0, in a run without a culprit, has no traceback worth reading; nor
// has an exception that was caught, unless the job stood afterwards.
bool usual_end(const model::PythonException& x, const model::Verdict& verdict) {
  if (model::is_swallowed(x.kind)) {
    return verdict.kind != model::VerdictKind::hang;
  }
  return verdict.kind == model::VerdictKind::none && !model::is_exception(x.kind) && x.code == 0;
}

}  // namespace

Tracebacks tracebacks_of(const model::RunManifest& run, const model::Verdict& verdict) {
  Tracebacks out;
  for (const model::PythonException& x : run.exceptions) {
    const bool concerns =
        verdict.ranks.empty() || verdict.ranks.contains(x.rank) ||
        (x.pid == verdict.pid && (run.nodes.empty() || host_of(run, x.node) == verdict.host));
    if (!concerns || x.chain.empty() || usual_end(x, verdict)) {
      continue;
    }
    if (out.shown.size() == kMostTracebacks) {
      ++out.left_out;
      continue;
    }
    const std::string who = x.rank != base::kNoRank ? tr("Rank {}", x.rank) : tr("Process {}", x.pid);
    const std::string host = run.nodes.empty() ? "" : tr(" on host {}", base::sanitize(host_of(run, x.node)));
    out.shown.push_back({.title = tr("{}{}, thread {}, {}", who, host, base::sanitize(x.thread),
                                     moment_words(run, x.at_s, 2)),
                         .word = tr(title_of(x.kind)),
                         .text = base::sanitize_lines(model::traceback_text(x))});
  }
  return out;
}

}  // namespace xpurun::report
