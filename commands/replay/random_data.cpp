#include "commands/replay/random_data.h"

#include "common/model/timing/cuda_types.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>

namespace xpurun::launcher {

namespace {

using namespace model::cuda_types;

template <typename T, typename Convert>
std::vector<std::byte> converted(size_t count, Convert&& convert) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<std::byte> out(count * sizeof(T));
  for (size_t i = 0; i < count; ++i) {
    const T value = convert(normal(random));
    std::memcpy(&out[i * sizeof(T)], &value, sizeof(T));
  }
  return out;
}

// The largest exponent of e4m3 has numbers; that of the other formats stands for infinity.
bool has_infinity(int exponent_bits) {
  return exponent_bits != 4;
}

}  // namespace

uint32_t small_float(float value, int exponent_bits, int mantissa_bits) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 31 << (exponent_bits + mantissa_bits);
  // Rounds half up; a carry out of the mantissa increases the exponent, as it has to.
  const uint32_t rounded = (bits & 0x7fffffff) + (uint32_t{1} << (22 - mantissa_bits));
  const int exponent = static_cast<int>(rounded >> 23) - 127 + (1 << (exponent_bits - 1)) - 1;
  const int most = (1 << exponent_bits) - 1 - (has_infinity(exponent_bits) ? 1 : 0);
  const uint32_t mantissa = (rounded & 0x7fffff) >> (23 - mantissa_bits);
  if (exponent <= 0) {
    return sign;
  }
  // All ones of e4m3 is not a number.
  const uint32_t largest = static_cast<uint32_t>(most) << mantissa_bits | ((1U << mantissa_bits) - 1);
  const uint32_t magnitude =
      exponent > most ? largest : static_cast<uint32_t>(exponent) << mantissa_bits | mantissa;
  return sign | std::min(magnitude, has_infinity(exponent_bits) ? largest : largest - 1);
}

std::vector<std::byte> random_elements(int cuda_type, size_t elements) {
  const auto small = [](int exponent, int mantissa) {
    return [=](float v) { return static_cast<uint16_t>(small_float(v, exponent, mantissa)); };
  };
  const auto tiny = [](int exponent, int mantissa) {
    return [=](float v) { return static_cast<uint8_t>(small_float(v, exponent, mantissa)); };
  };
  switch (cuda_type) {
    case kR16F:
      return converted<uint16_t>(elements, small(5, 10));
    case kR16BF:
      return converted<uint16_t>(elements, small(8, 7));
    case kE4M3:
      return converted<uint8_t>(elements, tiny(4, 3));
    case kE5M2:
      return converted<uint8_t>(elements, tiny(5, 2));
    case kR8I:
      return converted<int8_t>(
          elements, [](float v) { return static_cast<int8_t>(std::clamp(v * 40, -127.0F, 127.0F)); });
    case kR32I:
      return converted<int32_t>(elements, [](float v) { return static_cast<int32_t>(v * 1000); });
    case kR32F:
      return converted<float>(elements, [](float v) { return v; });
    case kC32F:
      return converted<float>(2 * elements, [](float v) { return v; });
    case kR64F:
      return converted<double>(elements, [](float v) { return static_cast<double>(v); });
    case kC64F:
      return converted<double>(2 * elements, [](float v) { return static_cast<double>(v); });
    default:
      return {};
  }
}

}  // namespace xpurun::launcher
