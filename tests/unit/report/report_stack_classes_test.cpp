#include "report/tree/stack_classes.h"
#include "tests/unit/report/sample_stacks.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;
using model::RankSet;

namespace {
std::vector<StackClass> classes_of(const std::vector<model::ProcessStacks>& processes) {
  ClassBuilder builder;
  for (const auto& p : processes) {
    builder.add(p);
  }
  return builder.classes();
}
}  // namespace

TEST_CASE("the smallest class comes first") {
  const auto classes = classes_of(testing::sample_job());
  REQUIRE(classes.size() == 2);
  CHECK(classes[0].ranks == RankSet{2});
  CHECK(classes[0].frames.size() == 3);
  CHECK(classes[1].ranks == RankSet{0, 1, 3});
  CHECK(classes[1].representative == 0);
}

TEST_CASE("another line is another class, another address in the C library is not") {
  auto moved = testing::sample_rank(1);
  moved.threads[0].frames[3].line = 45;
  CHECK(classes_of({testing::sample_rank(0), moved}).size() == 2);
  auto polls = testing::sample_rank(1);
  polls.threads[0].frames[0].func = "libc.so.6+0x77";
  polls.threads[0].frames.insert(polls.threads[0].frames.begin(),
                                 {.kind = model::FrameKind::kernel, .func = "do_poll"});
  CHECK(classes_of({testing::sample_rank(0), polls}).size() == 1);
  auto elsewhere = testing::sample_rank(1);
  elsewhere.threads[0].frames[1].func = "c10::abort";
  CHECK(classes_of({testing::sample_rank(0), elsewhere}).size() == 2);
}

TEST_CASE("ranks without stacks form a separate class; other processes form none") {
  auto worker = testing::sample_rank(0);
  worker.role = model::ProcessRole::worker;
  model::ProcessStacks dead;
  dead.rank = 7;
  dead.role = model::ProcessRole::rank;
  dead.reason = "exited with status 0";
  const auto classes = classes_of({worker, dead});
  REQUIRE(classes.size() == 1);
  CHECK(classes[0].missing == "exited with status 0");
  CHECK(classes[0].frames.empty());
}

TEST_CASE("the significant frames are the innermost Python frame and the user's own") {
  const auto waiting = testing::sample_rank(0);
  // 0 poll, 1 gloo::wait, 2 all_reduce, 3 step, 4 main, 5 the interpreter
  CHECK(shown_frames(waiting.threads[0].frames, 3) == std::vector<size_t>{2, 3, 4});
  CHECK(shown_frames(waiting.threads[0].frames, 2) == std::vector<size_t>{2, 3});
  CHECK(shown_frames({testing::native("a"), testing::native("b")}, 1) == std::vector<size_t>{0});
  CHECK(shown_frames({}, 3).empty());
}
