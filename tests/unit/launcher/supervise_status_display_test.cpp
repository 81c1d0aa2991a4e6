// StatusDisplay and the progress of a rank in /metrics.
#include "launcher/supervise/reporting/rank_progress.h"
#include "launcher/supervise/reporting/status_display.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::kRank1;

TEST_CASE("status line: on request, or by default outside of another run") {
  RunOptions options = default_run_options();
  options.verbosity = 0;
  for (const bool nested : {false, true}) {
    options.status = ShowStatus::always;
    CHECK(wants_status_line(options, nested));
    options.status = ShowStatus::automatic;
    CHECK(wants_status_line(options, nested) == !nested);
    options.status = ShowStatus::never;
    CHECK_FALSE(wants_status_line(options, nested));
  }
  options.status = ShowStatus::always;
  options.verbosity = -1;
  CHECK_FALSE(wants_status_line(options, false));
}

TEST_CASE("status line: a job of a single process has one on request only") {
  test::JobScene s;
  const LiveStatus status{.elapsed_s = 724, .world_size = 2};
  ProcessTable single(test::kSupervisor, test::kStart, s.fake.proc());
  FooterRecord record(-1);
  const StatusDisplay display({s.loop, s.table, s.options}, record, [&] { return status; });
  const StatusDisplay of_one({s.loop, single, s.options}, record, [&] { return status; });
  s.options.status = ShowStatus::automatic;
  CHECK(display.text(90) == "xpurun 12m04s | 0 of 2 ranks | starting");
  CHECK(of_one.text(90).empty());
  s.options.status = ShowStatus::always;
  CHECK(of_one.text(90) == display.text(90));
}

TEST_CASE("progress of a rank: hung after the timeout in an open stall") {
  test::JobScene s;
  StepWatch steps(0, [](const auto&, base::MonoNs) {});
  const auto progress = [&](std::optional<double> still_s, bool stall, double timeout_s = 10) {
    return rank_progress({s.table, steps, timeout_s, stall}, kRank1, still_s, std::nullopt);
  };
  CHECK(progress(10, true).hung);
  CHECK(progress(10, true).still_s == 10);
  CHECK_FALSE(progress(9, true).hung);
  CHECK_FALSE(progress(10, false).hung);
  CHECK_FALSE(progress(10, true, 0).hung);
  CHECK_FALSE(progress(std::nullopt, true).hung);
  CHECK(progress(std::nullopt, true).still_s < 0);
  CHECK(progress(1, false).steps == 0);
  for (const base::MonoNs at : {1, 2, 3}) {
    for (const model::Stage stage :
         {model::Stage::forward, model::Stage::backward, model::Stage::optimizer}) {
      steps.add(
          1, 1,
          std::vector<model::Span>{{.begin_ns = at * 1'000'000'000 + static_cast<int>(stage) * 1'000'000,
                                    .duration_ns = 1'000'000,
                                    .stage = stage,
                                    .thread = 5}});
    }
  }
  CHECK(progress(1, false).steps == steps.rank(1).steps);
  CHECK(progress(1, false).steps > 0);
  CHECK(rank_progress({s.table, steps, 10, false}, test::kRank0, 1, std::nullopt).steps == 0);
  CHECK(rank_progress({s.table, steps, 10, false}, test::kRank0, 1, std::nullopt).cpu.ready_s < 0);
  const model::LoadSample load{.run_delay_ns = 2'500'000'000, .throttled_ns = -1, .stolen_ns = 1'000'000'000};
  const CpuLosses lost = rank_progress({s.table, steps, 10, false}, test::kRank0, 1, load).cpu;
  CHECK(lost.ready_s == 2.5);
  CHECK(lost.throttled_s < 0);  // not known
  CHECK(lost.stolen_s == 1);
}
