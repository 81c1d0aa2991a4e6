// Jobs of a rank from what it did.
#include "report/pipeline/jobs/activity_jobs.h"
#include "report/pipeline/jobs/call_jobs.h"
#include "report/pipeline/jobs/job_names.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;
using model::JobKind;
using model::Stage;
using Kind = PipelineCall::Kind;

namespace {

constexpr int64_t kUs = 1'000;

struct Made {
  Activity activity;

  Made() { activity.rank = 1; }

  void python(Stage stage, const std::string& name, int64_t begin_us, int64_t end_us, uint32_t thread = 7,
              const std::string& group = "") {
    const Call call{.name = name, .category = Category::python, .group = group, .stage = stage};
    add(call, activity.track(TrackKind::python, thread), begin_us, end_us, 0);
  }
  void gpu(Category category, int64_t begin_us, int64_t end_us, uint32_t delay_us, bool host_begin = false) {
    const Call call{.name = "x", .category = category, .begin_on_host = host_begin};
    add(call,
        activity.track(category == Category::collective ? TrackKind::communication : TrackKind::compute, 1),
        begin_us, end_us, delay_us);
  }
  // A kernel and the call of CUDA that launched it; negative: the call was not captured.
  void captured(int64_t called_us, int64_t begin_us, int64_t end_us, uint32_t launch) {
    const auto put = [&](Category category, TrackKind kind, int64_t from_us, int64_t until_us, uint32_t id) {
      add({.name = "x", .category = category, .captured = true}, activity.track(kind, 9), from_us, until_us,
          0);
      activity.slices.back().launch = id;
    };
    if (called_us >= 0) {
      put(Category::host, TrackKind::host, called_us, called_us + 1, launch);
    }
    put(Category::kernel, TrackKind::compute, begin_us, end_us, called_us < 0 ? 0 : launch);
  }
  std::optional<RankJobs> jobs(const JobFunctions& chosen = {}, Evidence evidence = Evidence::needed) {
    put_in_order(activity);
    return jobs_of(activity, chosen, evidence);
  }

 private:
  void add(const Call& call, uint32_t track, int64_t begin_us, int64_t end_us, uint32_t delay_us) {
    activity.slices.push_back({.begin_ns = begin_us * kUs,
                               .duration_ns = (end_us - begin_us) * kUs,
                               .call = static_cast<uint32_t>(activity.calls.size()),
                               .track = track,
                               .delay_us = delay_us});
    activity.calls.push_back(call);
  }
};

std::string text_of(const std::vector<Job>& jobs) {
  std::string out;
  for (const Job& job : jobs) {
    out += std::string(model::name_of(job.kind)).substr(0, 1) + std::to_string(job.begin_ns / kUs) + "-" +
           std::to_string(job.end_ns / kUs) + " ";
  }
  return out;
}

std::vector<PipelineCall> calls(const std::vector<std::tuple<Kind, int64_t, int64_t>>& all) {
  std::vector<PipelineCall> out;
  for (const auto& [kind, begin, end] : all) {
    out.push_back({kind, begin * kUs, end * kUs});
  }
  return out;
}

}  // namespace

TEST_CASE("functions of known frameworks are jobs") {
  const auto kind = [](std::string_view name) { return kind_of_function(name, {}); };
  CHECK(kind("torch.distributed.pipelining.stage:_PipelineStageBase.forward_one_chunk") == JobKind::forward);
  CHECK(kind("torch.distributed.pipelining.stage:_PipelineStageBase.backward_one_chunk") ==
        JobKind::backward);
  CHECK(kind("torch.distributed.pipelining.stage:_PipelineStageBase.backward_weight_one_chunk") ==
        JobKind::weight);
  CHECK(kind("megatron.core.pipeline_parallel.schedules:backward_step") == JobKind::backward);
  CHECK(kind("forward_step") == JobKind::forward);
  CHECK_FALSE(kind("model:Model.forward"));
  CHECK_FALSE(kind(""));
  CHECK_FALSE(kind("a:forward_step."));
  const JobFunctions chosen{.forward = {"train:run"}, .backward = {"train:back"}};
  CHECK(kind_of_function("train:run", chosen) == JobKind::forward);
  CHECK(kind_of_function("train:back", chosen) == JobKind::backward);
  CHECK_FALSE(kind_of_function("other:run", chosen));
}

TEST_CASE("names of marks") {
  CHECK(marked_batch("micro-batch 3")->micro_batch == 3);
  CHECK(marked_batch("micro-batch 3")->chunk == -1);
  CHECK(marked_batch("micro-batch 12 chunk 1")->chunk == 1);
  for (const char* wrong : {"", "micro-batch ", "micro-batch -1", "micro-batch 3 ", "micro-batch 3 chunk",
                            "backward", "micro-batch 99999999999", "micro-batch 3 chunk 1 "}) {
    CHECK_FALSE(marked_batch(wrong));
  }
}

