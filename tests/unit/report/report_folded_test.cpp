#include "report/tree/folded.h"
#include "tests/unit/report/sample_stacks.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::report;

TEST_CASE("names cannot end a frame or a line") {
  CHECK(folded_name("a;b\nc\td\x01") == "a,b c d?");
  CHECK(folded_name("\xff") == "\xEF\xBF\xBD");
}

TEST_CASE("every line has frames, a space and a number of ranks") {
  StackForest forest;
  for (auto& p : testing::sample_job()) {
    p.threads[0].frames.insert(p.threads[0].frames.begin(), testing::native("evil;\n name 7"));
    forest.add(p);
  }
  forest.finish();
  const std::string text = folded_text(forest, Layer::merged);
  CHECK(text ==
        "rank/main;main (train.py:52);load_batch (train.py:31);clock_nanosleep (libc.so.6);"
        "evil,  name 7 (libtorch_cpu.so) 1\n"
        "rank/main;main (train.py:52);step (train.py:44);all_reduce (d.py:9);gloo::wait (libtorch_cpu.so);"
        "poll (libc.so.6);evil,  name 7 (libtorch_cpu.so) 3\n");
}
