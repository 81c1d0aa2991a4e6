// Input: a page as it may come by mail, or the data alone that such a page holds. Reading it back either
// fails or gives text without anything that drives a terminal, and what is packed into a page comes out of it
// again.
#include "report/render/embed.h"
#include "report/render/terminal.h"

#include <cstdint>
#include <cstdlib>

using namespace xpurun::report;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view page(reinterpret_cast<const char*>(data), size);
  const auto json = read_data_block(page, kReportDataId);
  const auto text = terminal_text(json ? std::string_view(*json) : page, {.columns = 40});
  if (!json && text) {
    const auto again = read_data_block(data_block(kReportDataId, page, Packing::automatic), kReportDataId);
    if (!again || terminal_text(*again, {.columns = 40}).value_or("") != *text) {
      std::abort();
    }
  }
  if (text && text->find_first_of(std::string_view("\0\a\b\r\x1b\x7f", 6)) != std::string::npos) {
    std::abort();
  }
  return 0;
}
