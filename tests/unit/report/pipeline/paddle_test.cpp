// Logs of Paddle's schedule profiler, and the files of its pipeline visualiser.
#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "report/pipeline/files.h"
#include "report/pipeline/paddle/log.h"
#include "report/pipeline/paddle/log_files.h"
#include "report/pipeline/paddle/trace.h"
#include "tests/unit/report/pipeline/made_pipeline.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <map>

using namespace xpurun;
using namespace xpurun::report;
using namespace xpurun::tests;
using model::JobKind;

namespace {

PaddleLog read(std::string_view text) {
  PaddleLogReader reader;
  reader.feed(text);
  return reader.finish();
}

std::string line(std::string_view type, int number, int micro_batch, int64_t begin_ns, int64_t end_ns) {
  const auto ms = [](int64_t ns) { return fmt::format("{}.{:06}", ns / 1'000'000, ns % 1'000'000); };
  return fmt::format(
      "I1020 09:15:07.265326 22317 standalone_executor.cc:217] Profiler Info: Job ({}), type = {}, "
      "micro_batch_id = {}, job_start_time = {}, job_end_time = {}\n",
      number, type, micro_batch, ms(begin_ns), ms(end_ns));
}

// The log of each stage of a made pipeline.
std::string log_of(const RankJobs& rank) {
  std::string out = "LAUNCH INFO\n[INFO] Schedule Profiler start at step 10 and end at step 12\n";
  std::map<JobKind, int> counts;
  for (const Job& job : rank.jobs) {
    const int batch = std::max(job.micro_batch, 0);
    out += line(model::name_of(job.kind), job.kind == JobKind::optimizer ? 0 : batch, batch, job.begin_ns,
                job.end_ns);
    out += "loss: 3.25, lr = 0.001\n";
  }
  return out;
}

struct Logs {
  base::TemporaryDirectory dir = *base::TemporaryDirectory::create("xpurun-paddle-test-");

  std::string path(const std::string& name) const { return dir.path() + "/" + name; }
  void put(const std::string& name, std::string_view text) const {
    REQUIRE(base::make_dirs(path(name).substr(0, path(name).rfind('/'))));
    REQUIRE(base::write_file_atomic(path(name), text));
  }
  nlohmann::json trace(const model::PipelineReport& report, PaddleTrace form) const {
    auto out = OutputFile::create(path("trace.json"), Compression::none);
    REQUIRE(out);
    write_paddle_trace(*out, report, form);
    REQUIRE(out->finish());
    return nlohmann::json::parse(*base::read_file(path("trace.json")));
  }
};

MadePipeline made() {
  return {.stages = {{}, {}}, .batches = 4, .steps = 3, .numbered = true};
}

}  // namespace

TEST_CASE("a line of a log") {
  const PaddleLog log = read(line("forward", 3, 2, 1'697'793'307'213'760'986, 1'697'793'307'254'006'104));
  REQUIRE(log.jobs.size() == 1);
  const Job& job = log.jobs[0];
  CHECK(job.kind == JobKind::forward);
  CHECK(job.number == 3);
  CHECK(job.micro_batch == 2);
  CHECK(job.begin_ns == 1'697'793'307'213'760'986);
  CHECK(job.end_ns == 1'697'793'307'254'006'104);
  CHECK(job.type == "forward");
  CHECK(log.damaged == 0);
  CHECK(log.first_step == -1);
}

TEST_CASE("kinds and chunks") {
  const auto job = [](std::string_view type) {
    return read(line(type, 1, 5, kBegin, kBegin + 1)).jobs.at(0);
  };
  CHECK(job("forward0").kind == JobKind::forward);
  CHECK(job("forward1").chunk == 1);
  CHECK(job("backward").chunk == -1);
  CHECK(job("backward_b1").kind == JobKind::backward);
  CHECK(job("backward_w0").kind == JobKind::weight);
  CHECK(job("optimizer").kind == JobKind::optimizer);
  CHECK(job("optimizer").micro_batch == -1);
  CHECK(job("lr").kind == JobKind::other);
  CHECK(job("send_forward").kind == JobKind::other);
  CHECK(job("forward99999999999999999999").chunk == -1);
}

