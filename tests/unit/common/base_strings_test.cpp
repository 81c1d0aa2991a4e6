#include "common/base/output/opening_words.h"
#include "common/base/output/terminal.h"
#include "common/base/result.h"
#include "common/base/strings.h"
#include "common/base/suggest.h"

#include <doctest/doctest.h>

using namespace xpurun::base;

TEST_CASE("sizes") {
  CHECK(parse_size("0") == 0);
  CHECK(parse_size("4096") == 4096);
  CHECK(parse_size("64K") == 65536);
  CHECK(parse_size("1.5G") == uint64_t{3} << 29);
  CHECK(parse_size("2TiB") == uint64_t{2} << 40);
  CHECK(parse_size("10MB") == uint64_t{10} << 20);
  for (const char* bad : {"", "x", "-1", "1X", "1KK", "1e30", "nan", "K", " 1"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_size(bad));
  }
  CHECK(human_size(0) == "0 B");
  CHECK(human_size(1023) == "1023 B");
  CHECK(human_size(1024) == "1.0 KiB");
  CHECK(human_size((uint64_t{1} << 20) - 1) == "1.0 MiB");
  CHECK(human_size(uint64_t{100} << 30) == "100 GiB");
}

TEST_CASE("durations are parsed with their units and nothing else") {
  CHECK(parse_duration_s("300") == 300);
  CHECK(parse_duration_s("250ms") == 0.25);
  CHECK(parse_duration_s("1.5m") == 90);
  CHECK(parse_duration_s("2h") == 7200);
  CHECK(parse_duration_s("14d") == 14 * 86400);
  for (const char* bad : {"", "s", "-3", "3x", "1 s", "nan", "inf", "0x10"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_duration_s(bad));
  }
}

TEST_CASE("durations are printed for people") {
  CHECK(human_duration(0.42) == "0.4 s");
  CHECK(human_duration(12.4) == "12 s");
  CHECK(human_duration(185) == "3m05s");
  CHECK(human_duration(3720) == "1h02m");
  CHECK(human_duration(1e300) == "277777777h46m");
  CHECK(human_duration(-1e300) == human_duration(-1e12));
}

TEST_CASE("width counts columns, not bytes") {
  CHECK(display_width("abc") == 3);
  CHECK(display_width("é") == 1);
  CHECK(display_width("列") == 2);
  CHECK(display_width("\x1b[1m") == 3);
  CHECK(display_width("\xff\xff") == 2);
  CHECK(display_width("e\u0301\u0e33") == 2);           // a combining mark, a Thai vowel
  CHECK(display_width("\U0001F600\u00ad\ue000") == 4);  // an emoji, a soft hyphen, a private character
}

TEST_CASE("eliding keeps both ends and never exceeds the width") {
  CHECK(elide_middle("abcdefghij", 20) == "abcdefghij");
  CHECK(elide_middle("abcdefghij", 5) == "ab…ij");
  for (size_t n = 0; n < 12; ++n) {
    CHECK(display_width(elide_middle("ab列cdé列fghij", n)) <= n);
  }
  CHECK(elide_middle(std::string(4'000'000, 'x'), 5) == "xx…xx");  // immediately
}

TEST_CASE("a long message is cut at the end of a sentence, else of a word") {
  const std::string ddp =
      "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one. "
      "This "
      "error indicates that your module has parameters that were not used in producing loss. You can enable "
      "it, "
      "e.g. by `find_unused_parameters=True`, and by ";
  CHECK(opening_words(ddp, 160) ==
        "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one");
  CHECK(opening_words(ddp, 60) == "RuntimeError: Expected to have finished reduction in the …");
  CHECK(opening_words("Out of memory. Tried to allocate 2 GiB. The rest is long", 50) ==
        "Out of memory. Tried to allocate 2 GiB");
  CHECK(opening_words("killed by signal: Killed. ", 60) == "killed by signal: Killed");
  CHECK(opening_words("waiting...", 60) == "waiting...");
  CHECK(opening_words("use a list, e.g. this one. Or another one", 30) == "use a list, e.g. this one");
  CHECK(opening_words("version 1.2 of x.py has no y", 16) == "version 1.2 of …");
  for (size_t n = 0; n < 40; ++n) {
    CHECK(display_width(opening_words("列列 列列. B列 cdé列fghij", n)) <= n);
    CHECK(display_width(opening_words(ddp, n)) <= n);
  }
}

TEST_CASE("sanitizing removes terminal control sequences") {
  CHECK(sanitize("a\x1b[31mb\nc") == "a?[31mb c");
  CHECK(sanitize("\xC3\x28") == "\xEF\xBF\xBD(");
  CHECK(sanitize("列é") == "列é");
}

TEST_CASE("sanitizing removes characters that disguise a name") {
  for (const char* hidden : {"\u202e", "\u2066", "\u2069", "\u200e", "\u200f", "\u061c", "\u200b", "\u200d",
                             "\u2060", "\ufeff", "\u2028", "\u00ad", "\U000e0041"}) {
    CAPTURE(hidden);
    CHECK(sanitize(std::string("exe.") + hidden + "txt") == "exe.?txt");
  }
  CHECK(sanitize("שלום नमस्ते ❤\ufe0f") == "שלום नमस्ते ❤\ufe0f");
}

TEST_CASE("sanitizing lines keeps line breaks, and xpurun's own colours on request") {
  CHECK(sanitize_lines("a\tb\n\x1b[2Jc\n") == "a b\n?[2Jc\n");
  CHECK(sanitize_coloured("\x1b[1;31mred\x1b[0m\nplain") == "\x1b[1;31mred\x1b[0m\nplain");
  CHECK(sanitize_coloured("a\x1b[2Jb\x1b]0;title\x07\x1b[") == "a?[2Jb?]0;title??[");
}

TEST_CASE("an error's text cannot control the terminal") {
  const Error e{.what = "cannot open /x/\x1b[31m", .cause = "a\u202eb", .hint = "rm '\x07\n'"};
  CHECK(to_text(e) == "xpurun: error: cannot open /x/?[31m\n  a?b\n  try:  rm '? '\n");
}

TEST_CASE("wrapping breaks at spaces and indents continuation lines") {
  CHECK(wrap("one two three four", 9, 2) == "one two\n  three\n  four");
}

TEST_CASE("shell quoting only where needed") {
  CHECK(shell_quote("--lr=0.1") == "--lr=0.1");
  CHECK(shell_quote("a b") == "'a b'");
  CHECK(shell_quote("it's") == "'it'\\''s'");
  CHECK(shell_quote("") == "''");
}

TEST_CASE("suggestions are close or absent") {
  CHECK(closest("--hang-timout", {"--hang-timeout", "--out"}) == "--hang-timeout");
  CHECK_FALSE(closest("--zzzz", {"--hang-timeout", "--out"}));
}
