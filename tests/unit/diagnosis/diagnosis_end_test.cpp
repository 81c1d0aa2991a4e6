#include "common/base/tr.h"
#include "report/diagnosis/vocabulary.h"
#include "report/diagnosis/wording.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::RankSet;
using model::Verdict;

TEST_CASE("a run that ended with status 0 has no culprit") {
  Job job(4);
  for (base::Rank r = 0; r < 4; ++r) {
    job.died(r, exited(0), 58 + r * 0.1);
  }
  job.agent_died(0, 59).ended(0);
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "none.finished");
  CHECK(v.kind == model::VerdictKind::none);
  CHECK(v.level == model::VerdictLevel::none);
  CHECK(v.sentence == "all 4 ranks finished normally in 60 s");
  CHECK(dump_that_matters(job.facts.run).empty());
}

TEST_CASE("of a job of several nodes a node tells its own ranks") {
  struct Row {
    size_t ranks;
    int world_size;
    size_t nodes;  // put together
    const char* sentence;
  };
  for (const Row& row : {Row{4, 4, 0, "all 4 ranks finished normally in 60 s"},
                         Row{4, 16, 0, "all 4 ranks of this node finished normally in 60 s"},
                         Row{1, 4, 0, "the only rank of this node finished normally in 60 s"},
                         Row{4, 16, 4, "all 4 ranks finished normally in 60 s"},
                         Row{4, 0, 0, "all 4 ranks finished normally in 60 s"}}) {
    CAPTURE(row.sentence);
    Job job(static_cast<int>(row.ranks));
    job.facts.run.world_size = row.world_size;
    job.facts.run.nodes.resize(row.nodes);
    for (base::Rank r = 0; r < static_cast<base::Rank>(row.ranks); ++r) {
      job.died(r, exited(0), 58 + r * 0.1);
    }
    job.agent_died(0, 59).ended(0);
    CHECK(diagnose(job.facts).sentence == row.sentence);
  }
}

TEST_CASE("past stalls are mentioned after a clean end") {
  Job job(4);
  model::Stall past;
  past.at_s = 20;
  past.cleared_s = 22;
  past.dump = "dumps/1-hang";
  past.verdict = {.id = "hang.busy", .kind = model::VerdictKind::hang, .ranks = {2}, .seconds = 10};
  job.facts.run.stalls.push_back(past);
  job.ended(0);
  const Verdict v = diagnose(job.facts);
  CHECK(v.kind == model::VerdictKind::none);
  REQUIRE(v.evidence.size() == 1);
  CHECK(v.evidence[0] == "at 20 s: rank 2 stalled the job for about 12 s, then the job continued");
}

TEST_CASE("a stall of the past without a rank to blame") {
  Job job(1);
  job.facts.run.hang_timeout_s = 2;
  model::Stall past;
  past.at_s = 4;
  past.cleared_s = 9;
  past.verdict = {.id = "hang.unknown", .kind = model::VerdictKind::hang};
  job.facts.run.stalls.push_back(past);
  job.ended(0);
  const Verdict v = diagnose(job.facts);
  REQUIRE(v.evidence.size() == 1);
  CHECK(v.evidence[0] == "at 4 s: the job stalled for about 7 s, then the job continued");
}

TEST_CASE("a stall that was reported twice keeps its true length") {
  Job job(1);
  job.facts.run.hang_timeout_s = 2;
  model::Stall past;
  past.at_s = 2;
  past.cleared_s = 8;
  past.dump = "dumps/1-hang";
  past.verdict = {.id = "hang.stuck", .kind = model::VerdictKind::hang, .ranks = {0}, .seconds = 6};
  job.facts.run.stalls.push_back(past);
  job.ended(0);
  const Verdict v = diagnose(job.facts);
  REQUIRE(v.evidence.size() == 1);
  CHECK(v.evidence[0] == "at 2 s: rank 0 stalled the job for about 8 s, then the job continued");
}

TEST_CASE("status 0 of a wrapper does not hide a rank that failed") {
  Job job(2);
  job.died(0, exited(1), 3).died(1, kTerm, 4, "ended by the launcher").ended(0);
  CHECK(diagnose(job.facts).id == "exit.error");
}

