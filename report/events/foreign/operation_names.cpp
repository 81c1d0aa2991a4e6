#include "report/events/foreign/operation_names.h"

#include "common/base/ascii_case.h"
#include "common/model/speed/kernel_name.h"
#include "common/model/timing/op_names.h"

#include <algorithm>
#include <array>
#include <iterator>
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

// In names of NCCL's kernels, since 2.19 and before.
constexpr std::array<std::pair<std::string_view, std::string_view>, 18> kKernelTypes{{
    {"f32", "fp32"},
    {"f16", "fp16"},
    {"bf16", "bf16"},
    {"f64", "fp64"},
    {"f8e4m3", "fp8_e4m3"},
    {"f8e5m2", "fp8_e5m2"},
    {"i8", "int8"},
    {"u8", "uint8"},
    {"i32", "int32"},
    {"u32", "uint32"},
    {"i64", "int64"},
    {"u64", "uint64"},
    {"float", "fp32"},
    {"half", "fp16"},
    {"double", "fp64"},
    {"__nv_bfloat16", "bf16"},
    {"int8_t", "int8"},
    {"uint8_t", "uint8"},
}};

// Behind a '_', to the next one or to the end of the name.
bool has_word(std::string_view name, std::string_view word) {
  for (size_t at = name.find(word, 1); at != std::string_view::npos; at = name.find(word, at + 1)) {
    const size_t end = at + word.size();
    if (name[at - 1] == '_' && (end == name.size() || name[end] == '_')) {
      return true;
    }
  }
  return false;
}

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

int type_in_kernel(std::string_view name) {
  name = name.substr(0, name.find('('));
  const auto* found = std::find_if(kKernelTypes.begin(), kKernelTypes.end(),
                                   [name](const auto& type) { return has_word(name, type.first); });
  return found == kKernelTypes.end() ? -1 : nccl_type(found->second);
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
  std::fill(std::begin(key.dtype), std::end(key.dtype), model::kNoType);
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
      if (const int type = model::is_nccl_kernel(name) ? type_in_kernel(name) : -1; type >= 0) {
        key.dtype[0] = type_byte(type);
      }
      return true;
    }
  }
  return false;
}

uint8_t type_byte(int type) {
  return type < 0 ? model::kNoType : static_cast<uint8_t>(type);
}

int nccl_type(std::string_view name) {
  return type_named(name, model::nccl_type_name);
}

int cuda_type(std::string_view name) {
  return type_named(name, model::cuda_type_name);
}

int communicator_of(Activity& activity, uint64_t identity, int size) {
  std::vector<Communicator>& all = activity.communicators;
  const auto found = std::find_if(all.begin(), all.end(), [&](const Communicator& c) {
    return c.identity == identity && c.size == size;
  });
  const auto index = static_cast<int>(found - all.begin());
  if (found == all.end()) {
    all.push_back({.identity = identity, .size = size});
  }
  return index;
}

uint64_t nccl_type_bytes(int type) {
  constexpr std::array<uint8_t, 12> kBytes{1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && static_cast<size_t>(type) < kBytes.size() ? kBytes[static_cast<size_t>(type)] : 1;
}

}  // namespace xpurun::report
