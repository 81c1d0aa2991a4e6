#include "launcher/supervise/handlers/evidence_service.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;
using model::DumpReason;

namespace {

struct EvidenceScene : test::JobScene {
  std::vector<bool> collected;
  EvidenceService service{{journal, table, options},
                          {.loop = loop, .started = [](base::Pid) {}, .program = "/nonexistent/xpurun"},
                          [this](bool of_a_stall) { collected.push_back(of_a_stall); }};

  std::optional<EvidenceRequest> request(DumpReason why) const {
    return service.request_for({.why = why, .trigger_rank = 1}, "/runs/1/dumps/1");
  }
};

}  // namespace

TEST_CASE("evidence is collected for dumps that may explain a hang or a death") {
  EvidenceScene s;
  s.options.evidence_timeout_s = 20;
  for (const DumpReason why : {DumpReason::request, DumpReason::signal, DumpReason::terminated}) {
    CHECK_FALSE(s.request(why));
  }
  const auto hang = s.request(DumpReason::hang);
  REQUIRE(hang);
  CHECK(hang->directory == "/runs/1/dumps/1");
  CHECK(hang->limit_s == 20);
  CHECK(hang->since_us == test::kStart / 1000);
  REQUIRE(hang->ranks.size() == 2);
  CHECK(hang->ranks[1].rank == 1);
  CHECK(hang->ranks[1].pid == test::kRank1);
  for (const DumpReason why : {DumpReason::crash, DumpReason::death}) {
    const auto death = s.request(why);
    REQUIRE(death);
    REQUIRE(death->ranks.size() == 1);  // rank 1 has failed and cannot answer
    CHECK(death->ranks[0].rank == 0);
    CHECK(death->limit_s == 3);  // people wait for the exit status
  }
  s.options.evidence_timeout_s = 2;
  CHECK(s.request(DumpReason::death)->limit_s == 2);
  s.options.evidence_timeout_s = 0;
  CHECK_FALSE(s.request(DumpReason::hang));
}

TEST_CASE("a process that was killed without a dump needs the kernel's log at the end") {
  struct Row {
    int signal;
    const char* cause;
    bool wanted;
  };
  for (const Row& row :
       {Row{SIGKILL, "", true}, Row{SIGKILL, "ended by xpurun", false}, Row{SIGTERM, "", false}}) {
    CAPTURE(row.signal);
    EvidenceScene s;
    s.options.evidence_timeout_s = 20;
    s.run_for(1);
    CHECK_FALSE(s.service.lacks_evidence());
    model::Death& death = s.table.find(test::kRank1)->record.death;
    death = {
        .happened = true, .at_s = 1, .wait_status = base::WaitStatus(row.signal), .cause_hint = row.cause};
    CHECK(s.service.lacks_evidence() == row.wanted);
    s.service.command_ended("x");
    CHECK(s.service.busy() == row.wanted);
    s.run_for(1);
    CHECK_FALSE(s.service.busy());
  }
  EvidenceScene s;  // the dump has the log
  s.options.evidence_timeout_s = 20;
  s.table.find(test::kRank1)->record.death = {
      .happened = true, .at_s = 1, .wait_status = base::WaitStatus(SIGKILL), .cause_hint = {}};
  s.run_for(2);
  s.service.dump_begun({.why = DumpReason::death}, "x");
  CHECK_FALSE(s.service.lacks_evidence());
}

TEST_CASE("the end of the collection says whether it was for a stall") {
  EvidenceScene s;
  s.options.evidence_timeout_s = 20;
  s.service.dump_begun({.why = DumpReason::request}, "x");
  CHECK_FALSE(s.service.busy());
  s.run_for(1);
  CHECK(s.collected.empty());
  s.service.dump_begun({.why = DumpReason::hang}, "x");  // the helper cannot be started
  s.run_for(1);
  CHECK_FALSE(s.service.busy());
  s.service.dump_begun({.why = DumpReason::death}, "x");
  s.run_for(1);
  CHECK(s.collected == std::vector<bool>{true, false});
}
