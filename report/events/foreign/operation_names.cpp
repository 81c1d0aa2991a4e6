#include "report/events/foreign/operation_names.h"

#include "common/base/ascii_case.h"
#include "common/model/timing/op_names.h"

#include <algorithm>
#include <array>
#include <utility>

namespace xpurun::report {

namespace {

using wire::Api;
using wire::OpClass;

constexpr int kMostTypes = 64;

// Longer names first: "reduce" is part of "reduce_scatter".
constexpr std::array<std::pair<std::string_view, Api>, 10> kCollectives{{
    {"reducescatter", Api::ncclReduceScatter},
    {"allreduce", Api::ncclAllReduce},
    {"allgather", Api::ncclAllGather},
    {"alltoall", Api::ncclAlltoAll},
    {"broadcast", Api::ncclBroadcast},
    {"reduce", Api::ncclReduce},
    {"gather", Api::ncclGather},
    {"scatter", Api::ncclScatter},
    {"send", Api::ncclSend},
    {"recv", Api::ncclRecv},
}};

constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kTorchTypes{{
    {"Float", "fp32"},
    {"Double", "fp64"},
    {"Half", "fp16"},
    {"BFloat16", "bf16"},
    {"Byte", "uint8"},
    {"Bool", "uint8"},
    {"Char", "int8"},
    {"Int", "int32"},
    {"Long", "int64"},
    {"Float8_e4m3fn", "fp8_e4m3"},
    {"Float8_e5m2", "fp8_e5m2"},
}};

template <typename NameOf>
int type_named(std::string_view name, NameOf name_of) {
  const auto* torch = std::find_if(kTorchTypes.begin(), kTorchTypes.end(),
                                   [name](const auto& type) { return type.first == name; });
  const std::string_view ours = torch == kTorchTypes.end() ? name : torch->second;
  for (int type = 0; type < kMostTypes; ++type) {
    if (name_of(type) == ours) {
      return type;
    }
  }
  return -1;
}

}  // namespace

model::EventKey key_of_category(Category category) {
  model::EventKey key;
  key.api = wire::kApiCount;
  key.op_class = static_cast<uint8_t>(category == Category::matmul       ? OpClass::matmul
                                      : category == Category::collective ? OpClass::collective
                                      : category == Category::memory     ? OpClass::memory
                                      : category == Category::graph      ? OpClass::graph
                                      : category == Category::kernel     ? OpClass::kernel
                                                                         : OpClass::host);
  key.comm = model::kNoCommunicator;
  key.peer = -1;
  return key;
}

bool set_collective(model::EventKey& key, std::string_view name) {
  std::string letters = base::lower(name);
  std::erase(letters, '_');
  for (const auto& [text, api] : kCollectives) {
    if (letters.find(text) != std::string::npos) {
      key.api = static_cast<uint16_t>(api);
      return true;
    }
  }
  return false;
}

int nccl_type(std::string_view name) {
  return type_named(name, model::nccl_type_name);
}

int cuda_type(std::string_view name) {
  return type_named(name, model::cuda_type_name);
}

uint64_t nccl_type_bytes(int type) {
  constexpr std::array<uint8_t, 12> kBytes{1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && static_cast<size_t>(type) < kBytes.size() ? kBytes[static_cast<size_t>(type)] : 1;
}

}  // namespace xpurun::report
