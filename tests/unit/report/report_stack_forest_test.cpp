#include "report/render/parts/text.h"
#include "report/tree/folded.h"
#include "report/tree/stack_forest.h"
#include "tests/unit/report/sample_stacks.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

using namespace xpurun;
using namespace xpurun::report;
using model::RankSet;

namespace {

StackForest forest_of(const std::vector<model::ProcessStacks>& processes) {
  StackForest forest;
  for (const auto& p : processes) {
    forest.add(p);
  }
  forest.finish();
  return forest;
}

// All visible properties of a forest.
std::string shown(const StackForest& forest) {
  std::string out;
  for (Layer layer : kLayers) {
    out += stacks_text("t", forest, {}, layer);
    out += folded_text(forest, layer);
  }
  return out;
}

const FrameTree& only_tree(const StackForest& forest, Layer layer) {
  REQUIRE(forest.roles().size() == 1);
  return forest.roles()[0]->tree(layer);
}

}  // namespace

TEST_CASE("the order in which stacks arrive does not matter") {
  auto job = testing::sample_job();
  auto extra = testing::thread({testing::native("epoll_wait", "libc.so.6")});
  extra.main = false;
  extra.comm = "gloo_7";
  job[1].threads.push_back(extra);
  job[3].threads.push_back(extra);
  std::sort(job.begin(), job.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  const std::string expected = shown(forest_of(job));
  do {
    REQUIRE(shown(forest_of(job)) == expected);
  } while (std::next_permutation(job.begin(), job.end(),
                                 [](const auto& a, const auto& b) { return a.rank < b.rank; }));
}

TEST_CASE("a node holds the ranks of everything below it") {
  const StackForest forest = forest_of(testing::sample_job());
  CHECK(forest.ranks() == RankSet::range(0, 3));
  const FrameTree& tree = only_tree(forest, Layer::merged);
  REQUIRE(tree.root().children.size() == 1);
  const FrameTree::Node& main = tree[tree.root().children[0]];
  CHECK(forest.frames()[main.frame].label == "main (train.py:52)");
  CHECK(main.total.ranks == RankSet::range(0, 3));
  CHECK(main.total.threads == 4);
  CHECK(main.total.states.sleeping == 4);
  REQUIRE(main.children.size() == 2);
  // The smaller set comes first.
  CHECK(tree[main.children[0]].total.ranks == RankSet{2});
  CHECK(tree[main.children[1]].total.ranks == RankSet{0, 1, 3});
}

TEST_CASE("layers hold their own frames, and only the native layer has the interpreter's frames") {
  const StackForest forest = forest_of({testing::sample_rank(2)});
  CHECK(folded_text(forest, Layer::merged) ==
        "rank/main;main (train.py:52);load_batch (train.py:31);clock_nanosleep (libc.so.6) 1\n");
  CHECK(folded_text(forest, Layer::python) == "rank/main;main (train.py:52);load_batch (train.py:31) 1\n");
  CHECK(folded_text(forest, Layer::native) ==
        "rank/main;_PyEval_EvalFrameDefault (python3.11);clock_nanosleep (libc.so.6) 1\n");
}

TEST_CASE("threads are merged with threads of the same role only, ranks' main threads first") {
  auto rank = testing::sample_rank(0);
  for (const char* name : {"pt_autograd_0", "pt_autograd_17"}) {
    auto t = testing::thread({testing::native("pop")});
    t.main = false;
    t.comm = name;
    rank.threads.push_back(t);
  }
  auto agent = testing::sample_rank(1);
  agent.rank = base::kNoRank;
  agent.role = model::ProcessRole::agent;
  auto child = agent;
  child.role = model::ProcessRole::child;
  child.pid = 5;
  const StackForest forest = forest_of({child, agent, rank});
  std::vector<std::string> names;
  for (const RoleTree* role : forest.roles()) {
    names.push_back(fmt::format("{}/{}", name_of(role->process), role->thread));
  }
  CHECK(names == std::vector<std::string>{"rank/main", "rank/pt_autograd_#", "agent/main", "other/main"});
  const StackOwners& autograd = forest.roles()[1]->tree(Layer::native).root().total;
  CHECK(autograd.weight() == 1);
  CHECK(autograd.threads == 2);
  CHECK(forest.roles()[1]->tree(Layer::python).empty());
  CHECK(forest.roles()[2]->tree(Layer::merged).root().total.weight() == 1);
  CHECK(forest.ranks() == RankSet{0});
}

TEST_CASE("a rank without stacks stays in every layer, with the reason") {
  model::ProcessStacks dead;
  dead.rank = 5;
  dead.role = model::ProcessRole::rank;
  dead.reason = "killed by SIGKILL";
  const StackForest forest = forest_of({dead});
  for (Layer layer : kLayers) {
    CHECK(folded_text(forest, layer) == "rank/main;[no stacks: killed by SIGKILL] 1\n");
  }
}

TEST_CASE("endless recursion is cut in the middle") {
  std::vector<model::Frame> frames(5000, testing::py("f", 1));
  frames.front().func = "innermost";
  const StackForest forest = forest_of({testing::process(0, testing::thread(frames))});
  CHECK(only_tree(forest, Layer::merged).size() <= 401);
  CHECK(folded_text(forest, Layer::merged).find("innermost (train.py:1) 1\n") != std::string::npos);
  CHECK(folded_text(forest, Layer::merged).find("frames left out here") != std::string::npos);
}
