#include "report/gpu_work/trace_kinds.h"

#include "common/model/json_fields.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace xpurun::report {

using nlohmann::json;

bool has_all_gpu_work(const json& trace) {
  const json* kinds = trace.is_object() ? model::member(trace, "kinds") : nullptr;
  if (kinds == nullptr || !kinds->is_array()) {
    return false;
  }
  const auto has = [kinds](const char* word) {
    return std::find(kinds->begin(), kinds->end(), json(word)) != kinds->end();
  };
  return has("matmul") && has("collective") && has("memory");
}

}  // namespace xpurun::report
