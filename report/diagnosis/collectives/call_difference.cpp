#include "report/diagnosis/collectives/call_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace xpurun::report {

using model::CollectiveCall;

namespace {

// All ranks must pass the same count and type to these operations; all_to_all, for example, allows
// differences.
constexpr std::array<std::string_view, 10> kEqualSizes = {
    "all_reduce",           "broadcast", "reduce",  "reduce_scatter",       "all_gather",
    "all_gather_coalesced", "gather",    "scatter", "all_reduce_coalesced", "broadcast_object_list"};

bool contains(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

std::string compared_value(const CollectiveCall& call, Difference what) {
  switch (what) {
    case Difference::operation:
      // With a size: NCCL's call of torch's barrier.
      return call.op == "barrier" && call.count > 0 ? "all_reduce" : call.op;
    case Difference::members:
      return call.group_ranks;
    case Difference::root:
      return call.root >= 0 ? fmt::format("{}", call.root) : kAnyValue;
    case Difference::type:
      return contains(kEqualSizes, call.op) ? call.dtype : kAnyValue;
    case Difference::size:
      if (call.op == "barrier") {
        return call.count > 0 ? "1" : kAnyValue;
      }
      // NCCL gathers tensors of different sizes too; what each rank expects then decides.
      return contains(kEqualSizes, call.op) && call.received.empty() && call.count > 0
                 ? fmt::format("{}", call.count)
                 : kAnyValue;
    case Difference::reduction:
      return call.reduce;
    case Difference::none:
      break;
  }
  return kAnyValue;
}

bool differ(const CollectiveCall& a, const CollectiveCall& b, Difference what) {
  const std::string x = compared_value(a, what);
  const std::string y = compared_value(b, what);
  return x != y && x != kAnyValue && y != kAnyValue;
}

Difference difference(const CollectiveCall& a, const CollectiveCall& b) {
  for (const Difference what :
       {Difference::operation, Difference::members, Difference::root, Difference::type, Difference::size}) {
    if (differ(a, b, what)) {
      return what;
    }
  }
  return Difference::none;
}

bool needs_everybody(const CollectiveCall& call) {
  // No rank can leave these before all have entered; the root of a broadcast can. Of "a collective" nothing
  // else is known: NCCL's RAS before 2.26 counts all operations together.
  constexpr std::array<std::string_view, 10> kSymmetric = {
      "all_reduce", "all_gather",  "reduce_scatter",       "all_to_all",           "barrier",
      "new_group",  "split_group", "all_reduce_coalesced", "all_gather_coalesced", "a collective"};
  return contains(kSymmetric, call.op);
}

}  // namespace xpurun::report
