// Input: an event file behind its two lines, without sizes and checksums, which would keep almost everything
// out: records as one block; or, behind an 'r', the bytes of a whole file. What is read must be printable.
#include "common/base/packing.h"
#include "common/model/timing/event_encoder.h"
#include "common/model/timing/event_records.h"
#include "launcher/collect/event_text.h"

#include <cstdint>
#include <cstdlib>

using namespace xpurun;

namespace {

void read(std::string_view bytes) {
  const auto file = model::parse_event_file(bytes);
  if (!file) {
    return;
  }
  size_t printed =
      launcher::event_file_text(*file, "x").size() + launcher::event_file_json(*file, "x").size();
  for (size_t i = 0; i < file->events.size(); ++i) {
    printed += launcher::event_text(*file, i).size() + launcher::event_json(*file, i).size();
  }
  if (printed == 0) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with('r')) {
    read(text.substr(1));
    return 0;
  }
  std::string file = model::EventEncoder::header({.rank = 1});
  model::records::put_fixed(file, text.size(), 4);
  model::records::put_fixed(file, base::crc32(text), 4);
  file += text;
  read(file);
  return 0;
}
