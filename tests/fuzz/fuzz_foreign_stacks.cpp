// Input: a byte that selects the reader, a byte that selects the output format, then a file as another tool
// may
// have written it. Everything that is read can be written, and the output has no terminal control
// sequences.
#include "report/formats/formats.h"
#include "report/formats/xpu_timer_compat.h"
#include "report/import/import.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

using namespace xpurun;
using namespace xpurun::report;

namespace {

constexpr ForeignFormat kReaders[] = {ForeignFormat::folded,     ForeignFormat::pyspy_json,
                                      ForeignFormat::pyspy_text, ForeignFormat::pystack_text,
                                      ForeignFormat::gdb_text,   ForeignFormat::xpu_timer,
                                      ForeignFormat::unknown};
constexpr Format kWritten[] = {Format::tree,       Format::text,  Format::json, Format::pyspy, Format::folded,
                               Format::speedscope, Format::pprof, Format::svg,  Format::html};
constexpr View kViews[] = {View::merged, View::python, View::native};

void require(bool good) {
  if (!good) {
    std::abort();
  }
}

bool is_json(Format format) {
  return format == Format::json || format == Format::pyspy || format == Format::speedscope;
}

void check_bytes(const std::string& text) {
  require(std::none_of(text.begin(), text.end(),
                       [](unsigned char c) { return (c < 0x20 && c != '\n') || c == 0x7f; }));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) {
    return 0;
  }
  const std::string_view content(reinterpret_cast<const char*>(data + 2), size - 2);
  ForeignFormat reader = kReaders[data[0] % std::size(kReaders)];
  if (reader == ForeignFormat::unknown) {
    reader = sniff("stacks.txt", content);
  }
  if (reader == ForeignFormat::xpu_timer && data[1] >= 128) {
    const XpuStacktrace one = parse_xpu_stacktrace(content);
    const XpuTimerMerge merged =
        merge_xpu_stacktraces({{0, one}, {1, parse_xpu_stacktrace(content.substr(size / 3))}}, 3);
    check_bytes(merged.cpp_svg);
    check_bytes(merged.py_svg);
    return 0;
  }
  auto imported = import_content(reader, content, {.host = "node", .rank = data[1] % 2 == 0 ? 3 : -1});
  if (!imported) {
    return 0;
  }
  const Format format = kWritten[data[1] / 2 % std::size(kWritten)];
  StackSet set = make_stack_set(std::move(imported->processes), "a file", std::move(imported->notes));
  const std::string text = write_format(format, std::move(set), kViews[data[0] / 16 % std::size(kViews)]);
  if (!is_binary(format)) {
    check_bytes(text);
  }
  require(!is_json(format) || nlohmann::json::accept(text));
  return 0;
}
