// Input: a report page received by mail, or only the data of such a page. Reading either
// fails or gives text without terminal control sequences, and data packed into a page can be
// extracted again.
#include "report/render/parts/embed.h"
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
