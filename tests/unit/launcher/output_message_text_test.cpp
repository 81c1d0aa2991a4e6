#include "common/base/strings.h"
#include "launcher/output/message_text.h"

#include <doctest/doctest.h>

#include <string>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

constexpr std::string_view kSentence =
    "hang: rank 2 (host vm, pid 1557) has been in ShardedDataset._fetch_from_bucket (data.py:12: time.sleep) "
    "for "
    "5 s; ranks 0-1,3 wait for it in backward (all_reduce) at engine.py:28";

std::string text(std::string_view line, size_t columns) {
  return message_text(line, columns, Ink::plain(), std::nullopt);
}

}  // namespace

TEST_CASE("a message is one line where there is no terminal, and where it fits") {
  CHECK(text(kSentence, kUnlimited) == "xpurun: " + std::string(kSentence) + '\n');
  CHECK(text("short", 80) == "xpurun: short\n");
  CHECK(text("  short", 80) == "xpurun:   short\n");
  CHECK(text("", 80) == "xpurun: \n");
}

TEST_CASE("on a terminal a message is wrapped between words") {
  CHECK(text(kSentence, 80) ==
        "xpurun: hang: rank 2 (host vm, pid 1557) has been in\n"
        "          ShardedDataset._fetch_from_bucket (data.py:12: time.sleep) for 5 s;\n"
        "          ranks 0-1,3 wait for it in backward (all_reduce) at engine.py:28\n");
  CHECK(text("  stuck: rank 2 in a_function (train.py:3)", 40) ==
        "xpurun:   stuck: rank 2 in a_function\n"
        "  (train.py:3)\n");
  for (const size_t columns : {30, 40, 57, 80, 100, 200}) {
    CAPTURE(columns);
    const std::string all = text(kSentence, columns);
    std::string joined;
    for (const std::string_view line : base::split(all, '\n')) {
      CHECK((base::display_width(line) <= columns || line.find_last_of(' ') <= 10));  // or a single word
      const size_t begin = std::min(line.find_first_not_of(' '), line.size());
      joined += (joined.empty() || line.empty() ? "" : " ") + std::string(line.substr(begin));
    }
    CHECK(joined == "xpurun: " + std::string(kSentence));
  }
}

TEST_CASE("colour marks the text of every line, not the prefix") {
  CHECK(message_text("bad", 80, Ink::coloured(), Ink::Colour::bad) == "xpurun: \x1b[31mbad\x1b[0m\n");
  const std::string wrapped = message_text(kSentence, 80, Ink::coloured(), Ink::Colour::bad);
  CHECK(wrapped.starts_with("xpurun: \x1b[31mhang:"));
  CHECK(wrapped.find("\n          \x1b[31mranks 0-1,3") != std::string::npos);
}

TEST_CASE("a path is a link, encoded as a URL") {
  CHECK(link_text("vm", "/runs/a b%/report.html") ==
        "\x1b]8;;file://vm/runs/a%20b%25/report.html\x1b\\/runs/a b%/report.html\x1b]8;;\x1b\\");
  CHECK(link_text("vm", "").empty());
}

TEST_CASE("Chinese messages fill the width in columns, two for each character") {
  constexpr std::string_view kChinese =
      "挂起：rank 2（主机 vm，pid 1557）停在 read_shard (data.py:12: time.sleep) 已 5 s；rank 0-1,3 在 "
      "engine.py:28 的 "
      "backward (all_reduce) 中等待它";
  for (const size_t columns : {30, 40, 80}) {
    CAPTURE(columns);
    const std::string wrapped = text(kChinese, columns);
    std::string whole;
    for (const std::string_view line : base::split(wrapped, '\n')) {
      CHECK(base::display_width(line) <= columns);
      // No line begins with a mark that closes.
      for (const std::string_view mark : {"，", "；", "：", "）", "。"}) {
        CHECK_FALSE(base::trim(line).starts_with(mark));
      }
      for (const char c : line) {
        whole += c == ' ' ? "" : std::string(1, c);
      }
    }
    std::string expected = "xpurun:";
    for (const char c : kChinese) {
      expected += c == ' ' ? "" : std::string(1, c);
    }
    CHECK(whole == expected);
  }
}
