#include "launcher/watch/common_place.h"

#include <doctest/doctest.h>

using namespace xpurun;
using launcher::CommonPlace;
using stackdump::CodeLine;

namespace {

using Lines = std::vector<CodeLine>;
const CodeLine kMain{"<module>", "/home/u/train.py", 40};
const CodeLine kThreads{"run", "/usr/lib/python3.11/threading.py", 950};

CodeLine at(const std::string& function, int line) {
  return {function, "/home/u/train.py", line};
}

}  // namespace

TEST_CASE("the place of a rank that moves is the innermost function that all samples have in common") {
  CommonPlace p;
  p.add({at("load", 3), at("evaluate", 12), kMain});
  CHECK(p.place().empty());  // one sample shows no motion
  p.add({});                 // unreadable
  p.add({at("forward", 6), at("evaluate", 13), kMain});
  CHECK(p.place().function == "evaluate");
  CHECK(p.place().line == 13);
  p.add({at("evaluate", 14), kMain});
  CHECK(p.place().function == "evaluate");
  CHECK(p.place().line == 14);
  p.add({at("score", 9), at("finish", 30), kMain});
  CHECK(p.place().function == "<module>");
  p.forget();
  CHECK(p.place().empty());
}

TEST_CASE("frames of libraries are no place, and a rank that does not move has no common place") {
  CommonPlace p;
  p.add({kThreads, at("work", 5), kMain});
  p.add({kThreads, at("work", 5), kMain});
  CHECK(p.place().empty());
  p.add({{"wait", "/usr/lib/python3.11/threading.py", 300}, kThreads, at("work", 5), kMain});
  CHECK(p.place().function == "work");
  CHECK(p.place().line == 5);
}