TEST_CASE("an interrupted launcher that waited for other nodes") {
  model::RunManifest run{.elapsed_s = 60};
  run.outcome = model::RunOutcome::interrupted;
  run.interrupt.signal = kTerm;
  run.processes.push_back({.pid = 7, .role = model::ProcessRole::rank, .rank = 0});
  model::ProcessRecord& launcher = run.processes.back();
  launcher.cmdline = {"python3", "-m", "torch.distributed.run", "--nnodes=1:2", "train.py"};
  launcher.file = "/usr/lib/python3/torch/distributed/elastic/utils/store.py";
  Facts facts;
  facts.run = run;
  const Verdict v = diagnose(facts);
  CHECK(v.id == "interrupted.signal");
  CHECK(
      v.sentence ==
      "interrupted: by SIGTERM after 60 s, while the launcher waited in rendezvous for other nodes (--nnodes "
      "1:2), and had started no rank");
  // Its ranks had been started.
  facts.run.processes.push_back({.pid = 8, .role = model::ProcessRole::rank, .rank = 0});
  CHECK(diagnose(facts).sentence == "interrupted: by SIGTERM after 60 s");
}

TEST_CASE("an interrupted run, and one interrupted because it hung") {
  Job job(4);
  job.facts.run.outcome = model::RunOutcome::interrupted;
  job.facts.run.exit_status = 130;
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "interrupted.signal");
  CHECK(v.sentence == "interrupted: by SIGINT after 60 s");
  job.all(in_all_reduce()).rank(2, in_sleep()).hang_dump();
  v = diagnose(job.facts);
  CHECK(v.id == "interrupted.while_hung");
  CHECK(v.kind == model::VerdictKind::interrupted);
  CHECK(v.ranks == RankSet{2});
  CHECK(v.sentence.starts_with("interrupted: by SIGINT after 60 s, while rank 2 has been in "));
  // Only Ctrl-C is the user's.
  job.facts.run.interrupt = {.signal = kTerm};
  CHECK(diagnose(job.facts).sentence.starts_with("interrupted: by SIGTERM after 60 s, while rank 2 "));
  job.facts.run.interrupt = {.signal = SIGINT, .from_terminal = true};
  job.facts.run.interrupt.elsewhere = {
      {.rank = 9, .host = "node2", .still_s = 13, .where = "train.py:5 read"}};
  v = diagnose(job.facts);
  CHECK(v.sentence.starts_with("interrupted: by the user after 60 s, while rank 2 "));
  CHECK(v.sentence.ends_with("; on host node2, rank 9 had been at train.py:5 read for 13 s"));
}

TEST_CASE("an interrupted job that did not stand still says where its ranks were") {
  Job job(3);
  job.facts.run.outcome = model::RunOutcome::interrupted;
  job.facts.run.interrupt = {.signal = SIGINT, .at_s = 50};
  job.record(0).place = {.function = "read", .file = "/home/u/fit.py", .line = 5};
  job.record(1).place = job.record(2).place = {.function = "converge", .file = "/home/u/fit.py", .line = 7};
  job.died(0, exited(0), 20).died(1, SIGINT, 50.1).died(2, SIGINT, 50.2);
  const Verdict v = diagnose(job.facts);
  REQUIRE(v.sentence == "interrupted: by SIGINT after 60 s");
  const auto told = [&](const std::string& line) {
    return std::find(v.evidence.begin(), v.evidence.end(), line) != v.evidence.end();
  };
  CHECK(told("last seen before the signal: ranks 1-2 in converge (fit.py:7)"));
  CHECK(told("ended before the signal: rank 0"));
}

TEST_CASE("a look at a job says where it stands, and calls nothing a hang") {
  Job job(4);
  job.facts.run.judged_now = true;
  job.facts.run.outcome = model::RunOutcome::detached;
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "running.now");
  CHECK(v.sentence == "running: all 4 ranks, and no rank stood still for a second");
  job.all(in_all_reduce()).rank(2, in_sleep()).hang_dump();
  v = diagnose(job.facts);
  CHECK(v.id == "running.now");
  CHECK(v.ranks == RankSet{2});
  CHECK(v.level == model::VerdictLevel::suspected);
  CHECK(v.sentence.starts_with("running: rank 2 has been in "));
  CHECK(v.sentence.find("xpurun looked") == std::string::npos);
  // Of a job that xpurun has not started, it has seen only the time of its look.
  job.facts.run.attached = true;
  job.facts.run.elapsed_s = 3;
  v = diagnose(job.facts);
  CHECK(v.sentence.starts_with("running: rank 2 has been in "));
  CHECK(v.sentence.ends_with("; xpurun looked for 3 s, so that the stillness may be older"));
}