TEST_CASE("the times before sends and backward passes are forward jobs") {
  SUBCASE("first stage, one forward and one backward at a time") {
    // Nothing is sent behind a backward here.
    const auto found = forwards_between(calls({{Kind::other, 0, 10},
                                               {Kind::send, 110, 112},
                                               {Kind::send, 212, 214},
                                               {Kind::receive, 214, 300},
                                               {Kind::backward, 301, 500},
                                               {Kind::receive, 502, 510},
                                               {Kind::backward, 511, 711},
                                               {Kind::optimizer, 720, 730}}));
    CHECK(text_of(found) == "f10-110 f112-212 ");
  }
  SUBCASE("last stage") {
    const auto found = forwards_between(calls({{Kind::receive, 0, 100},
                                               {Kind::backward, 190, 380},
                                               {Kind::send, 382, 384},
                                               {Kind::receive, 384, 390},
                                               {Kind::backward, 480, 680},
                                               {Kind::send, 683, 684},
                                               {Kind::optimizer, 700, 710}}));
    CHECK(text_of(found) == "f100-190 f390-480 ");
  }
  SUBCASE("each step for itself") {
    std::vector<std::tuple<Kind, int64_t, int64_t>> two;
    for (const int64_t at : {0, 1000}) {
      two.insert(two.end(), {{Kind::receive, at, at + 10},
                             {Kind::send, at + 110, at + 111},
                             {Kind::receive, at + 111, at + 300},
                             {Kind::backward, at + 301, at + 400},
                             {Kind::send, at + 402, at + 403},
                             {Kind::optimizer, at + 420, at + 430}});
    }
    CHECK(text_of(forwards_between(calls(two))) == "f10-110 f1010-1110 ");
  }
  SUBCASE("other uses of sends are none") {
    // Ring attention: many sends for each backward, and sends inside of it.
    std::vector<std::tuple<Kind, int64_t, int64_t>> ring;
    for (int64_t i = 0; i < 20; ++i) {
      ring.emplace_back(Kind::send, i * 10, i * 10 + 1);
    }
    ring.emplace_back(Kind::backward, 300, 500);
    CHECK(forwards_between(calls(ring)).empty());
    CHECK(
        forwards_between(calls({{Kind::send, 100, 101}, {Kind::backward, 200, 300}, {Kind::send, 250, 251}}))
            .empty());
    // Two times of equal length, one backward.
    CHECK(forwards_between(calls({{Kind::other, 0, 0},
                                  {Kind::send, 100, 101},
                                  {Kind::send, 200, 201},
                                  {Kind::backward, 202, 400}}))
              .empty());
  }
  SUBCASE("no backward, or nothing at all") {
    CHECK(forwards_between({}).empty());
    CHECK(forwards_between(calls({{Kind::receive, 0, 1}, {Kind::send, 50, 51}})).empty());
    CHECK(forwards_between(calls({{Kind::other, 0, 1}, {Kind::backward, 50, 80}})).empty());
  }
}

TEST_CASE("sends after the optimizer are no exchange between stages") {
  std::vector<std::tuple<Kind, int64_t, int64_t>> data_parallel;
  std::vector<std::tuple<Kind, int64_t, int64_t>> stage;
  for (int64_t step = 0; step < 20; ++step) {
    const int64_t at = step * 1000;
    for (const auto& [kind, begin, end] : {std::tuple(Kind::backward, 300, 700),
                                           {Kind::optimizer, 700, 720},
                                           {Kind::send, 730, 740},
                                           {Kind::receive, 740, 760}}) {
      data_parallel.emplace_back(kind, at + begin, at + end);
    }
    for (const auto& [kind, begin, end] : {std::tuple(Kind::send, 300, 310),
                                           {Kind::receive, 310, 500},
                                           {Kind::backward, 500, 900},
                                           {Kind::optimizer, 900, 920}}) {
      stage.emplace_back(kind, at + begin, at + end);
    }
  }
  CHECK_FALSE(end_with_sends(forwards_between(calls(data_parallel)), calls(data_parallel)));
  CHECK(end_with_sends(forwards_between(calls(stage)), calls(stage)));
}

TEST_CASE("from spans of sends, receives and backward passes") {
  Made rank;
  rank.python(Stage::communication, "recv", 0, 100, 7, "pp");
  rank.python(Stage::communication, "all_reduce", 120, 150, 7, "tp");  // a part of the forward job
  rank.python(Stage::forward, "forward (inferred)", 0, 190);
  rank.python(Stage::backward, "backward", 190, 380);
  rank.python(Stage::communication, "send", 382, 384, 7, "pp");
  rank.python(Stage::optimizer, "SGD.step", 400, 410);
  rank.python(Stage::communication, "recv", 0, 5, 8, "pp");  // another thread has fewer
  rank.python(Stage::mark, "step", 420, 420);
  const auto jobs = rank.jobs();
  REQUIRE(jobs);
  CHECK(text_of(jobs->jobs) == "f100-190 b190-380 o400-410 ");
  CHECK(jobs->source == model::JobSource::calls);
  CHECK(jobs->groups == std::set<std::string>{"pp"});
  CHECK(jobs->step_marks == std::vector<int64_t>{420 * kUs});
}

