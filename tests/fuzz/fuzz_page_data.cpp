// Input: a page as it may come by mail. Reading its data back either fails or gives text without anything
// that drives a terminal.
#include "report/render/embed.h"
#include "report/render/terminal.h"

#include <cstdint>
#include <cstdlib>

using namespace xpurun::report;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view page(reinterpret_cast<const char*>(data), size);
  const auto json = read_data_block(page, kReportDataId);
  if (!json) {
    return 0;
  }
  const auto text = terminal_text(*json, {.columns = 40});
  if (text && text->find_first_of(std::string_view("\0\a\b\r\x1b\x7f", 6)) != std::string::npos) {
    std::abort();
  }
  return 0;
}