TEST_CASE("pieces of any size give the same jobs") {
  const std::string text = log_of(make_ranks(made())[0]);
  const PaddleLog whole = read(text);
  CHECK(whole.jobs.size() == 27);
  CHECK(whole.first_step == 10);
  for (const size_t size : {size_t{1}, size_t{7}, size_t{100}}) {
    PaddleLogReader reader;
    for (size_t at = 0; at < text.size(); at += size) {
      reader.feed(std::string_view(text).substr(at, size));
    }
    const PaddleLog log = reader.finish();
    CHECK(log.jobs.size() == whole.jobs.size());
    CHECK(log.jobs.back().end_ns == whole.jobs.back().end_ns);
  }
}

TEST_CASE("damaged and hostile lines are counted and left out") {
  const std::string good = line("forward", 0, 0, kBegin, kBegin + 5);
  const std::vector<std::string> wrong{
      "Profiler Info: Job (\n",
      "Profiler Info: Job (x), type = forward, micro_batch_id = 0, job_start_time = 1.0, job_end_time = "
      "2.0\n",
      "Profiler Info: Job (1), type = , micro_batch_id = 0, job_start_time = 1.0, job_end_time = 2.0\n",
      "Profiler Info: Job (1), type = a b, micro_batch_id = 0, job_start_time = 1.0, job_end_time = 2.0\n",
      "Profiler Info: Job (1), type = forward, micro_batch_id = -1, job_start_time = 1.0, job_end_time = "
      "2.0\n",
      "Profiler Info: Job (1), type = forward, micro_batch_id = 0, job_start_time = 1e9, job_end_time = "
      "2.0\n",
      "Profiler Info: Job (1), type = forward, micro_batch_id = 0, job_start_time = 3.0, job_end_time = "
      "2.0\n",
      "Profiler Info: Job (1), type = forward, micro_batch_id = 0, job_start_time = nan, job_end_time = "
      "2.0\n",
      "Profiler Info: Job (1), type = forward, micro_batch_id = 0, job_start_time = 1., job_end_time = 2.0\n",
      "Profiler Info: Job (99999999999999999999), type = forward, micro_batch_id = 0, job_start_time = 1.0, "
      "job_end_time = 2.0\n",
      "Profiler Info: Job (1), type = forward, micro_batch_id = 0, job_start_time = 1.0, job_end_time = "
      "9999999999999.0\n",
      fmt::format(
          "Profiler Info: Job (1), type = {}, micro_batch_id = 0, job_start_time = 1.0, job_end_time = 2.0\n",
          std::string(100, 'a'))};
  for (const std::string& one : wrong) {
    INFO(one);
    const PaddleLog log = read(good + one + good);
    CHECK(log.jobs.size() == 2);
    CHECK(log.damaged == 1);
  }
  // A truncated last line.
  CHECK(read(good + good.substr(0, good.size() - 12)).damaged == 1);
  // Two threads wrote into one line.
  CHECK(read(good.substr(0, good.size() - 1) + good).jobs.size() == 2);
  // A line without an end is not kept, and what follows is read.
  CHECK(read(std::string(200'000, 'x') + good + good).jobs.size() == 1);
  CHECK(read("").jobs.empty());
  CHECK(read(std::string("\0\n\xff\xfe\n", 6) + good).jobs.size() == 1);
}

TEST_CASE("the logs of a directory") {
  const Logs logs;
  const std::vector<RankJobs> ranks = make_ranks(made());
  CHECK_FALSE(holds_paddle_logs(logs.dir.path()));
  logs.put("workerlog.0", log_of(ranks[0]));
  logs.put("workerlog.1", log_of(ranks[1]) + "Profiler Info: Job (1\n");
  logs.put("workerlog.2", "a worker without a job\n");
  logs.put("workerlog.x", "no log");
  logs.put("endpoints.log", "no log");
  CHECK(holds_paddle_logs(logs.dir.path()));
  const PipelineOfRun run = read_pipeline({logs.dir.path()}, {});
  REQUIRE(run.report);
  CHECK(run.ranks == 2);
  REQUIRE(run.problems.size() == 1);
  CHECK(run.problems[0].what.find("workerlog.1: 1 damaged job is left out") != std::string::npos);
  const model::Pipeline& p = run.report->pipelines.at(0);
  CHECK(p.bubble == doctest::Approx(0.2));
  CHECK(p.steps.size() == 3);
  CHECK(p.steps[0].number == 10);
  CHECK(p.stages[1].source == model::JobSource::log);
  CHECK(p.stages[1].gpu_share == 1);
  CHECK(run.report->begin_ns == kBegin);
}

TEST_CASE("several machines, by folders and by operands") {
  const Logs logs;
  const std::vector<RankJobs> ranks =
      make_ranks({.stages = {{}, {}, {}, {}}, .batches = 8, .steps = 2, .numbered = true});
  for (int i = 0; i < 4; ++i) {
    logs.put(fmt::format("machine{}/workerlog.{}", i / 2, i % 2), log_of(ranks[static_cast<size_t>(i)]));
  }
  for (const std::vector<std::string>& operands :
       {std::vector{logs.dir.path()}, std::vector{logs.path("machine0"), logs.path("machine1")}}) {
    const PipelineOfRun run = read_pipeline(operands, {});
    REQUIRE(run.report);
    CHECK(run.problems.empty());
    const model::Pipeline& p = run.report->pipelines.at(0);
    REQUIRE(p.stages.size() == 4);
    CHECK(p.stages[2].machine == 1);
    CHECK(p.stages[2].device == 0);
    CHECK(p.stages[2].host == "machine 1");
    CHECK(p.bubble == doctest::Approx(3.0 / 11));
  }
}

TEST_CASE("no log and no job is no pipeline") {
  const Logs logs;
  CHECK_FALSE(read_pipeline({logs.dir.path()}, {}).report);
  logs.put("workerlog.0", "nothing\n");
  CHECK_FALSE(read_pipeline({logs.dir.path()}, {}).report);
  CHECK_FALSE(load_paddle_log(logs.path("absent")));
  std::filesystem::create_directory(logs.path("workerlog.7"));
  CHECK(read_paddle_logs({logs.dir.path()}).problems.empty());
}

TEST_CASE("the files of Paddle's tool") {
  const Logs logs;
  const std::vector<RankJobs> ranks = make_ranks(made());
  logs.put("workerlog.0", log_of(ranks[0]));
  logs.put("workerlog.1", log_of(ranks[1]));
  const auto report = *read_pipeline({logs.dir.path()}, {}).report;
  const nlohmann::json chrome = logs.trace(report, PaddleTrace::chrome);
  CHECK(base::read_file(logs.path("trace.json"))->find("\"ts\":1795230915001000.000") != std::string::npos);
  const auto& events = chrome.at("traceEvents");
  // A begin and an end for each of 2 x 3 x 9 jobs and of 3 steps.
  REQUIRE(events.size() == 2 * (54 + 3));
  CHECK(events[0] == nlohmann::json{{"name", "forward_0"},
                                    {"cat", "forward"},
                                    {"ph", "B"},
                                    {"ts", kBegin / 1e3},
                                    {"pid", 0},
                                    {"tid", "GPU0"},
                                    {"cname", "thread_state_running"}});
  CHECK(events[1]["ph"] == "E");
  CHECK(events[1]["ts"] == (kBegin + kMs) / 1e3);
  CHECK(events[4]["cname"] == "rail_idle");
  CHECK(events[16]["name"] == "optimizer_0");
  CHECK(events[16]["cname"] == "rail_response");
  CHECK(events[54]["tid"] == "GPU1");
  const nlohmann::json first_step{{"name", "step10"},
                                  {"cat", "step"},
                                  {"ph", "B"},
                                  {"ts", kBegin / 1e3},
                                  {"pid", 0},
                                  {"tid", "Step"},
                                  {"cname", "thread_state_unknown"}};
  CHECK(events[108] == first_step);
  // From the first job to the last, the optimizer included, and not before the end of the previous step.
  CHECK(events[109]["ts"] == (kBegin + 16 * kMs) / 1e3);
  CHECK(events[110]["ts"] == (kBegin + 16 * kMs) / 1e3);

  const nlohmann::json perfetto = logs.trace(report, PaddleTrace::perfetto);
  const auto& numbered = perfetto.at("traceEvents");
  REQUIRE(numbered.size() == events.size() + 3);
  std::map<int, std::string> names;
  for (size_t i = 0; i < numbered.size(); ++i) {
    if (numbered[i]["ph"] == "M") {
      names[numbered[i]["tid"]] = numbered[i]["args"]["name"];
    } else {
      nlohmann::json same = numbered[i];
      same["tid"] = events[i]["tid"];
      CHECK(same == events[i]);
    }
  }
  CHECK(names == std::map<int, std::string>{{2333, "STEP"}, {2334, "GPU:0"}, {2335, "GPU:1"}});
  CHECK(numbered[0]["tid"] == 2334);
  CHECK(numbered[54]["tid"] == 2335);
  CHECK(numbered[108]["tid"] == 2333);
}

TEST_CASE("names with durations") {
  const Logs logs;
  const std::vector<RankJobs> ranks = make_ranks(made());
  const auto report = *tests::find(ranks);
  auto out = OutputFile::create(logs.path("named.json"), Compression::none);
  REQUIRE(out);
  write_paddle_trace(*out, report, PaddleTrace::perfetto, JobNames::with_durations);
  REQUIRE(out->finish());
  const auto events = nlohmann::json::parse(*base::read_file(logs.path("named.json")))["traceEvents"];
  CHECK(events[0]["name"] == "forward_0 (1.000 ms)");
  CHECK(events[1]["name"] == "forward_0 (1.000 ms)");
  CHECK(events[109]["name"] == "step0 (16.000 ms)");
}

TEST_CASE("chosen ranks are measured as if there were no others") {
  const Logs logs;
  const std::vector<RankJobs> ranks =
      make_ranks({.stages = {{}, {}, {}, {}}, .batches = 8, .steps = 2, .numbered = true});
  for (int i = 0; i < 4; ++i) {
    logs.put(fmt::format("machine{}/workerlog.{}", i / 2, i % 2), log_of(ranks[static_cast<size_t>(i)]));
  }
  const PipelineOfRun run = read_pipeline({logs.dir.path()}, {.ranks = model::RankSet{1, 2}});
  REQUIRE(run.report);
  const model::Pipeline& p = run.report->pipelines.at(0);
  REQUIRE(p.stages.size() == 2);
  CHECK(p.stages[0].rank == 1);
  CHECK(p.stages[1].machine == 1);
  CHECK_FALSE(read_pipeline({logs.dir.path()}, {.ranks = model::RankSet{3}}).report);
}

TEST_CASE("rows of several machines, and of a run") {
  const Logs logs;
  const std::vector<RankJobs> ranks = make_ranks(made());
  logs.put("machine0/workerlog.3", log_of(ranks[0]));
  logs.put("machine1/workerlog.0", log_of(ranks[1]));
  const auto events =
      logs.trace(*read_pipeline({logs.dir.path()}, {}).report, PaddleTrace::chrome)["traceEvents"];
  CHECK(events[0]["tid"] == "GPU3(machine:0)");
  CHECK(events[54]["tid"] == "GPU0(machine:1)");
  const auto own = logs.trace(*tests::find(ranks), PaddleTrace::chrome)["traceEvents"];
  CHECK(own[54]["tid"] == "GPU1");
  CHECK(own[0]["name"] == "forward_0");
}
