#include "common/model/timing/op_names.h"

#include "common/model/timing/cuda_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace xpurun::model {

using namespace cuda_types;

std::string_view class_name(uint8_t op_class) {
  constexpr std::array<std::string_view, 8> kNames = {"none",  "matmul", "collective", "memory",
                                                      "graph", "kernel", "control",    "host"};
  return op_class < kNames.size() ? kNames[op_class] : "unknown";
}

std::string_view level_name(wire::Level level) {
  constexpr std::array<std::string_view, 3> kNames = {"off", "light", "full"};
  const auto index = static_cast<size_t>(level);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::optional<wire::Level> level_from_name(std::string_view name) {
  for (const wire::Level level : {wire::Level::off, wire::Level::light, wire::Level::full}) {
    if (level_name(level) == name) {
      return level;
    }
  }
  return std::nullopt;
}

namespace {

std::string_view function_name(uint16_t api, uint8_t flags) {
  if ((flags & wire::kOpOther) != 0) {
    return "other";
  }
  return api < wire::kApiCount ? wire::kApis[api].name : "unknown";
}

std::string_view collective_of(std::string_view name) {
  if (name == "ncclSend" || name == "ncclRecv") {
    return "SendRecv";
  }
  // NCCL's older form of ncclBroadcast, with one buffer.
  if (name == "ncclBcast") {
    return "Broadcast";
  }
  return name.starts_with("nccl") ? name.substr(4) : name;
}

std::string_view direction_of(std::string_view name, uint8_t copy) {
  if (!name.starts_with("cudaMemcpy")) {
    return "";
  }
  constexpr std::array<std::string_view, 5> kDirections = {"H2H", "H2D", "D2H", "D2D", "any"};
  return copy < kDirections.size() ? kDirections[copy] : "unknown";
}

}  // namespace

std::string_view api_name(const wire::OpKey& key) {
  return function_name(key.api, key.flags);
}

std::string_view api_name(const EventKey& key) {
  return function_name(key.api, key.flags);
}

std::string_view collective_name(const wire::OpKey& key) {
  return collective_of(api_name(key));
}

std::string_view collective_name(const EventKey& key) {
  return collective_of(api_name(key));
}

std::string cuda_type_name(int type) {
  switch (type) {
    case kR32F:
      return "fp32";
    case kR64F:
      return "fp64";
    case kR16F:
      return "fp16";
    case kR8I:
      return "int8";
    case kC32F:
      return "complex64";
    case kC64F:
      return "complex128";
    case 10:
      return "int32";
    case kR16BF:
      return "bf16";
    case kE4M3:
      return "fp8_e4m3";
    case kE5M2:
      return "fp8_e5m2";
    case 33:
      return "fp4_e2m1";
    default:
      return fmt::format("type{}", type);
  }
}

std::string nccl_type_name(int type) {
  constexpr std::array<std::string_view, 12> kNames = {"int8",  "uint8",  "int32",    "uint32",
                                                       "int64", "uint64", "fp16",     "fp32",
                                                       "fp64",  "bf16",   "fp8_e4m3", "fp8_e5m2"};
  const auto index = static_cast<size_t>(type);
  return index < kNames.size() ? std::string(kNames[index]) : fmt::format("type{}", type);
}

uint16_t api_number(std::string_view function) {
  const auto* const end = std::end(wire::kApis);
  const auto* const found = std::find_if(std::begin(wire::kApis), end,
                                         [&](const wire::ApiInfo& api) { return function == api.name; });
  return static_cast<uint16_t>(found - std::begin(wire::kApis));
}

std::string_view copy_direction(const wire::OpKey& key) {
  return direction_of(api_name(key), key.copy);
}

std::string_view copy_direction(const EventKey& key) {
  return direction_of(api_name(key), key.copy);
}

std::string_view source_name(uint8_t source) {
  constexpr std::array<std::string_view, 8> kNames = {"none",      "events",        "host_query",
                                                      "host_call", "nccl_profiler", "nccl_profiler_host",
                                                      "cupti",     "event_group"};
  return source < kNames.size() ? kNames[source] : "none";
}

std::string_view algorithm_name(uint8_t algorithm) {
  constexpr std::array<std::string_view, 8> kNames = {"unknown",       "tree", "ring",      "collnet_direct",
                                                      "collnet_chain", "nvls", "nvls_tree", "pat"};
  return algorithm < kNames.size() ? kNames[algorithm] : kNames[0];
}

std::string_view protocol_name(uint8_t protocol) {
  constexpr std::array<std::string_view, 4> kNames = {"unknown", "LL", "LL128", "simple"};
  return protocol < kNames.size() ? kNames[protocol] : kNames[0];
}

// MPI counts the elements for each other rank, where NCCL counts all.
double mpi_bus_factor(std::string_view function, double ranks) {
  const double others = ranks - 1;
  if (others <= 0) {
    return 0;
  }
  if (function == "MPI_Allreduce") {
    return 2 * others / ranks;
  }
  if (function == "MPI_Bcast" || function == "MPI_Reduce" || function == "MPI_Scan") {
    return 1;
  }
  return function == "MPI_Allgather" || function == "MPI_Alltoall" || function == "MPI_Gather" ||
                 function == "MPI_Scatter"
             ? others
             : 0;
}

double bus_factor(std::string_view collective, int ranks) {
  if (ranks <= 1) {
    return 0;
  }
  const double n = ranks;
  // The factors of nccl-tests (doc/PERFORMANCE.md), which make bandwidths of different numbers of ranks
  // comparable.
  if (collective == "AllReduce") {
    return 2 * (n - 1) / n;
  }
  const bool shared = collective == "AllGather" || collective == "ReduceScatter" ||
                      collective == "AlltoAll" || collective == "Gather" || collective == "Scatter";
  return shared ? (n - 1) / n : 1;
}

}  // namespace xpurun::model
