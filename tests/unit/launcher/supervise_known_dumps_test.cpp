#include "launcher/dumps/known_dumps.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;

TEST_CASE("a hang has a verdict from the supervisor's memory alone") {
  model::RunManifest run;
  run.outcome = model::RunOutcome::running;
  run.hang_timeout_s = 2;
  run.elapsed_s = 3;
  run.host = "a";
  run.world_size = 1;
  run.processes.push_back({.pid = 7, .role = model::ProcessRole::rank, .rank = 0, .python = true});
  run.dumps.push_back({.n = 1, .why = model::DumpReason::hang, .dir = "dumps/1-hang", .at_s = 2});
  run.stalls.push_back({.n = 1, .at_s = 2, .dump = "dumps/1-hang"});
  model::RankObservation seen;
  seen.rank = 0;
  seen.pid = 7;
  seen.host = "a";
  seen.state = 'S';
  seen.still_s = 2;
  seen.function = "step";
  seen.file = "train.py";
  seen.line = 12;
  seen.has_python = true;
  KnownDumps known;
  known.keep(
      "dumps/1-hang",
      {.n = 1, .why = model::DumpReason::hang, .host = "a", .at_s = 2, .hang_timeout_s = 2, .ranks = {seen}});
  const model::Verdict verdict = known.diagnose(run);
  CHECK(verdict.kind == model::VerdictKind::hang);
  CHECK(verdict.dump == "dumps/1-hang");
  CHECK(verdict.ranks.ranks() == std::vector<base::Rank>{0});
  CHECK(verdict.sentence.find("step (train.py:12)") != std::string::npos);

  for (int n = 2; n < 20; ++n) {
    known.keep("dumps/" + std::to_string(n), {.n = n});
  }
  CHECK(known.find("dumps/1-hang") == nullptr);
  CHECK(known.find("dumps/19")->n == 19);
  CHECK(known.diagnose(run).kind == model::VerdictKind::hang);
}
