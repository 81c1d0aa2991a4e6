#include "launcher/supervise/verdict_handler.h"
#include "tests/unit/launcher/job_scene.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;
using test::Told;

namespace {

struct VerdictHandlerScene : test::JobScene {
  JobState job;
  bool several_ranks = true;
  bool interrupted = false;
  bool collecting = false;
  std::string obstacle;  // obstacle to a restart
  int found = 0;
  int passed = 0;
  std::vector<std::string> published;
  int times_told = 0;
  model::Verdict from_memory;
  VerdictHandler verdicts{{journal, job, options},
                          {.diagnose = [this] { return from_memory; },
                           .several_ranks = [this] { return several_ranks; },
                           .was_interrupted = [this] { return interrupted; },
                           .end_the_job = teller("END"),
                           .restart_obstacle = [this] { return obstacle; },
                           .restart_the_ranks = teller("RESTART"),
                           .hang_found = [this](const model::Stall&) { ++found; },
                           .hang_passed = [this](const model::Stall&) { ++passed; },
                           .collecting_evidence = [this] { return collecting; },
                           .publish = [this](const model::Verdict& v) { published.push_back(v.sentence); },
                           .reported = [this] { ++times_told; },
                           .say_sentence = [this](const model::Verdict& v) { tell(v.sentence); },
                           .say_report = [this] { tell("report"); },
                           .say = [this](const std::string& line) { tell(line); }}};

  bool stall_ended() { return verdicts.stall_ended(*journal.open_stall()); }
  void open_stall() { journal.manifest().stalls.push_back({.n = 1, .at_s = 10, .dump = "dumps/1-hang"}); }
  static model::Verdict hang(model::VerdictLevel level = model::VerdictLevel::confirmed) {
    model::Verdict v;
    v.kind = model::VerdictKind::hang;
    v.level = level;
    v.dump = "dumps/1-hang";
    v.sentence = "hang: rank 1";
    return v;
  }
  void end_for_hang() {
    open_stall();
    options.on_hang = OnHang::kill;
    options.grace_s = 30;
    CHECK(take(hang()).back() == "END");
    job.ended_by_us = true;
  }
  Told take(const model::Verdict& verdict, const std::string& problem = "") {
    verdicts.take({.verdict = verdict, .problem = problem});
    return told();
  }
};

const Told kAnnounced = {"hang: rank 1", "report"};

}  // namespace

TEST_CASE("a hang is announced once and recorded with its stall, and progress is reported") {
  VerdictHandlerScene s;
  s.open_stall();
  CHECK(s.take(VerdictHandlerScene::hang()) == kAnnounced);
  CHECK(s.journal.manifest().verdict.kind == model::VerdictKind::hang);
  CHECK(s.journal.manifest().stalls[0].verdict.kind == model::VerdictKind::hang);
  CHECK(s.take(VerdictHandlerScene::hang()).empty());
  CHECK(s.published.front() == "hang: rank 1");
  s.run_for(25);
  CHECK(s.stall_ended());
  CHECK(s.told() == Told{"progress again at 25 s, after 25 s"});
  CHECK(s.journal.manifest().verdict.kind == model::VerdictKind::running);
  CHECK(s.journal.open_stall() == nullptr);
}

TEST_CASE("each of two stalls has its verdict, is said and is ended for itself") {
  VerdictHandlerScene s;
  s.open_stall();
  s.journal.manifest().stalls.push_back({.n = 2, .at_s = 20, .dump = "dumps/2-hang", .pending = true});
  s.options.on_hang = OnHang::kill;
  s.options.grace_s = 30;
  model::Verdict idle = VerdictHandlerScene::hang(model::VerdictLevel::suspected);
  idle.sentence = "stall: rank 2 idles for 9.5 s";
  CHECK(s.take(idle) == Told{"stall: rank 2 idles for 9.5 s", "report"});
  idle.sentence = "stall: rank 2 idles for 2m05s";
  CHECK(s.take(idle).empty());  // only the time is new
  model::Verdict other = VerdictHandlerScene::hang();
  other.dump = "dumps/2-hang";
  SUBCASE("the second one is confirmed") {
    CHECK(s.take(other) ==
          Told{"hang: rank 1", "ending the job (--on-hang kill): TERM, 30 s grace, KILL", "END"});
    CHECK(s.journal.manifest().stalls[0].action == model::HangAction::none);
    CHECK(s.journal.manifest().stalls[1].action == model::HangAction::kill);
    CHECK_FALSE(s.journal.manifest().stalls[1].pending);
  }
  SUBCASE("the second one passes, and the verdict on the first one stands") {
    other.level = model::VerdictLevel::suspected;
    CHECK(s.take(other) == kAnnounced);
    s.run_for(25);
    CHECK(s.verdicts.stall_ended(s.journal.manifest().stalls[1]));
    CHECK(s.told().front().starts_with("progress again at 25 s"));
    CHECK(s.journal.manifest().verdict.sentence == idle.sentence);
    CHECK(s.journal.open_stall()->n == 1);
  }
}

