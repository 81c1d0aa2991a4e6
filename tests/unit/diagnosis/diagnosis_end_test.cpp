#include "report/diagnosis/diagnose.h"

#include <doctest/doctest.h>

using namespace xpurun;

TEST_CASE("a run that ended with status 0 has no culprit") {
  report::Facts facts;
  facts.run.outcome = "exit";
  facts.run.child_status = 0;
  facts.run.elapsed_s = 12;
  CHECK(report::diagnose(facts).kind == "none");
}
