#include "commands/cli/help.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/output/text_block.h"
#include "tests/support/golden.h"

#include <doctest/doctest.h>

#include <initializer_list>
#include <set>

using namespace xpurun::launcher;
using xpurun::testing::expect_golden;

TEST_CASE("help at 80 columns") {
  expect_golden("help/overview.txt", overview_help(80));
  for (const CommandSpec& command : command_table()) {
    expect_golden("help/" + std::string(command.name) + ".txt", command_help(command, 80));
  }
}

TEST_CASE("help fits the terminal") {
  for (size_t columns : {40, 59, 60, 80, 100}) {
    std::string all = overview_help(columns);
    for (const CommandSpec& command : command_table()) {
      all += command_help(command, columns);
    }
    for (std::string_view line : xpurun::base::split(all, '\n')) {
      // Commands to copy are never broken.
      if (!line.starts_with("  xpurun ")) {
        CAPTURE(line);
        CHECK(xpurun::base::display_width(line) <= columns);
      }
    }
  }
}

TEST_CASE("Chinese help fits the terminal and has no English sentence") {
  const xpurun::base::Speaking speaking(xpurun::base::Language::chinese);
  CHECK(overview_help(80).find("用法：") != std::string::npos);
  for (const CommandSpec& command : command_table()) {
    CAPTURE(command.name);
    CHECK(xpurun::base::tr(command.description) != command.description);
    CHECK(xpurun::base::tr(command.summary) != command.summary);
    for (const OptionSpec& o : command.options) {
      CAPTURE(o.name);
      CHECK(xpurun::base::tr(o.help) != o.help);
      CHECK(xpurun::base::tr(o.group) != o.group);
    }
    for (const Example& e : command.examples) {
      CAPTURE(e.what);
      CHECK(xpurun::base::tr(e.what) != e.what);
    }
    for (size_t columns : {40, 80}) {
      const std::string help = command_help(command, columns);
      for (std::string_view line : xpurun::base::split(help, '\n')) {
        if (!line.starts_with("  xpurun ") && line.find("XPURUN_") == std::string::npos) {
          CAPTURE(line);
          CHECK(xpurun::base::display_width(line) <= columns);
        }
      }
    }
  }
}

TEST_CASE("text blocks") {
  CHECK(text_block("a b c d", 5, 2) == "  a b\n  c d\n");
  CHECK(text_block("", 40, 2) == "  \n");
  CHECK(definition("--x", "what it does", 80, 10) == "  --x     what it does\n");
  CHECK(definition("--longer-x", "what", 80, 10) == "  --longer-x\n          what\n");
  CHECK(definition("--x", "what", 40, 10) == "  --x\n        what\n");
}

TEST_CASE("the tables are consistent") {
  for (const CommandSpec& command : command_table()) {
    CAPTURE(command.name);
    CHECK(find_command(command.name) == &command);
    CHECK(find_option(command.options, 'h') != nullptr);
    std::set<std::string> seen;
    for (const OptionSpec& o : command.options) {
      CAPTURE(o.name);
      CHECK(seen.insert(std::string(o.name)).second);
      CHECK((o.short_name == 0 || seen.insert(std::string(1, o.short_name)).second));
      CHECK_FALSE(o.name.starts_with("no-"));
      CHECK_FALSE(o.help.ends_with("."));
      const bool has_value =
          o.kind != ValueKind::none && o.kind != ValueKind::on_off && o.kind != ValueKind::repeated;
      CHECK(takes_value(o) == has_value);
    }
  }
  CHECK(env_name(*find_option(run_options(), "hang-timeout")) == "XPURUN_HANG_TIMEOUT");
  CHECK(flag(*find_option(run_options(), "preload")) == "--no-preload");
  CHECK(flag(*find_option(run_options(), "logs")) == "--logs");
}