TEST_CASE("a verdict that comes before its report is announced at once, and the page when it is there") {
  VerdictHandlerScene s;
  s.open_stall();
  s.verdicts.take({.verdict = VerdictHandlerScene::hang(), .unfinished = true});
  CHECK(s.told() == Told{"hang: rank 1"});
  SUBCASE("with the report") {
    CHECK(s.take(VerdictHandlerScene::hang()) == Told{"report"});
    CHECK(s.take(VerdictHandlerScene::hang()).empty());
  }
  SUBCASE("or why there is none") {
    CHECK(s.take(VerdictHandlerScene::hang(), "disk full") == Told{"no report: disk full"});
  }
  SUBCASE("but not while the job ends, whose last words name it") {
    s.job.phase = JobPhase::settled;
    CHECK(s.take(VerdictHandlerScene::hang()).empty());
  }
}

TEST_CASE("a verdict after the stall was cleared is reported with the progress") {
  VerdictHandlerScene s;
  s.open_stall();
  s.run_for(25);
  CHECK(s.stall_ended());
  CHECK(s.told().empty());
  Told expected = kAnnounced;
  expected.push_back("progress again at 25 s, after 25 s");
  CHECK(s.take(VerdictHandlerScene::hang()) == expected);
}

TEST_CASE("a hang is announced while evidence is collected, and ends the job after it") {
  VerdictHandlerScene s;
  s.open_stall();
  s.options.on_hang = OnHang::kill;
  s.options.grace_s = 30;
  s.collecting = true;
  CHECK(s.take(VerdictHandlerScene::hang()) == Told{"hang: rank 1"});
  CHECK(s.journal.manifest().outcome == model::RunOutcome::running);
  s.collecting = false;
  SUBCASE("without the same sentence again") {
    CHECK(s.take(VerdictHandlerScene::hang()) ==
          Told{"ending the job (--on-hang kill): TERM, 30 s grace, KILL", "END"});
  }
  SUBCASE("with what the evidence has added") {
    model::Verdict more = VerdictHandlerScene::hang();
    more.where.line = 12;
    CHECK(s.take(more) ==
          Told{"hang: rank 1", "ending the job (--on-hang kill): TERM, 30 s grace, KILL", "END"});
  }
}

TEST_CASE("of a job that the user ends, a stall is told at the end, and ends nothing") {
  VerdictHandlerScene s;
  s.options.on_hang = OnHang::kill;
  s.interrupted = true;
  s.open_stall();
  CHECK(s.take(VerdictHandlerScene::hang()).empty());
  s.verdicts.print_end();
  CHECK_FALSE(s.told().empty());
}

TEST_CASE("only a confirmed hang ends the job, once") {
  VerdictHandlerScene s;
  s.open_stall();
  s.options.on_hang = OnHang::kill;
  s.options.grace_s = 30;
  CHECK(s.take(VerdictHandlerScene::hang(model::VerdictLevel::suspected)).front() == "hang: rank 1");
  CHECK(s.journal.manifest().outcome == model::RunOutcome::running);
  CHECK(s.take(VerdictHandlerScene::hang()) ==
        Told{"hang: rank 1", "ending the job (--on-hang kill): TERM, 30 s grace, KILL", "END"});
  CHECK(s.journal.manifest().outcome == model::RunOutcome::hang);
  s.job.ended_by_us = true;
  CHECK(s.take(VerdictHandlerScene::hang()).empty());
}

TEST_CASE("ranks that move while xpurun ends them make no progress") {
  VerdictHandlerScene s;
  s.end_for_hang();
  CHECK_FALSE(s.stall_ended());
  CHECK(s.told().empty());
  CHECK(s.passed == 0);
  CHECK(s.journal.manifest().verdict.kind == model::VerdictKind::hang);
}

TEST_CASE("a report that comes while the job is being ended is told at the end of the run") {
  VerdictHandlerScene s;
  s.end_for_hang();
  CHECK(s.take(VerdictHandlerScene::hang()).empty());
  s.verdicts.print_end();
  CHECK(s.told() == kAnnounced);
}

TEST_CASE("a confirmed hang restarts the ranks, and is over after the restart") {
  VerdictHandlerScene s;
  s.open_stall();
  s.options.on_hang = OnHang::restart;
  s.options.grace_s = 30;
  s.collecting = true;
  CHECK(s.take(VerdictHandlerScene::hang()) == kAnnounced);
  s.collecting = false;
  CHECK(s.take(VerdictHandlerScene::hang()) ==
        Told{"ending the ranks, for the launcher to start them again (--on-hang "
             "restart, hang 1 of at most 3): TERM, 30 s grace, KILL",
             "RESTART"});
  model::RunManifest& run = s.journal.manifest();
  CHECK(run.stalls[0].action == model::HangAction::restart);
  CHECK(s.take(VerdictHandlerScene::hang()).empty());
  s.run_for(12);
  CHECK_FALSE(s.stall_ended());  // the ranks have died
  CHECK(s.told().empty());
  CHECK(s.passed == 0);
  CHECK(run.verdict.kind == model::VerdictKind::hang);
  s.run_for(3);
  s.verdicts.ranks_restarted();
  CHECK(s.told() == Told{"the launcher has restarted the ranks (5.0 s after the stall was found)"});
  CHECK(run.stalls[0].cleared_s == doctest::Approx(12));
  CHECK(run.stalls[0].restarted_s == doctest::Approx(15));
  CHECK(run.verdict.kind == model::VerdictKind::running);
  CHECK(run.outcome == model::RunOutcome::running);
  CHECK(s.passed == 1);
  CHECK(s.found == 3);
}

