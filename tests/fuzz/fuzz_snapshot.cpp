// Input: a stacks file. If the fast reader accepts the file, its result must equal that of the model's
// reader.
#include "report/snapshots/snapshot_reader.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdlib>

using namespace xpurun;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using Json = nlohmann::ordered_json;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  report::FramePool pool;
  auto quick = report::parse_snapshot(text, pool);
  if (!quick) {
    return 0;
  }
  const auto j = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  auto whole = model::process_stacks_from_json(j);
  if (!whole) {
    std::abort();
  }
  const auto comparable = [](model::ProcessStacks p) {
    for (model::ThreadStack& t : p.threads) {
      for (model::Frame& f : t.frames) {
        // Shared frames keep the address of the first frame.
        f.pc = 0;
      }
    }
    return to_json(p).dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  const auto shared = report::with_frames(*quick, std::vector<bool>(quick->frames.size(), true));
  if (comparable(shared) != comparable(*whole)) {
    std::abort();
  }
  return 0;
}
