// The report as text for a terminal, made from report.json, so that a run directory and a mailed page give
// the same. The order is that of the page: verdict, findings, ranks, classes, environment.
#pragma once

#include "common/base/result.h"

#include <string>
#include <string_view>

namespace xpurun::report {

enum class Ink { plain, coloured };
enum class Glyphs { ascii, utf8 };  // of our own marks; names are what they are

struct TerminalLook {
  size_t columns = 80;
  Ink ink = Ink::plain;
  Glyphs glyphs = Glyphs::utf8;
};

// Fails on text that is not a report.json of a known schema. The text may come from anywhere.
base::Result<std::string> terminal_text(std::string_view report_json, const TerminalLook& look);

}  // namespace xpurun::report