TEST_CASE("a run whose end was not observed") {
  Job job(4);
  const Verdict v = diagnose(job.facts);
  CHECK(v.kind == model::VerdictKind::running);
  CHECK(v.id == "running.unfinished");
  CHECK(diagnose({}).kind == model::VerdictKind::running);
}

TEST_CASE("a run that continues after a stall has no hang verdict") {
  Job job(4);
  job.all(in_all_reduce()).rank(2, in_sleep()).hang_dump();
  job.facts.run.stalls[0].cleared_s = 61;
  CHECK(diagnose(job.facts).kind == model::VerdictKind::running);
}

TEST_CASE("a crash while the run continues") {
  Job job(4);
  job.notice(1, kSegv, 12).crash_dump();
  job.all(in_all_reduce()).rank(1, in_compute());
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "crash.signal");
  CHECK(v.sentence.ends_with("; ranks 0,2-3 wait for it in all_reduce (train.py:44)"));
}

TEST_CASE("a command that did not start") {
  Job job(0);
  job.facts.run.outcome = model::RunOutcome::spawn_failed;
  job.facts.run.exit_status = 127;
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "exit.not_started");
  CHECK(v.exit_code == 127);
}

TEST_CASE("a rank that stood still and then leaves with 0 had moved again") {
  Job job(2);
  job.all(in_all_reduce()).rank(1, in_sleep()).hang_dump();
  job.facts.run.stalls[0].verdict.ranks = {1};
  const double at_s = job.facts.run.stalls[0].at_s;
  job.died(1, 0, at_s + 4).died(0, 1 << 8, at_s + 4.2).ended(1 << 8);
  CHECK(diagnose(job.facts).id == "exit.left_early");
  // A rank that fails first, as by its own timeout, leaves the stall unexplained.
  Job timeout(2);
  timeout.all(in_all_reduce()).rank(1, in_sleep()).hang_dump();
  timeout.facts.run.stalls[0].verdict.ranks = {1};
  timeout.died(0, 1 << 8, at_s + 4).died(1, 0, at_s + 4.2).ended(1 << 8);
  CHECK(diagnose(timeout.facts).kind == model::VerdictKind::hang);
}

TEST_CASE("ranks that outlive their launcher are named") {
  Job job(3);
  job.died(2, exited(0), 57);
  for (const base::Rank r : {0, 1}) {
    job.record(r).left = true;
    job.record(r).cmdline = {"python3", "train.py"};
  }
  Verdict v;
  SUBCASE("that ended well") {
    job.agent_died(0, 58).ended(0);
    v = diagnose(job.facts);
    CHECK(v.id == "none.ranks_left");
    CHECK(v.kind == model::VerdictKind::none);
    CHECK(v.ranks == RankSet{0, 1});
    CHECK(v.sentence ==
          "the command ended with status 0 after 60 s, while ranks 0-1 go on (pid 100, 101: python3 "
          "train.py), and "
          "xpurun neither waits for them nor ends them");
    CHECK(v.next.command == "kill 100 101");
  }
  SUBCASE("that was killed") {
    job.record(1).left = false;
    job.died(1, exited(0), 57);
    job.agent_died(kKill, 58).ended(kKill);
    v = diagnose(job.facts);
    CHECK(v.id == "crash.launcher");
    CHECK(v.sentence.ends_with(
        "; rank 0 goes on (pid 100: python3 train.py), and xpurun neither waits for it nor ends it"));
  }
}

