#include "report/diagnosis/several_nodes.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace xpurun;
using namespace xpurun::report;
using model::VerdictKind;

namespace {

model::RunManifest run_on_b() {
  model::RunManifest run{.host = "b"};
  run.verdict.kind = VerdictKind::hang;
  run.verdict.ranks = {5};
  run.verdict.host = "a";
  model::say(run.verdict, "rank 5 sleeps");
  run.job_report_host = "a";
  run.job_report_dir = "/runs/1";
  return run;
}

}  // namespace

TEST_CASE("the verdict of the job that another node has made") {
  struct Row {
    const char* about;
    void (*change)(model::RunManifest&);
    bool counts;
  };
  for (const Row& row : {
           Row{"a hang", [](model::RunManifest&) {}, true},
           Row{"a crash", [](model::RunManifest& r) { r.verdict.kind = VerdictKind::crash; }, true},
           Row{"its directory is not known", [](model::RunManifest& r) { r.job_report_dir.clear(); }, true},
           Row{"this node has judged", [](model::RunManifest& r) { r.job_report_host.clear(); }, false},
           Row{"the run goes on", [](model::RunManifest& r) { r.verdict.kind = VerdictKind::running; },
               false},
           Row{"the run has ended well", [](model::RunManifest& r) { r.verdict.kind = VerdictKind::none; },
               false},
           Row{"the file is damaged", [](model::RunManifest& r) { r.verdict.sentence.clear(); }, false},
           Row{"runs were merged", [](model::RunManifest& r) { r.nodes.resize(2); }, false},
       }) {
    CAPTURE(row.about);
    auto run = run_on_b();
    row.change(run);
    const auto verdict = verdict_of_job(run);
    REQUIRE(verdict.has_value() == row.counts);
    CHECK((!verdict || verdict->ranks == model::RankSet{5}));
  }
}

TEST_CASE("the pid of a culprit on another host says nothing here") {
  struct Row {
    const char* culprit;
    const char* judge;
    size_t merged;
    bool elsewhere;
  };
  for (const Row& row : {Row{"a", "a", 0, true}, Row{"b", "a", 0, false}, Row{"", "a", 0, false},
                         Row{"a", "", 0, false}, Row{"a", "", 2, true}, Row{"b", "", 2, false}}) {
    CAPTURE(row.culprit);
    CAPTURE(row.merged);
    auto run = run_on_b();
    run.job_report_host = row.judge;
    run.nodes.resize(row.merged);
    run.verdict.host = row.culprit;
    CHECK(is_culprit_elsewhere(run, run.verdict) == row.elsewhere);
  }
}

TEST_CASE("run.json keeps where the report of all nodes is") {
  const auto back = model::run_manifest_from_json(to_json(run_on_b()));
  REQUIRE(back);
  CHECK(back->job_report_host == "a");
  CHECK(back->job_report_dir == "/runs/1");
  CHECK_FALSE(to_json(model::RunManifest{}).contains("job_report_host"));
}
