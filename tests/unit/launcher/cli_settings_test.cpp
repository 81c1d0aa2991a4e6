#include "launcher/options/chosen_language.h"
#include "launcher/options/settings.h"

#include <doctest/doctest.h>

#include <fstream>

using namespace xpurun::launcher;

namespace {

const CommandSpec& run() {
  return *find_command("run");
}

std::string value(const Settings& settings, std::string_view name) {
  const Setting* s = settings.find(name);
  return s == nullptr ? "-" : s->value + " from " + s->source;
}

std::string config_problem(const std::string& text) {
  Settings settings;
  const auto status = add_config_text(settings, run(), text, "x.conf", FileLevel::project);
  REQUIRE(!status);
  CHECK(status.error().id == "E-CONFIG");
  return status.error().what;
}

}  // namespace

TEST_CASE("words of the command line") {
  const auto parsed = parse_words(run(), {"--grace=5s", "--name=a b", "--quiet", "--no-report", "--verbose",
                                          "--verbose", "--logs", "--no-logs", "--out=x"});
  REQUIRE(parsed);
  CHECK(value(parsed->settings, "grace") == "5s from command line");
  CHECK(value(parsed->settings, "name") == "a b from command line");
  CHECK(value(parsed->settings, "quiet") == "on from command line");
  CHECK(value(parsed->settings, "report") == "off from command line");
  CHECK(value(parsed->settings, "verbose") == "2 from command line");
  CHECK(value(parsed->settings, "logs") == "off from command line");
  CHECK(value(parsed->settings, "out") == "x from command line");
  CHECK(value(parsed->settings, "poll") == "-");
  SUBCASE("the last of several values is used") {
    CHECK(value(parse_words(run(), {"--grace=1", "--grace=2"})->settings, "grace") == "2 from command line");
  }
  SUBCASE("values are taken literally") {
    CHECK(value(parse_words(run(), {"--name=--x=y"})->settings, "name") == "--x=y from command line");
    CHECK(value(parse_words(run(), {"--name=--"})->settings, "name") == "-- from command line");
    CHECK(value(parse_words(run(), {"--name=-v"})->settings, "name") == "-v from command line");
  }
  SUBCASE("operands may be anywhere") {
    const auto stacks = parse_words(*find_command("stacks"), {"a", "--format=svg", "b", "--", "--c"});
    REQUIRE(stacks);
    CHECK(stacks->operands == std::vector<std::string>{"a", "b", "--c"});
    CHECK(value(stacks->settings, "format") == "svg from command line");
  }
  SUBCASE("unknown and abbreviated options fail in files too") {
    CHECK_FALSE(parse_words(run(), {"--hang", "3"}));
    CHECK_FALSE(parse_words(run(), {"--nope"}));
    for (const char* placeholder :
         {"%canonical_option%", "%option%", "%value%", "%original_token%", "%prefix%"}) {
      const std::string text(placeholder);
      for (const std::string& word :
           {"--" + text, "--quiet=" + text, "--no-" + text, "-" + text, "-q" + text}) {
        const auto words = parse_words(run(), {word});
        CAPTURE(word);
        REQUIRE_FALSE(words);
        CHECK(words.error().what.find('\x01') == std::string::npos);
      }
    }
  }
}

TEST_CASE("precedence: command line, environment, project file, user file") {
  Settings s = parse_words(run(), {"--grace=1"})->settings;
  add_environment(s, run(), {{"XPURUN_GRACE", "2"}, {"XPURUN_POLL", "2"}, {"XPURUN_LOGS", ""}});
  REQUIRE(
      add_config_text(s, run(), "grace=3\npoll=3\nlogs = yes # all\n", "./xpurun.conf", FileLevel::project));
  REQUIRE(add_config_text(s, run(), "# mine\n\nlogs=no\nname = n\n", "/u", FileLevel::user));
  CHECK(value(s, "grace") == "1 from command line");
  CHECK(value(s, "poll") == "2 from XPURUN_POLL");
  CHECK(value(s, "logs") == "yes from ./xpurun.conf");
  CHECK(value(s, "name") == "n from /u");
}

