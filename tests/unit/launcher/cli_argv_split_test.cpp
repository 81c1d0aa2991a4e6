#include "launcher/options/argv_split.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <string>
#include <vector>

using xpurun::launcher::split_argv;
using Words = std::vector<std::string>;

namespace {

void check_child(const Words& words, const Words& own, const Words& child) {
  const auto split = split_argv(words);
  REQUIRE(split);
  REQUIRE(split->command != nullptr);
  CHECK(split->command->name == "run");
  CHECK(split->own == own);
  CHECK(split->child == child);
}

std::string wrong(const Words& words) {
  const auto split = split_argv(words);
  REQUIRE(!split);
  CHECK(split.error().error.id == "E-USAGE");
  return split.error().error.what;
}

}  // namespace

TEST_CASE("the child's words are passed byte for byte") {
  const Words hard = {"prog", "-v", "--lr", "0.1", "--x=--", "--", "y", "--hang-timeout", "3", "", "\xff\n"};
  Words with_dashes = hard;
  with_dashes.insert(with_dashes.begin(), "--");
  check_child(with_dashes, {}, hard);
  check_child(hard, {}, hard);
}

TEST_CASE("xpurun's words end at the first operand or at --") {
  check_child({"--hang-timeout", "3", "prog", "-q"}, {"--hang-timeout=3"}, {"prog", "-q"});
  check_child({"--hang-timeout=3", "--", "-prog"}, {"--hang-timeout=3"}, {"-prog"});
  check_child({"-qvv", "-o", "dir", "prog"}, {"--quiet", "--verbose", "--verbose", "--out=dir"}, {"prog"});
  check_child({"-odir", "prog"}, {"--out=dir"}, {"prog"});
  check_child({"--no-report", "prog"}, {"--no-report"}, {"prog"});
  check_child({"-"}, {}, {"-"});
  check_child({"", "x"}, {}, {"", "x"});
  SUBCASE("a value may look like a short option, or like anything behind =") {
    check_child({"--name=--", "--out", "-v", "prog"}, {"--name=--", "--out=-v"}, {"prog"});
  }
  SUBCASE("only the first -- belongs to xpurun") {
    check_child({"--", "--", "x"}, {}, {"--", "x"});
  }
  SUBCASE("nothing to run") {
    check_child({"--"}, {}, {});
    check_child({"run"}, {}, {});
  }
}

TEST_CASE("the first operand may name a subcommand") {
  check_child({"run", "report", "x"}, {}, {"report", "x"});
  check_child({"run", "run"}, {}, {"run"});
  check_child({"-q", "run", "-v", "prog"}, {"--quiet", "--verbose"}, {"prog"});
  check_child({"--", "report"}, {}, {"report"});
  const auto report = split_argv({"report", "--json", "dir", "-q"});
  REQUIRE(report);
  CHECK(report->command->name == "report");
  CHECK(report->own == Words{"--json", "dir", "--quiet"});
  CHECK(report->child.empty());
  CHECK(split_argv({"stacks", "--", "--run"})->own == Words{"--", "--run"});
  CHECK(split_argv({})->command == nullptr);
}

TEST_CASE("errors name the wrong word") {
  CHECK(wrong({"--hang-timout", "3"}) == "unknown option --hang-timout; did you mean --hang-timeout?");
  CHECK(wrong({"--no-repport", "x"}) == "unknown option --no-repport; did you mean --no-report?");
  CHECK(wrong({"--kill-on-hang", "x"}) == "unknown option --kill-on-hang; did you mean --on-hang?");
  CHECK(wrong({"--json", "x"}) == "unknown option --json: it belongs to xpurun report");
  CHECK(wrong({"--anomaly_degree_thr=0.2", "x"}) ==
        "unknown option --anomaly_degree_thr, a parameter of sysTrace: --slow-threshold says by how much a "
        "running job must become slower");
  CHECK(
      wrong({"--steps-window-size", "5", "x"})
          .starts_with("unknown option --steps-window-size, a parameter of sysTrace: xpurun analyze finds "));
  CHECK(wrong({"-z", "x"}) == "unknown option -z");
  CHECK(wrong({"-qz", "x"}) == "unknown option -z in -qz");
  CHECK(wrong({"--grace"}) == "option --grace needs a value");
  CHECK(wrong({"-o"}) == "option -o needs a value");
  CHECK(wrong({"--out="}) == "option --out needs a value");
  CHECK(wrong({"--out", ""}) == "option --out needs a value");
  CHECK(wrong({"-o", "--", "true"}) == "option -o needs a value");
  CHECK(wrong({"--hang-timeout", "--quiet", "true"}) == "option --hang-timeout needs a value");
  CHECK(wrong({"--nproc_per_node=2", "x"})
            .starts_with("unknown option --nproc_per_node: it belongs to torchrun"));
  CHECK(wrong({"--logs=on", "x"}) == "option --logs takes no value");
  CHECK(wrong({"--no-grace", "x"}).starts_with("unknown option --no-grace"));
  CHECK(wrong({"-q", "report", "x"}).starts_with("--quiet before report is an option of run"));
  SUBCASE("options are never abbreviated") {
    for (const char* word : {"--hang", "--hang-timeou", "--quie", "--h", "--v"}) {
      CHECK_FALSE(split_argv({word, "3"}));
    }
  }
  SUBCASE("the exit status of a usage error") {
    CHECK(split_argv({"--nope"}).error().command->usage_status == 125);
    CHECK(split_argv({"report", "--nope"}).error().command->usage_status == 2);
  }
}

TEST_CASE("doctor also takes a command, whose words it does not parse") {
  const auto split = split_argv({"doctor", "--json", "--", "torchrun", "--json", "-x"});
  REQUIRE(split);
  CHECK(split->command->name == "doctor");
  CHECK(split->own == Words{"--json"});
  CHECK(split->child == Words{"torchrun", "--json", "-x"});
  CHECK(split_argv({"doctor", "torchrun", "--help"})->child == Words{"torchrun", "--help"});
}
