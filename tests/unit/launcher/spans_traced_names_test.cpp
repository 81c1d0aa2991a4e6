// The list of the functions that Python traces while the job runs.
#include "launcher/spans/traced_names.h"

#include <doctest/doctest.h>

using namespace xpurun;
using namespace xpurun::launcher;
using model::TraceProblem;

TEST_CASE("names are added and removed, each once") {
  TracedNames names("a:f,a:g");
  CHECK(names.text() == "a:f,a:g");
  CHECK(names.add({"b:h", "a:f", "b:h"}));
  CHECK(names.text() == "a:f,a:g,b:h");
  CHECK(names.remove({"a:g"}));
  CHECK(names.text() == "a:f,b:h");
  const auto unknown = names.remove({"a:f", "a:g"});
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().what == "a:g is not in the list of traced functions");
  CHECK(names.text() == "a:f,b:h");
  CHECK(names.remove({"b:h", "a:f"}));
  CHECK(names.text().empty());
  CHECK(TracedNames("").functions().empty());
}

TEST_CASE("a function that the program may lack has its mark for the ranks only") {
  TracedNames names("a:f,?b:g,?b:h");
  CHECK(names.functions().at(1).name == "b:g");
  CHECK(names.add({"b:g"}));
  CHECK(names.text() == "a:f,?b:g,?b:h");
  CHECK(names.remove({"b:h"}));
  CHECK(names.text() == "a:f,?b:g");
}

TEST_CASE("the list is bounded") {
  TracedNames names("");
  std::vector<std::string> many;
  for (int i = 0; i < 200; ++i) {
    many.push_back("m:f" + std::to_string(i));
  }
  CHECK(names.add(many));
  CHECK_FALSE(names.add({"m:g"}));
  CHECK(names.add({"m:f3"}));
}

TEST_CASE("a problem is told once, and again after the name was added again") {
  TracedNames names("a:f,a:g");
  CHECK(names.note({.name = "a:f", .problem = TraceProblem::no_function}));
  CHECK_FALSE(names.note({.name = "a:f", .problem = TraceProblem::no_function}));
  const auto functions = names.functions();
  REQUIRE(functions.size() == 2);
  CHECK(functions[0].problem == TraceProblem::no_function);
  CHECK_FALSE(functions[1].problem);
  CHECK(names.add({"a:f"}));
  CHECK_FALSE(names.functions()[0].problem);
  CHECK(names.note({.name = "a:f", .problem = TraceProblem::no_function}));
  for (int i = 0; i < 1000; ++i) {
    names.note({.name = std::to_string(i), .problem = TraceProblem::no_tool});
  }
  CHECK_FALSE(names.note({.name = "one more", .problem = TraceProblem::no_tool}));
}
