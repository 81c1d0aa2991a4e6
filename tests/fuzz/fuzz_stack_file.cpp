// Input: a stacks file of either version. A process that was read survives being written and read again.
#include "common/model/json/json_text.h"
#include "common/model/json_fields.h"
#include "common/model/stacks/stack_file.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

using namespace xpurun;

namespace {

std::string full_text(model::ProcessStacks p) {
  for (model::ThreadStack& t : p.threads) {
    for (model::Frame& f : t.frames) {
      // A file of the first version may hold numbers that no frame has.
      for (int* n : {&f.line, &f.column, &f.end_line, &f.end_column}) {
        *n = std::max(*n, 0);
      }
    }
  }
  return model::json_text(to_json(p));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read = model::process_stacks_from_json(model::parse_json(text));
  if (!read) {
    return 0;
  }
  const auto again = model::process_stacks_from_json(model::parse_json(model::stacks_file(*read)));
  if (!again || full_text(*again) != full_text(*read)) {
    std::abort();
  }
  return 0;
}
