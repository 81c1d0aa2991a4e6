#include "report/diagnosis/waits/operation_words.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace xpurun::report {

namespace {

struct OperationWord {
  std::string_view piece;
  std::string_view name;
};

// The first match counts, so a longer word comes before its own parts.
constexpr OperationWord kOperations[] = {
    {"allreduce", "all_reduce"},
    {"reducescatter", "reduce_scatter"},
    {"reduce_scatter", "reduce_scatter"},
    {"allgather", "all_gather"},
    {"all_gather", "all_gather"},
    {"all_reduce", "all_reduce"},
    {"alltoall", "all_to_all"},
    {"sendrecv", kSendOrReceive},
    {"broadcast", "broadcast"},
    {"bcast", "broadcast"},
    {"barrier", "barrier"},
    {"scatter", "scatter"},
    {"gather", "gather"},
    {"recv", "recv"},
    {"send", "send"},
    {"reduce", "reduce"},
};

bool speaks_of(std::string_view name, std::string_view piece) {
  const auto at = std::search(name.begin(), name.end(), piece.begin(), piece.end(),
                              [](char a, char b) { return std::tolower(a) == b; });
  // "Reducer" is DDP's class, not an operation.
  return at != name.end() && !(piece == "reduce" && name.find("Reducer") != std::string_view::npos);
}

}  // namespace

std::string_view operation_word(std::string_view name) {
  const auto* word = std::find_if(std::begin(kOperations), std::end(kOperations),
                                  [&](const OperationWord& w) { return speaks_of(name, w.piece); });
  return word == std::end(kOperations) ? std::string_view() : word->name;
}

bool communicates(std::string_view kernel) {
  constexpr std::string_view kSigns[] = {"nccl",          "nvshmem",       "allreduce", "all_reduce",
                                         "allgather",     "all_gather",    "alltoall",  "all_to_all",
                                         "reducescatter", "reduce_scatter"};
  return std::any_of(std::begin(kSigns), std::end(kSigns),
                     [&](std::string_view sign) { return speaks_of(kernel, sign); });
}

}  // namespace xpurun::report
