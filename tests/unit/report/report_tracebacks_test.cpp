// Tracebacks on the page: whose are shown, and which ends of a program are none.
#include "report/run/tracebacks.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;
using model::ExceptionKind;

namespace {

model::PythonException told(ExceptionKind kind, int code, base::Rank rank = 0) {
  return {.kind = kind,
          .pid = 100 + rank,
          .rank = rank,
          .thread = "MainThread",
          .code = code,
          .chain = {{.type = model::is_exception(kind) ? "ValueError" : "SystemExit", .message = "text"}}};
}

size_t shown(const model::PythonException& x, const model::Verdict& verdict) {
  model::RunManifest run;
  run.exceptions = {x};
  return tracebacks_of(run, verdict).shown.size();
}

}  // namespace

TEST_CASE("tracebacks: a program that ends itself with status 0 in a healthy run has none") {
  const model::Verdict healthy;
  CHECK(shown(told(ExceptionKind::sys_exit, 0), healthy) == 0);
  CHECK(shown(told(ExceptionKind::os_exit, 0), healthy) == 0);
  CHECK(shown(told(ExceptionKind::sys_exit, 3), healthy) == 1);
  CHECK(shown(told(ExceptionKind::thread, -1), healthy) == 1);
}

TEST_CASE("tracebacks: a call with status 0 is shown where its rank is blamed") {
  const model::Verdict early{.id = "exit.left_early", .kind = model::VerdictKind::exit, .ranks = {0}};
  CHECK(shown(told(ExceptionKind::sys_exit, 0), early) == 1);
  CHECK(shown(told(ExceptionKind::sys_exit, 0, 1), early) == 0);  // another rank's
}