TEST_CASE("environment") {
  Settings s;
  add_environment(s, run(),
                  {{"XPURUN_HELP", "1"}, {"XPURUN_PRINT_CONFIG", "1"}, {"XPURUN_PRELOAD_LIBRARY", "p"}});
  CHECK(s.all().size() == 1);
  CHECK(value(s, "preload-library") == "p from XPURUN_PRELOAD_LIBRARY");
  SUBCASE("misspelt names are reported, internal and foreign names are not") {
    const auto said = misspelt_environment({{"XPURUN_HANG_TIMOUT", "1"},
                                            {"XPURUN_RUN", "1:2"},
                                            {"XPURUN_RUN_LOGS", "x"},
                                            {"XPURUN_TEST_SOURCE", "x"},
                                            {"XPURUN_GRACE", "1"},
                                            {"XPURUN_SOMETHING_ELSE_ENTIRELY", "1"},
                                            {"HANG_TIMEOUT", "1"}});
    CHECK(said ==
          std::vector<std::string>{"XPURUN_HANG_TIMOUT is not known; did you mean XPURUN_HANG_TIMEOUT?"});
    CHECK(unknown_environment(
              {{"XPURUN_HANG_TIMOUT", "1"}, {"XPURUN_RUN", "1:2"}, {"XPURUN_ELSE_ENTIRELY", "1"}}) ==
          std::vector<std::string>{"XPURUN_ELSE_ENTIRELY is not known",
                                   "XPURUN_HANG_TIMOUT is not known; did you mean XPURUN_HANG_TIMEOUT?"});
  }
}

TEST_CASE("configuration files") {
  CHECK(config_problem("# mine\n hang-timeout: 5\n") ==
        "x.conf: a line is NAME = VALUE, not 'hang-timeout: 5'; did you mean hang-timeout = 5?");
  Settings with_colon;
  CHECK(add_config_text(with_colon, run(), "name = a:b\n# x: y\n", "x.conf", FileLevel::project));
  CHECK(config_problem("hang-timout = 3") ==
        "x.conf: hang-timout is not an option; did you mean hang-timeout?");
  CHECK(config_problem("k_sigma = 3")
            .starts_with("x.conf: k_sigma is not an option, but a parameter of sysTrace: "));
  CHECK(config_problem("hang_times_mins_thr = 30").ends_with("--hang-timeout takes the limit, in seconds"));
  CHECK(config_problem("preload-library = x") ==
        "x.conf: preload-library cannot be set in a configuration file");
  CHECK(config_problem("print-config = on").ends_with("cannot be set in a configuration file"));
  CHECK(config_problem("grace = 1\ngrace = 2") == "x.conf: grace is set twice");
  CHECK(config_problem("grace =") == "x.conf: grace has no value");
  CHECK(config_problem("just words").starts_with("x.conf: "));
  // Boost would substitute the line into itself without end.
  CHECK(config_problem("words with %invalid_line%").ends_with("'words with %invalid_line%'"));
  CHECK(config_problem("[run]\ngrace = 2").starts_with("x.conf: run.grace is not an option"));
  SUBCASE("files") {
    Settings s;
    CHECK(add_config_file(s, run(), "no-such.conf", FileLevel::project));
    std::ofstream("some.conf") << "grace = 7\n";
    REQUIRE(add_config_file(s, run(), "some.conf", FileLevel::project));
    CHECK(value(s, "grace") == "7 from some.conf");
    const auto directory = add_config_file(s, run(), ".", FileLevel::project);
    REQUIRE(!directory);
    CHECK(directory.error().id == "E-CONFIG");
  }
  SUBCASE("the user's file") {
    CHECK(user_config_path({{"HOME", "/h"}}) == "/h/.config/xpurun/xpurun.conf");
    CHECK(user_config_path({{"HOME", "/h"}, {"XDG_CONFIG_HOME", "/c"}}) == "/c/xpurun/xpurun.conf");
    CHECK(user_config_path({{"HOME", "/h"}, {"XDG_CONFIG_HOME", "relative"}}) ==
          "/h/.config/xpurun/xpurun.conf");
    CHECK(user_config_path({}).empty());
  }
}

TEST_CASE("the language of a command line, which may be wrong otherwise") {
  const auto typed = [](const std::vector<std::string>& words) {
    return value(typed_language(words), "lang");
  };
  const std::string chinese = "zh from command line";
  CHECK(typed({"runs", "--lang", "zh", "--no-such-option"}) == chinese);
  CHECK(typed({"runs", "--no-such-option", "--lang=zh"}) == chinese);
  CHECK(typed({"--lang", "zh", "--grase", "3", "true"}) == chinese);
  CHECK(typed({"--out", "dir", "--lang", "zh", "true"}) == chinese);
  CHECK(typed({"run", "--lang", "zh"}) == chinese);
  CHECK(typed({"-o", "dir", "-q", "--lang", "zh"}) == chinese);
  CHECK(typed({"report", "dir", "--lang", "zh"}) == chinese);
  CHECK(typed({}) == "-");
  CHECK(typed({"--lang"}) == "-");
  // Words of the user's command.
  CHECK(typed({"train.py", "--lang", "zh"}) == "-");
  CHECK(typed({"run", "train.py", "--lang", "zh"}) == "-");
  CHECK(typed({"--", "train", "--lang=zh"}) == "-");
  CHECK(typed({"doctor", "--", "train", "--lang=zh"}) == "-");
}