TEST_CASE("a job that xpurun only watched") {
  Job job(4);
  job.facts.run.outcome = model::RunOutcome::detached;
  CHECK(diagnose(job.facts).id == "running.detached");
  job.facts.run.outcome = model::RunOutcome::exit;
  const Verdict v = diagnose(job.facts);
  CHECK(v.id == "none.unknown_status");
  CHECK(v.sentence.find("only their parent knows the exit status") != std::string::npos);
  job.all(in_all_reduce()).rank(2, in_sleep()).hang_dump();
  job.facts.run.outcome = model::RunOutcome::detached;
  CHECK(diagnose(job.facts).kind == model::VerdictKind::hang);
}

TEST_CASE("the choice of the dump behind a verdict") {
  Job hang(4);
  hang.all(in_all_reduce()).hang_dump();
  CHECK(dump_that_matters(hang.facts.run) == "dumps/1-hang");
  hang.facts.run.stalls[0].cleared_s = 70;
  CHECK(dump_that_matters(hang.facts.run).empty());  // the ranks go on, and none has failed
  hang.ended(0);
  CHECK(dump_that_matters(hang.facts.run).empty());
  hang.facts.run.dumps.push_back({.n = 1, .why = model::DumpReason::hang, .dir = "dumps/1-hang", .at_s = 60});
  CHECK(dump_that_matters(hang.facts.run).empty());
  Job crash(4);
  crash.notice(1, kSegv, 12).crash_dump();
  crash.facts.run.dumps.push_back({.n = 2, .why = model::DumpReason::request, .dir = "dumps/2-request"});
  CHECK(dump_that_matters(crash.facts.run) == "dumps/1-crash");
}

TEST_CASE("the terminal gets at most ten lines of evidence, and the advice") {
  Job job(64);
  job.all(in_all_reduce()).rank(2, in_sleep()).rank(7, in_lock()).rank(9, in_queue()).died(11, kKill, 40);
  job.unreadable(20, std::string(300, 'x')).worker(2, in_sleep()).worker(7, in_compute()).hang_dump();
  job.facts.run.stalls.front().verdict.sentence = "x";
  const Verdict v = diagnose(job.facts);
  const auto lines = evidence_lines(v);
  REQUIRE(lines.size() > 5);
  CHECK(lines.size() <= 11);
  CHECK(lines.back() == "next: " + v.next.line());
  for (const std::string& line : lines) {
    CAPTURE(line);
    CHECK(line.size() <= 440);
  }
}

TEST_CASE("evidence is never truncated on the terminal") {
  const std::string error =
      "cannot stop process 8947: Operation not permitted; the container or a security module forbids ptrace, "
      "or "
      "the program is not dumpable; try: docker run --cap-add=SYS_PTRACE";
  Job job(2);
  job.all(in_all_reduce()).unreadable(1, error).no_position(1).hang_dump();
  std::string all;
  for (const std::string& line : evidence_lines(diagnose(job.facts))) {
    all += line + ' ';
    CHECK(line.find("…") == std::string::npos);
  }
  CHECK(all.find("no stacks of rank 1: " + error + ' ') != std::string::npos);

  Verdict quoted;
  quoted.sentence = "exception: x";
  for (int i = 0; i < 40; ++i) {
    quoted.evidence.resize(1);
    quoted.evidence[0] += "x = " + std::to_string(i) + "; print(x) ";
  }
  const auto lines = evidence_lines(quoted);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == quoted.evidence[0]);  // a "; " of the program does not end a clause
}

TEST_CASE("a line of many clauses ends with a whole clause, in every language") {
  for (const base::Language language : {base::Language::english, base::Language::chinese}) {
    const base::Speaking speaking(language);
    std::vector<std::string> clauses;
    for (int i = 0; i < 40; ++i) {
      clauses.push_back("clause " + std::to_string(i) + ", with; a separator, is not short");
    }
    const std::string line = joined_clauses(clauses);
    CHECK(line.size() > 300);
    CHECK(line.size() <= 440);
    CHECK(line.starts_with(clauses[0] + base::tr("; ") + clauses[1]));
    CHECK(line.ends_with(", is not short"));
  }
  const std::string endless(1000, 'x');
  CHECK(joined_clauses({endless, "y"}) == endless);
  CHECK(joined_clauses({}).empty());
}

