#include "launcher/collect/op_names.h"

#include <fmt/format.h>

#include <array>

namespace xpurun::launcher {

namespace {

// cudaDataType_t
constexpr int kR32F = 0;
constexpr int kR64F = 1;
constexpr int kR16F = 2;
constexpr int kR8I = 3;
constexpr int kC32F = 4;
constexpr int kC64F = 5;
constexpr int kR16BF = 14;
constexpr int kE4M3 = 28;
constexpr int kE5M2 = 29;
// cublasComputeType_t: fp32 data may go through the tensor cores as TF32 or 16 bits.
constexpr int kCompute32FFast16F = 74;
constexpr int kCompute32FFast16BF = 75;
constexpr int kCompute32FFastTF32 = 77;

struct Peak {
  std::string_view device;  // part of its name; the first that fits counts
  double half;              // fp16 and bf16, in TFLOP/s
  double fp8;               // 0: it has none
  double tf32;
  double fp32;
  double fp64;
  double int8;
};

// Dense figures of the vendor's data sheets.
constexpr Peak kPeaks[] = {
    {"GB200", 2500, 5000, 1250, 80, 40, 5000},
    {"B200", 2250, 4500, 1125, 75, 37, 4500},
    {"H200", 989.4, 1978.9, 494.7, 66.9, 66.9, 1978.9},
    {"H800", 989.4, 1978.9, 494.7, 66.9, 1, 1978.9},
    {"H100 PCIe", 756, 1513, 378, 51, 51, 1513},
    {"H100", 989.4, 1978.9, 494.7, 66.9, 66.9, 1978.9},
    {"GH200", 989.4, 1978.9, 494.7, 66.9, 66.9, 1978.9},
    {"H20", 148, 296, 74, 44, 1, 296},
    {"L40S", 362, 733, 183, 91.6, 1.4, 733},
    {"L40", 181, 362, 90.5, 90.5, 1.4, 362},
    {"L20", 119.5, 239, 59.8, 59.8, 0.9, 239},
    {"A800", 312, 0, 156, 19.5, 19.5, 624},
    {"A100", 312, 0, 156, 19.5, 19.5, 624},
    {"A10", 125, 0, 62.5, 31.2, 1, 250},
    {"V100", 125, 0, 15.7, 15.7, 7.8, 62},
};

double of_type(const Peak& peak, int type, int compute) {
  switch (type) {
    case kR16F:
    case kR16BF:
      return peak.half;
    case kE4M3:
    case kE5M2:
      return peak.fp8;
    case kR8I:
      return peak.int8;
    case kR64F:
    case kC64F:
      return peak.fp64;
    case kR32F:
    case kC32F:
      return compute == kCompute32FFastTF32                                    ? peak.tf32
             : compute == kCompute32FFast16F || compute == kCompute32FFast16BF ? peak.half
                                                                               : peak.fp32;
    default:
      return 0;
  }
}

}  // namespace

std::string_view level_name(wire::Level level) {
  constexpr std::array<std::string_view, 3> kNames = {"off", "light", "full"};
  const auto index = static_cast<size_t>(level);
  return index < kNames.size() ? kNames[index] : "unknown";
}

std::string_view api_name(const wire::OpKey& key) {
  if ((key.flags & wire::kOpOther) != 0) {
    return "other";
  }
  return key.api < wire::kApiCount ? wire::kApis[key.api].name : "unknown";
}

std::string_view collective_name(const wire::OpKey& key) {
  const std::string_view name = api_name(key);
  if (name == "ncclSend" || name == "ncclRecv") {
    return "SendRecv";
  }
  if (name == "ncclBcast") {
    return "Broadcast";
  }
  return name.starts_with("nccl") ? name.substr(4) : name;
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

std::string_view copy_direction(const wire::OpKey& key) {
  if (!api_name(key).starts_with("cudaMemcpy")) {
    return "";
  }
  constexpr std::array<std::string_view, 5> kDirections = {"H2H", "H2D", "D2H", "D2D", "any"};
  return key.copy < kDirections.size() ? kDirections[key.copy] : "unknown";
}

std::string_view source_name(uint8_t source) {
  constexpr std::array<std::string_view, 6> kNames = {"none",      "events",        "host_query",
                                                      "host_call", "nccl_profiler", "nccl_profiler_host"};
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

double bus_factor(std::string_view collective, int ranks) {
  if (ranks <= 1) {
    return 0;
  }
  const double n = ranks;
  if (collective == "AllReduce") {
    return 2 * (n - 1) / n;
  }
  const bool shared = collective == "AllGather" || collective == "ReduceScatter" ||
                      collective == "AlltoAll" || collective == "Gather" || collective == "Scatter";
  return shared ? (n - 1) / n : 1;
}

double peak_flops(std::string_view device_name, int cuda_type, int compute_type) {
  for (const Peak& peak : kPeaks) {
    if (device_name.find(peak.device) != std::string_view::npos) {
      return of_type(peak, cuda_type, compute_type) * 1e12;
    }
  }
  return 0;
}

}  // namespace xpurun::launcher
