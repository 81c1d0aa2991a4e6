// Verdicts of jobs that ended well, or were interrupted, and were slow.
#include "common/base/tr.h"
#include "report/diagnosis/vocabulary.h"
#include "report/diagnosis/wording.h"
#include "tests/unit/diagnosis/job.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::report::testing;
using model::RankSet;
using model::Verdict;

TEST_CASE("a job that ended well and was slow has a verdict") {
  Job job(4);
  job.ended(0);
  model::SpeedFinding slow{
      .problem = model::SpeedProblem::slow_rank,
      .cause = model::SlowCause::host_issue,
      .confidence = model::Confidence::medium,
      .ranks = {1},
      .place = "train.py:40 (collate)",
      .lost_s = 0.054,
      .share = 0.65,
      .sentence = "rank 1 costs 65 % of every step (54 ms): it needs longer in its own code"};
  job.facts.slow = {slow};
  Verdict v = diagnose(job.facts);
  CHECK(v.id == "slow.rank");
  CHECK(v.kind == model::VerdictKind::slow);
  CHECK(v.level == model::VerdictLevel::suspected);
  CHECK(v.ranks == RankSet{1});
  CHECK(v.pid == Job::pid_of(1));
  CHECK(v.sentence ==
        "slow: rank 1 costs 65 % of every step (54 ms) from the first step on, in collate (train.py:40)");
  CHECK(v.where.line == 40);
  CHECK(v.slow.share == doctest::Approx(0.65));
  CHECK(v.slow.step == -1);
  CHECK(v.evidence.front() == slow.sentence);
  CHECK(v.next.text ==
        "no capture shows the function: run the job again, with xpurun capture while the rank is slow");
  SUBCASE("no steps are known") {
    slow.lost_s = 0;
    slow.where = {.function = "relax", .file = "/home/u/heat.py", .line = 5};
    job.facts.slow = {slow};
    v = diagnose(job.facts);
    CHECK(v.sentence == "slow: rank 1 keeps the others waiting for 65 % of the time, in relax (heat.py:5)");
    CHECK(v.title == "rank 1 keeps the others waiting for 65 % of the time in relax (heat.py:5)");
  }
  SUBCASE("another program on the GPU") {
    slow.cause = model::SlowCause::gpu_shared;
    slow.place.clear();
    job.facts.slow = {slow};
    v = diagnose(job.facts);
    CHECK(v.sentence ==
          "slow: rank 1 costs 65 % of every step (54 ms) from the first step on; another program computes on "
          "the same GPU");
    CHECK(v.next.text.starts_with("end the other program"));
  }
  SUBCASE("in every eighth step only") {
    slow.period = 8;
    slow.sentence = "rank 1 is slow in every 8th step: 168 ms instead of 52 ms";
    job.facts.slow = {slow};
    v = diagnose(job.facts);
    CHECK(v.sentence == "slow: rank 1 is slow in every 8th step: 168 ms instead of 52 ms");
    CHECK(v.title.starts_with("rank 1 is slow in every 8th step"));
  }
  SUBCASE("since a step, in the function of a capture") {
    slow.since = 150;
    slow.since_wall_ns = 1'795'000'000'000'000'000;
    slow.where = {.function = "augment", .file = "/home/u/slow.py", .line = 6};
    job.facts.slow = {slow};
    v = diagnose(job.facts);
    CHECK(v.sentence ==
          "slow: rank 1 costs 65 % of every step (54 ms) since step 150 (11:06:40 UTC), in augment "
          "(slow.py:6)");
    CHECK(v.slow.step == 150);
    CHECK(v.slow.since == "2026-11-18T11:06:40Z");
  }
  SUBCASE("who had its CPUs: a stranger always, the job's own processes only if the rank gets no CPU") {
    model::MachineHistory machine;
    for (int i = 0; i < 4; ++i) {
      model::MachineReading reading;
      reading.values = {{.fact = model::MachineFact::no_cpu,
                         .object = "cpus 1",
                         .value = 1.9e6 * i,
                         .detail = {},
                         .rank = 1}};
      if (i == 1) {
        reading.intruders = {{.rank = 1,
                              .relation = model::CpuRelation::stranger,
                              .pid = 4711,
                              .command = "stress-ng",
                              .group = "/user.slice",
                              .watched_s = 2,
                              .cpu_s = 1.84}};
      }
      machine.add(reading, 1'795'000'000'000'000'000 + i * INT64_C(5'000'000'000));
    }
    job.facts.machines = {machine};
    job.facts.run.started_wall_ns = 1'795'000'000'000'000'000;
    job.facts.run.elapsed_s = 20;
    const std::string ready =
        "; rank 1 was ready to run and had no CPU for 38 % of the time; {} had 92 % of its CPUs";
    CHECK(diagnose(job.facts).sentence.ends_with(
        fmt::format(fmt::runtime(ready), "stress-ng (pid 4711, /user.slice)")));
    job.facts.machines[0].intruders[0].relation = model::CpuRelation::other_rank;
    job.facts.machines[0].intruders[0].owner = 2;
    CHECK(diagnose(job.facts).sentence.find("stress-ng") == std::string::npos);
    job.facts.slow[0].cause = model::SlowCause::cpu_contention;
    CHECK(diagnose(job.facts).sentence.ends_with(
        fmt::format(fmt::runtime(ready), "rank 2 (stress-ng pid 4711)")));
    job.facts.run.elapsed_s = 200;  // the spell was that of the start
    CHECK(diagnose(job.facts).sentence.find("stress-ng") == std::string::npos);
    job.facts.run.elapsed_s = 20;
    job.facts.slow[0].ranks = {3};  // another rank is slow
    CHECK(diagnose(job.facts).sentence.find("stress-ng") == std::string::npos);
  }
  SUBCASE("a rank that waits for a disk, and for a CPU as long as the others, is not said to lack the CPU") {
    const auto history = [](double storage, double others) {
      model::MachineHistory machine;
      for (int i = 0; i < 4; ++i) {
        model::MachineReading reading;
        const auto put = [&](model::MachineFact fact, base::Rank rank, double share) {
          reading.values.push_back({.fact = fact,
                                    .object = "x",
                                    .value = share * 5e6 * i,
                                    .detail = "fsync() of /a.log, / (ext4)",
                                    .rank = rank});
        };
        put(model::MachineFact::no_cpu, 1, 0.5);
        put(model::MachineFact::no_cpu, 2, others);
        put(model::MachineFact::storage_wait, 1, storage);
        if (i == 1) {
          reading.intruders = {{.rank = 1,
                                .relation = model::CpuRelation::stranger,
                                .pid = 4711,
                                .command = "cc1plus",
                                .watched_s = 2,
                                .cpu_s = 1.5}};
        }
        machine.add(reading, 1'795'000'000'000'000'000 + i * INT64_C(5'000'000'000));
      }
      return machine;
    };
    job.facts.run.started_wall_ns = 1'795'000'000'000'000'000;
    job.facts.run.elapsed_s = 15;
    const std::string disk =
        "; rank 1 was in calls to the file system for 70 % of the time (fsync() of /a.log, / (ext4))";
    job.facts.machines = {history(0.7, 0)};
    CHECK_MESSAGE(diagnose(job.facts).sentence.ends_with(disk), diagnose(job.facts).sentence);
    job.facts.slow[0].cause = model::SlowCause::cpu_contention;
    CHECK_MESSAGE(diagnose(job.facts).sentence.ends_with(disk), diagnose(job.facts).sentence);
    job.facts.machines = {history(0.35, 0)};
    CHECK_MESSAGE(diagnose(job.facts).sentence.find("; rank 1 was ready to run and had no CPU for 50 %") !=
                      std::string::npos,
                  diagnose(job.facts).sentence);
    job.facts.machines = {history(0, 0.45)};
    const std::string all =
        "; all ranks were ready to run and had no CPU for up to 50 % of the time; cc1plus (pid 4711) had 75 "
        "% of "
        "the CPUs of rank 1";
    CHECK_MESSAGE(diagnose(job.facts).sentence.ends_with(all), diagnose(job.facts).sentence);
    job.facts.slow[0].ranks = {};
    job.facts.slow[0].problem = model::SpeedProblem::slower;
    CHECK_MESSAGE(diagnose(job.facts).sentence.ends_with(all), diagnose(job.facts).sentence);
  }
  SUBCASE("the whole job") {
    slow.problem = model::SpeedProblem::slower;
    slow.ranks = {};
    slow.sentence = "the job has been 23 % slower since step 4,120: 210 ms instead of 171 ms per step";
    job.facts.slow = {slow};
    v = diagnose(job.facts);
    CHECK(v.id == "slow.job");
    CHECK(v.ranks.empty());
    CHECK(v.headline == slow.sentence);
    job.facts.slow[0].lost_s = 0.0001;  // of calls without work between them
    CHECK(diagnose(job.facts).id == "none.finished");
  }
  SUBCASE("notes, doubts and causes that cost all steps alike are no verdict") {
    for (const int what : {0, 1, 2}) {
      model::SpeedFinding f = slow;
      f.severity = what == 0 ? model::SpeedSeverity::note : f.severity;
      f.confidence = what == 1 ? model::Confidence::low : f.confidence;
      f.problem = what == 2 ? model::SpeedProblem::cause : f.problem;
      job.facts.slow = {f};
      CHECK(diagnose(job.facts).id == "none.finished");
    }
  }
  SUBCASE("an interruption says what was slow, unless the job hung") {
    job.facts.run.outcome = model::RunOutcome::interrupted;
    job.facts.run.exit_status = 130;
    v = diagnose(job.facts);
    CHECK(v.id == "interrupted.signal");
    CHECK(v.kind == model::VerdictKind::interrupted);
    CHECK(
        v.sentence ==
        "interrupted: by SIGINT after 60 s; rank 1 costs 65 % of every step (54 ms) from the first step on, "
        "in collate (train.py:40)");
    CHECK(v.ranks == RankSet{1});
    CHECK(v.signal == SIGINT);
    CHECK(v.since.empty());
    CHECK(v.title.starts_with("ended while rank 1 costs "));
    CHECK(v.evidence.front() == slow.sentence);
    CHECK(v.next.text.starts_with("no capture shows the function: run the job again"));
    for (const std::string& line : v.evidence) {
      CHECK(line.find("finished normally") == std::string::npos);
    }
    job.all(in_all_reduce()).rank(2, in_sleep()).hang_dump();
    CHECK(diagnose(job.facts).ranks == RankSet{2});
    Job brisk(4);
    brisk.facts.run.outcome = model::RunOutcome::interrupted;
    brisk.facts.run.exit_status = 130;
    CHECK(diagnose(brisk.facts).sentence == "interrupted: by SIGINT after 60 s");
  }
  SUBCASE("slow steps that are over") {
    slow.problem = model::SpeedProblem::slower;
    slow.since = 299;
    slow.since_wall_ns = 1'795'000'000'000'000'000;
    slow.until = 449;
    slow.until_wall_ns = 1'795'000'005'000'000'000;
    slow.lost_s = 0.012;
    slow.share = 0.012 / 0.033;
    slow.function = "slow.py:6 (augment)";
    slow.where = {.function = "augment", .file = "/home/u/slow.py", .line = 6};
    job.facts.slow = {slow};
    v = diagnose(job.facts);
    CHECK(v.id == "slow.spell");
    CHECK(v.kind == model::VerdictKind::slow);
    CHECK(v.level == model::VerdictLevel::suspected);
    CHECK(v.ranks == RankSet{1});
    CHECK(v.sentence ==
          "slow: rank 1 made 150 steps 57 % longer, from step 299 (11:06:40 UTC) to step 449 (11:06:45 UTC), "
          "in augment (slow.py:6): 1.80 s in all");
    CHECK(v.title == "rank 1 slowed the steps 299 to 449 by 57 % in augment (slow.py:6) from 11:06:40 UTC");
    CHECK(v.slow.step == 299);
    CHECK(v.slow.until_step == 449);
    CHECK(v.slow.until == "2026-11-18T11:06:45Z");
    CHECK(v.next.text.starts_with("look at slow.py:6 (augment)"));
    const auto read = model::verdict_from_json(nlohmann::json(model::to_json(v)));
    REQUIRE(read.has_value());
    CHECK(read->slow.until_step == 449);
    CHECK(read->slow.until == v.slow.until);
    job.facts.slow[0].until = 320;  // a small part of the run of a minute
    CHECK(diagnose(job.facts).id == "none.finished");
    job.facts.slow = {slow, slow};
    job.facts.slow[1].until = -1;  // a rank that is slow until the end comes first
    CHECK(diagnose(job.facts).id == "slow.rank");
  }
  SUBCASE("checkpoints that take a large part of the time") {
    job.facts.slow = {};
    job.facts.pauses = {{.stage = model::Stage::checkpoint,
                         .count = 13,
                         .every = 50,
                         .median_s = 0.403,
                         .share = 0.17,
                         .name = "torch.save",
                         .place = "j20.py:16 (save)"}};
    v = diagnose(job.facts);
    CHECK(v.id == "slow.pause");
    CHECK(v.kind == model::VerdictKind::slow);
    CHECK(v.sentence ==
          "slow: checkpoint of 403 ms every 50 steps, in torch.save at j20.py:16 (save), 17 % of the time");
    CHECK(v.where.line == 16);
    CHECK(v.next.text == "write checkpoints in the background");
    job.facts.pauses[0].share = 0.05;
    CHECK(diagnose(job.facts).id == "none.finished");
    job.facts.pauses[0].share = 0.5;
    job.facts.pauses[0].stage = model::Stage::evaluation;  // meant by the program
    CHECK(diagnose(job.facts).id == "none.finished");
  }
  SUBCASE("what all ranks lose alike is said, and no fault") {
    slow.problem = model::SpeedProblem::cause;
    slow.cause = model::SlowCause::input;
    slow.ranks = {};
    slow.sentence = "all ranks alike: waiting for the next batch costs 30 % of every step (2.3 ms)";
    job.facts.slow = {slow};
    v = diagnose(job.facts);
    CHECK(v.kind == model::VerdictKind::none);
    CHECK_MESSAGE(
        v.sentence.starts_with("all 4 ranks finished normally in 60 s; waiting for the next batch costs "
                               "65 % of every step ("),
        v.sentence);
    CHECK(v.slow.present());
    CHECK(v.next.text.starts_with("give the data loader more workers"));
  }
  SUBCASE("a failure comes first") {
    Job failed(4);
    failed.died(0, exited(1), 3).ended(1);
    failed.facts.slow = {slow};
    CHECK(diagnose(failed.facts).id == "exit.error");
  }
}