TEST_CASE("hostile names cannot control the terminal") {
  Job job(2);
  job.all(in_all_reduce()).rank(1, {py("f\x1b[2J\n", "/home/u/\x1b]0;x.py", 3, "g\x07")}).hang_dump();
  for (const std::string& line : evidence_lines(diagnose(job.facts))) {
    CHECK(line.find_first_of("\x1b\x07\n") == std::string::npos);
  }
}

TEST_CASE("docs/verdicts.md and the code have the same ids") {
  const char* root = std::getenv("XPURUN_TEST_SOURCE");
  REQUIRE(root != nullptr);
  std::ifstream in(std::string(root) + "/docs/verdicts.md");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  REQUIRE_FALSE(page.empty());
  for (const std::string_view id : kVerdictIds) {
    CAPTURE(id);
    CHECK(page.find("| `" + std::string(id) + "` |") != std::string::npos);
  }
  size_t rows = 0;
  for (size_t at = page.find("\n| `"); at != std::string::npos; at = page.find("\n| `", at + 1)) {
    const size_t end = page.find('`', at + 4);
    const std::string id = page.substr(at + 4, end - at - 4);
    if (id.find('.') != std::string::npos) {
      ++rows;
      CAPTURE(id);
      CHECK(std::find(kVerdictIds.begin(), kVerdictIds.end(), id) != kVerdictIds.end());
    }
  }
  CHECK(rows == kVerdictIds.size());
}

TEST_CASE("a short command is told alike, whether it was seen before its end or not") {
  const auto told = [](bool seen, int status, base::Rank rank = 0) {
    Job job(0);
    model::RunManifest& run = job.facts.run;
    run.processes.clear();
    run.command = {"/bin/sh", "-c", "exit 3"};
    run.main_pid = 4711;
    job.ended(status);
    run.elapsed_s = 0.2;
    if (seen) {
      model::ProcessRecord sh{
          .pid = 4711, .role = model::ProcessRole::rank, .rank = rank, .identity = model::RankSource::single};
      sh.comm = "dash";
      sh.death = {.happened = true, .at_s = 0.2, .wait_status = run.child_status};
      run.processes.push_back(sh);
    }
    return diagnose(job.facts);
  };
  for (const int status : {exited(0), exited(3), kKill, kSegv}) {
    CAPTURE(status);
    const Verdict seen = told(true, status);
    const Verdict unseen = told(false, status);
    CHECK(seen.sentence == unseen.sentence);
    CHECK(seen.id == unseen.id);
    CHECK(seen.ranks == unseen.ranks);
    CHECK(seen.state == unseen.state);
    CHECK(seen.confidence == unseen.confidence);
    CHECK(seen.next.line() == unseen.next.line());
    CHECK(seen.evidence == unseen.evidence);
  }
  CHECK(told(true, exited(3)).sentence.starts_with("exit: the command sh exited with status 3 after 0.2 s"));
  CHECK(told(true, exited(0)).sentence.starts_with("the command finished normally"));
}

TEST_CASE("a run whose record cannot be read is not called healthy") {
  const Facts nothing;
  CHECK(diagnose(nothing).sentence == "running: run.json cannot be read, so the end of the run is unknown");
  Job job(2);
  job.facts.run.elapsed_s = 12;
  CHECK(diagnose(job.facts).sentence.ends_with("when this was written, nothing wrong seen"));
}

TEST_CASE("the processes that a command has started do its work, if it makes no steps itself") {
  Job job(1);
  job.ended(0);
  job.facts.run.world_size = 1;
  CHECK(diagnose(job.facts).headline == "the only rank finished normally in 60 s");
  for (const char* word :
       {"from multiprocessing.spawn import spawn_main", "-c", "from multiprocessing.resource_tracker"}) {
    job.facts.run.processes.push_back({.pid = 500 + static_cast<base::Pid>(job.facts.run.processes.size()),
                                       .role = model::ProcessRole::worker,
                                       .rank = 0,
                                       .cmdline = {"python3", word},
                                       .python = true});
  }
  CHECK(diagnose(job.facts).headline == "the only rank finished normally in 60 s");  // a data loader's
  job.facts.measured = false;
  CHECK(diagnose(job.facts).headline ==
        "the command and the 2 processes that it started finished normally in 60 s");
}