TEST_CASE("the job is ended if no launcher would restart the ranks, or they hang too often") {
  VerdictHandlerScene s;
  s.options.on_hang = OnHang::restart;
  s.options.grace_s = 30;
  std::string why;
  SUBCASE("no launcher") {
    s.obstacle = why = "no rank is alive";
  }
  SUBCASE("too many hangs") {
    s.options.max_hangs = 1;
    model::Stall past{.n = 1, .cleared_s = 5, .dump = "dumps/0-hang"};
    past.verdict = VerdictHandlerScene::hang();
    s.journal.manifest().stalls.push_back(past);
    why = "this is hang 2 of the run (--max-hangs 1)";
  }
  s.open_stall();
  CHECK(s.take(VerdictHandlerScene::hang()) ==
        Told{"hang: rank 1", "warning: the ranks are not restarted: " + why,
             "ending the job (--on-hang restart): TERM, 30 s grace, KILL", "END"});
  CHECK(s.journal.manifest().outcome == model::RunOutcome::hang);
  CHECK(s.journal.manifest().stalls.back().action == model::HangAction::kill);
}

TEST_CASE("without a report the verdict comes from memory, with the reason") {
  VerdictHandlerScene s;
  s.open_stall();
  s.from_memory = VerdictHandlerScene::hang();
  s.verdicts.take({.verdict = std::nullopt, .problem = "the disk is full"});
  CHECK(s.told().back() == "no report: the disk is full");
}

TEST_CASE("the end repeats a verdict that matters") {
  VerdictHandlerScene s;
  model::Verdict exit;
  exit.kind = model::VerdictKind::exit;
  exit.sentence = "exit: rank 1 exited with status 3";
  CHECK(s.take(exit).empty());
  s.verdicts.print_end();
  CHECK(s.told() == Told{exit.sentence, "report"});
  SUBCASE("of a single process without evidence, which that process has told itself") {
    s.several_ranks = false;
    s.journal.manifest().verdict.evidence = {"a line"};
    s.verdicts.print_end();
    CHECK(s.told() == Told{exit.sentence, "report"});
  }
  SUBCASE("not of a single process that the user has interrupted") {
    s.several_ranks = false;
    s.journal.manifest().verdict.kind = model::VerdictKind::interrupted;
    s.verdicts.print_end();
    CHECK(s.told().empty());
    s.journal.manifest().verdict.ranks = {0};  // which stood still
    s.verdicts.print_end();
    CHECK(s.told() == Told{exit.sentence, "report"});
  }
  SUBCASE("not with --quiet") {
    s.options.verbosity = -1;
    s.verdicts.print_end();
    CHECK(s.told().empty());
  }
}

TEST_CASE("the end is published even if nothing is printed, but a success is not") {
  VerdictHandlerScene s;
  s.options.verbosity = -1;
  s.journal.manifest().verdict.kind = model::VerdictKind::none;
  s.verdicts.print_end();
  CHECK(s.published.empty());
  s.journal.manifest().verdict.kind = model::VerdictKind::crash;
  s.journal.manifest().verdict.sentence = "crash: rank 2";
  s.verdicts.print_end();
  CHECK(s.told().empty());
  CHECK(s.published == Told{"crash: rank 2"});
}

TEST_CASE("in a Chinese run the terminal gets the verdict's Chinese words, programs the English ones") {
  VerdictHandlerScene s;
  s.options.language = base::Language::chinese;
  s.open_stall();
  model::Verdict spoken = VerdictHandlerScene::hang();
  spoken.sentence = "挂起：rank 1";
  s.verdicts.take({.verdict = VerdictHandlerScene::hang(), .spoken = spoken});
  CHECK(s.told() == Told{"挂起：rank 1", "report"});
  CHECK(s.published == std::vector<std::string>{"hang: rank 1"});
  CHECK(s.journal.manifest().verdict.sentence == "hang: rank 1");
  s.run_for(25);
  CHECK(s.stall_ended());
  CHECK(s.told() == Told{"25 s 时恢复进展，此前停滞 25 s"});
}

TEST_CASE("in a Chinese run a verdict without Chinese words is said from its fields") {
  VerdictHandlerScene s;
  s.options.language = base::Language::chinese;
  s.open_stall();
  model::Verdict foreign = VerdictHandlerScene::hang();
  foreign.ranks = {1};
  foreign.state = model::RankState::stuck;
  foreign.seconds = 12;
  CHECK(s.take(foreign) == Told{"挂起：rank 1 卡住 已 12 s", "report"});
}
