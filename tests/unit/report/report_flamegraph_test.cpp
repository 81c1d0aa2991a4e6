#include "report/flamegraph/layout.h"
#include "report/flamegraph/palette.h"
#include "report/flamegraph/svg.h"
#include "tests/unit/report/sample_stacks.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

using namespace xpurun;
using namespace xpurun::report;
using model::RankSet;

namespace {

StackForest sample_forest() {
  StackForest forest;
  for (const auto& p : testing::sample_job()) {
    forest.add(p);
  }
  forest.finish();
  return forest;
}

const Box& box_named(const Panel& panel, const std::string& label) {
  const auto it =
      std::find_if(panel.boxes.begin(), panel.boxes.end(), [&](const Box& b) { return b.label == label; });
  REQUIRE(it != panel.boxes.end());
  return *it;
}

// Children lie inside their parent, and boxes of one row do not overlap.
void check_widths(const Panel& panel) {
  constexpr double kSlack = 1e-9;
  std::vector<const Box*> open;
  std::vector<double> used;
  for (const Box& b : panel.boxes) {
    REQUIRE(static_cast<size_t>(b.depth) <= open.size());
    open.resize(static_cast<size_t>(b.depth));
    used.resize(static_cast<size_t>(b.depth) + 1);
    CHECK(b.width > 0);
    CHECK(b.x >= used.back() - kSlack);
    if (b.depth > 0) {
      CHECK(b.x >= open.back()->x - kSlack);
      CHECK(b.x + b.width <= open.back()->x + open.back()->width + kSlack);
    }
    CHECK(b.x + b.width <= 1 + kSlack);
    used.back() = b.x + b.width;
    open.push_back(&b);
    used.push_back(b.x);
  }
}

}  // namespace

TEST_CASE("width counts ranks, and the rows of the main threads fill the panel") {
  const StackForest forest = sample_forest();
  const Layout layout = lay_out(forest, Layer::merged, {});
  REQUIRE(layout.panels.size() == 1);
  const Panel& panel = layout.panels[0];
  CHECK(panel.total == 4);
  CHECK(layout.folded == 0);
  check_widths(panel);
  CHECK(box_named(panel, "main (train.py:52)").width == doctest::Approx(1));
  CHECK(box_named(panel, "load_batch (train.py:31)").width == doctest::Approx(0.25));
  CHECK(box_named(panel, "load_batch (train.py:31)").diverges);
  CHECK(box_named(panel, "step (train.py:44)").x == doctest::Approx(0.25));
  double second_row = 0;
  for (const Box& b : panel.boxes) {
    second_row += b.depth == 1 ? b.width : 0;
  }
  CHECK(second_row == doctest::Approx(1));
}

TEST_CASE("threads of one rank at several positions share its width") {
  auto p = testing::sample_rank(0);
  for (const char* place : {"push", "pop", "idle"}) {
    auto t = testing::thread({testing::native(place), testing::native("loop")});
    t.main = false;
    t.comm = "pool_1";
    p.threads.push_back(t);
  }
  StackForest forest;
  forest.add(p);
  forest.finish();
  const Layout layout = lay_out(forest, Layer::merged, {});
  REQUIRE(layout.panels.size() == 2);
  check_widths(layout.panels[1]);
  CHECK(box_named(layout.panels[1], "pop (libtorch_cpu.so)").width == doctest::Approx(1.0 / 3));
}

TEST_CASE("one rank of a thousand is visible") {
  StackForest forest;
  for (int rank = 0; rank < 1000; ++rank) {
    forest.add(rank == 2 ? testing::sample_rank(2)
                         : testing::process(rank, testing::sample_rank(0).threads[0]));
  }
  forest.finish();
  const Layout layout = lay_out(forest, Layer::merged, {});
  const Panel& panel = layout.panels[0];
  check_widths(panel);
  CHECK(box_named(panel, "load_batch (train.py:31)").width == doctest::Approx(0.02));
  CHECK(box_named(panel, "load_batch (train.py:31)").n == 1);
  CHECK(box_named(panel, "step (train.py:44)").width == doctest::Approx(0.98).epsilon(0.002));
}

TEST_CASE("frames that are too narrow are folded, counted and still shown") {
  StackForest forest;
  for (int rank = 0; rank < 300; ++rank) {
    forest.add(
        testing::process(rank, testing::thread({testing::py("inner", rank + 1),
                                                testing::py("outer", rank + 1), testing::py("main", 1)})));
  }
  forest.finish();
  const Layout layout = lay_out(forest, Layer::merged, {.max_boxes = 100});
  REQUIRE(layout.panels.size() == 1);
  const Panel& panel = layout.panels[0];
  CHECK(panel.boxes.size() <= 100);
  CHECK(panel.boxes.size() > 90);
  check_widths(panel);
  size_t others = 0;
  for (const Box& b : panel.boxes) {
    others += b.label.starts_with("(other, ") ? 1 : 0;
  }
  CHECK(others > 0);
  CHECK(panel.boxes.size() - others + layout.folded == 601);
}

TEST_CASE("a set of ranks has one colour everywhere, and small sets stand out") {
  const StackForest forest = sample_forest();
  const Layout layout = lay_out(forest, Layer::merged, {});
  const Palette palette(layout, forest.ranks(), {});
  CHECK(palette.css_of(RankSet::range(0, 3)) == "sa");
  CHECK(palette.css_of(RankSet{2}) == "s1");
  CHECK(palette.css_of(RankSet{0, 1, 3}) == "sm");
  CHECK(palette.css_of({}) == "sn");
  std::vector<std::string> texts;
  for (const LegendEntry& e : palette.legend()) {
    texts.push_back(e.text);
  }
  CHECK(texts == std::vector<std::string>{"rank 2: 1 of 4", "ranks 0-1,3: 3 of 4", "all 4 ranks"});
  const Palette accusing(layout, forest.ranks(), RankSet{0, 1, 3});
  CHECK(accusing.css_of(RankSet{0, 1, 3}) == "s1");
  CHECK(accusing.legend()[0].text == "ranks 0-1,3: 3 of 4, the culprit");
}

TEST_CASE("a frame carries its ranks, and the picture names ranks that colour cannot show") {
  const StackForest forest = sample_forest();
  const Layout layout = lay_out(forest, Layer::merged, {});
  const std::string svg =
      svg_file(layout, Palette(layout, forest.ranks(), {}), {.title = "Stacks of 4 ranks"});
  CHECK(svg.find(R"(data-ranks="0-1,3" data-n="3")") != std::string::npos);
  CHECK(svg.find("load_batch (train.py:31) · rank 2</text>") != std::string::npos);
  CHECK(svg.find("rank 2: 1 of 4") != std::string::npos);
}

TEST_CASE("long labels are cut at whole characters") {
  StackForest forest;
  for (int rank = 0; rank < 12; ++rank) {
    forest.add(
        testing::process(rank, testing::thread({testing::py("größenänderungsüberprüfung", rank + 1)})));
  }
  forest.finish();
  const Layout layout = lay_out(forest, Layer::merged, {});
  const std::string svg = svg_file(layout, Palette(layout, forest.ranks(), {}), {.title = "t"});
  CHECK(svg.find("größenänderu…</text>") != std::string::npos);
}
