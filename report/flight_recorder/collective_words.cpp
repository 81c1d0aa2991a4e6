#include "report/flight_recorder/collective_words.h"

#include "common/base/ascii_case.h"
#include "common/base/strings.h"

#include <algorithm>
#include <utility>

namespace xpurun::report {

namespace {

using Pair = std::pair<std::string_view, std::string_view>;

constexpr Pair kOps[] = {
    {"_broadcast_oop", "broadcast"},
    {"_reduce_oop", "reduce"},
    {"allreduce", "all_reduce"},
    {"allreduce_coalesced", "all_reduce"},
    {"all_reduce_sparse", "all_reduce"},
    {"_all_gather_base", "all_gather"},
    {"_allgather_base", "all_gather"},
    {"allgather", "all_gather"},
    {"allgather_coalesced", "all_gather"},
    {"ALLGATHER_coalesced", "all_gather"},
    {"all_gather_single", "all_gather"},
    {"all_gather_into_tensor_coalesced", "all_gather"},
    {"_reduce_scatter_base", "reduce_scatter"},
    {"reduce_scatter_single", "reduce_scatter"},
    {"reduce_scatter_tensor_coalesced", "reduce_scatter"},
    {"REDUCE_SCATTER_coalesced", "reduce_scatter"},
    {"all_reduce_barrier", "barrier"},
    {"alltoall", "all_to_all"},
    {"alltoall_base", "all_to_all"},
    {"all_to_all_single", "all_to_all"},
};

constexpr Pair kTypes[] = {
    {"Float", "float32"},
    {"Double", "float64"},
    {"Half", "float16"},
    {"BFloat16", "bfloat16"},
    {"Byte", "uint8"},
    {"Char", "int8"},
    {"Short", "int16"},
    {"Int", "int32"},
    {"Long", "int64"},
    {"ComplexFloat", "complex64"},
    {"ComplexDouble", "complex128"},
};

template <size_t N>
std::string_view find(const Pair (&table)[N], std::string_view name) {
  const auto* it =
      std::find_if(std::begin(table), std::end(table), [&](const Pair& p) { return p.first == name; });
  return it == std::end(table) ? std::string_view() : it->second;
}

}  // namespace

std::string op_word(std::string_view op) {
  const std::string_view word = find(kOps, op);
  return base::sanitize(word.empty() ? op : word);
}

CountOf count_of(std::string_view word) {
  // The count of a scatter or a recv is the receive count; only the root of a scatter has an input.
  const bool output = word == "reduce_scatter" || word == "scatter" || word == "recv";
  return output ? CountOf::output : CountOf::input;
}

std::string dtype_word(std::string_view dtype) {
  const std::string_view word = find(kTypes, dtype);
  return base::lower(base::sanitize(word.empty() ? dtype : word));
}

}  // namespace xpurun::report
