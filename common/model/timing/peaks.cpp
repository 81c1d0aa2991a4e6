#include "common/model/timing/peaks.h"

#include "common/base/strings.h"
#include "common/model/timing/cuda_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

namespace xpurun::model {

namespace {

using namespace cuda_types;
// cublasComputeType_t: fp32 data may go through the tensor cores as TF32 or 16 bits.
constexpr int kCompute32FFast16F = 74;
constexpr int kCompute32FFast16BF = 75;
constexpr int kCompute32FFastTF32 = 77;

struct Peak {
  std::string_view device;  // part of the device's name; the first match is used
  double half;              // fp16 and bf16, in TFLOP/s
  double fp8;               // 0: not supported
  double tf32;
  double fp32;
  double fp64;
  double int8;
};

// Dense figures from the vendor's data sheets.
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

constexpr std::array<std::string_view, 7> kTypes = {"bf16", "fp16", "fp8", "tf32", "fp32", "fp64", "int8"};
// Larger values are typing errors: current GPUs reach about 1e16.
constexpr double kMost = 1e21;

// The --peak name of the type in which the GPU computes with such operands; "" if there is no name.
std::string_view word_for(int type, int compute) {
  switch (type) {
    case kR16F:
      return "fp16";
    case kR16BF:
      return "bf16";
    case kE4M3:
    case kE5M2:
      return "fp8";
    case kR8I:
      return "int8";
    case kR64F:
    case kC64F:
      return "fp64";
    case kR32F:
    case kC32F:
      return compute == kCompute32FFastTF32   ? "tf32"
             : compute == kCompute32FFast16F  ? "fp16"
             : compute == kCompute32FFast16BF ? "bf16"
                                              : "fp32";
    default:
      return "";
  }
}

double by_data_sheet(const Peak& peak, std::string_view type) {
  const std::pair<std::string_view, double> all[] = {
      {"bf16", peak.half}, {"fp16", peak.half}, {"fp8", peak.fp8},  {"tf32", peak.tf32},
      {"fp32", peak.fp32}, {"fp64", peak.fp64}, {"int8", peak.int8}};
  for (const auto& [name, tflops] : all) {
    if (name == type) {
      return tflops * 1e12;
    }
  }
  return 0;
}

// "989e12", "989T", "0.989P".
std::optional<double> flops_of(std::string_view text) {
  const std::string copy(text);
  char* end = nullptr;
  const bool plain = !copy.empty() && copy.find_first_not_of("0123456789.eE+GTP") == std::string::npos;
  const double value = plain ? std::strtod(copy.c_str(), &end) : 0;
  if (!plain || end == copy.c_str()) {
    return std::nullopt;
  }
  const std::string_view unit(end);
  const double factor = unit.empty() ? 1 : unit == "G" ? 1e9 : unit == "T" ? 1e12 : unit == "P" ? 1e15 : 0;
  const double flops = value * factor;
  return flops >= 1 && flops <= kMost ? std::optional(flops) : std::nullopt;
}

}  // namespace

base::Result<Peaks> Peaks::parse(std::string_view text) {
  Peaks out;
  for (const std::string_view part : base::split(text, ',')) {
    const size_t equals = part.find('=');
    const std::string type(equals == std::string_view::npos ? std::string_view() : part.substr(0, equals));
    const std::string_view value = equals == std::string_view::npos ? part : part.substr(equals + 1);
    if (equals != std::string_view::npos && std::find(kTypes.begin(), kTypes.end(), type) == kTypes.end()) {
      return base::fail(
          fmt::format("'{}' is not a type: bf16, fp16, fp8, tf32, fp32, fp64 or int8", base::sanitize(type)));
    }
    const auto flops = flops_of(value);
    if (!flops) {
      return base::fail(fmt::format("'{}' is not in FLOP/s; write 989T, 989e12 or bf16=989T,fp8=1979T",
                                    base::sanitize(value)));
    }
    if (!out.given_.emplace(type, *flops).second) {
      return base::fail(type.empty() ? std::string("there are two numbers for all types")
                                     : fmt::format("there are two numbers for {}", type));
    }
  }
  return out;
}

double Peaks::given(int cuda_type, int compute_type) const {
  for (const std::string_view key : {word_for(cuda_type, compute_type), std::string_view()}) {
    if (const auto it = given_.find(key); it != given_.end()) {
      return it->second;
    }
  }
  return 0;
}

double Peaks::of(std::string_view device_name, int cuda_type, int compute_type) const {
  if (const double said = given(cuda_type, compute_type); said > 0) {
    return said;
  }
  for (const Peak& peak : kPeaks) {
    if (device_name.find(peak.device) != std::string_view::npos) {
      return by_data_sheet(peak, word_for(cuda_type, compute_type));
    }
  }
  return 0;
}

}  // namespace xpurun::model