TEST_CASE("traced functions come before what is inferred") {
  Made rank;
  rank.python(Stage::function, "m:Stage.forward_one_chunk", 10, 50);
  rank.python(Stage::function, "m:forward_step", 15, 45);  // inside
  rank.python(Stage::function, "m:other", 0, 500);
  rank.python(Stage::function, "m:Stage.backward_one_chunk", 60, 120);
  rank.python(Stage::backward, "backward", 70, 110);
  CHECK_FALSE(rank.jobs());  // data-parallel programs have such functions, too
  CHECK(text_of(rank.jobs({}, Evidence::not_needed)->jobs) == "f10-50 b60-120 ");
  rank.python(Stage::communication, "send", 50, 55);
  const auto jobs = rank.jobs();
  REQUIRE(jobs);
  CHECK(text_of(jobs->jobs) == "f10-50 b60-120 ");
  CHECK(jobs->source == model::JobSource::functions);
}

TEST_CASE("marks come before all") {
  Made rank;
  rank.python(Stage::function, "m:forward_step", 10, 50);
  rank.python(Stage::forward, "micro-batch 4 chunk 1", 12, 48);
  rank.python(Stage::backward, "micro-batch 4 chunk 1", 60, 100);
  const auto jobs = rank.jobs();
  REQUIRE(jobs);
  CHECK(text_of(jobs->jobs) == "f12-48 b60-100 ");
  CHECK(jobs->source == model::JobSource::marks);
  CHECK(jobs->jobs[0].micro_batch == 4);
  CHECK(jobs->jobs[1].chunk == 1);
}

TEST_CASE("a program without a pipeline has no jobs") {
  Made rank;
  rank.python(Stage::forward, "forward (inferred)", 0, 40);
  rank.python(Stage::backward, "backward", 40, 100);
  rank.python(Stage::communication, "all_reduce", 100, 110);
  CHECK_FALSE(rank.jobs());
  rank.activity.rank = base::kNoRank;
  CHECK_FALSE(rank.jobs({}, Evidence::not_needed));
}

TEST_CASE("captured work belongs to the job that made its call") {
  Made rank;
  rank.python(Stage::forward, "micro-batch 0", 0, 20);
  rank.python(Stage::backward, "micro-batch 0", 20, 30);
  // Launched by the forward job, begun after the backward job was called.
  rank.captured(5, 25, 60, 1);
  rank.captured(22, 60, 90, 2);
  rank.captured(-1, 26, 500, 3);          // its call is not known
  rank.captured(1'000, 1'010, 1'020, 1);  // the next capture starts to count again
  const auto jobs = rank.jobs();
  REQUIRE(jobs);
  CHECK(text_of(jobs->jobs) == "f25-60 b60-90 ");
}

TEST_CASE("a job whose last kernel was not timed lasted at least as long as shown") {
  Made rank;
  rank.python(Stage::forward, "micro-batch 0", 0, 20);
  rank.python(Stage::backward, "micro-batch 0", 20, 30);
  rank.gpu(Category::matmul, 100, 140, 95);   // launched at 5
  rank.gpu(Category::matmul, 200, 260, 175);  // at 25
  rank.activity.untimed = {{6 * kUs, 19 * kUs}};
  const auto jobs = rank.jobs();
  REQUIRE(jobs);
  CHECK(text_of(jobs->jobs) == "f100-140 b200-260 ");
  CHECK(jobs->jobs[0].at_least);
  CHECK_FALSE(jobs->jobs[1].at_least);
}

TEST_CASE("jobs in GPU time") {
  Made rank;
  rank.python(Stage::forward, "micro-batch 0", 0, 20);
  rank.python(Stage::backward, "micro-batch 0", 20, 30);
  rank.python(Stage::optimizer, "SGD.step", 30, 35);
  rank.python(Stage::mark, "step", 36, 36);
  rank.gpu(Category::matmul, 100, 140, 95);     // launched at 5
  rank.gpu(Category::kernel, 140, 190, 121);    // at 19
  rank.gpu(Category::collective, 50, 99, 40);   // waits for others
  rank.gpu(Category::matmul, 3, 500, 0, true);  // its begin is the host's
  rank.gpu(Category::matmul, 200, 260, 175);    // at 25
  const auto jobs = rank.jobs();
  REQUIRE(jobs);
  CHECK(text_of(jobs->jobs) == "f100-190 b200-260 o260-260 ");
  CHECK(jobs->jobs[0].gpu);
  CHECK_FALSE(jobs->jobs[2].gpu);
  // The host has ended its step before the GPU has.
  CHECK(jobs->step_marks == std::vector<int64_t>{260 * kUs});
}
