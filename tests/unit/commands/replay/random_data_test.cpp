#include "commands/replay/random_data.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>

using namespace xpurun::launcher;

namespace {

// The value of the bits, by the definition of the formats.
double value_of(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int exponent = static_cast<int>(bits >> mantissa_bits & ((1U << exponent_bits) - 1));
  const double mantissa = 1 + static_cast<double>(bits & ((1U << mantissa_bits) - 1)) / (1 << mantissa_bits);
  const double sign = (bits >> (exponent_bits + mantissa_bits)) != 0 ? -1 : 1;
  return exponent == 0 ? 0 : sign * std::ldexp(mantissa, exponent - (1 << (exponent_bits - 1)) + 1);
}

template <typename T>
std::vector<T> as(const std::vector<std::byte>& bytes) {
  std::vector<T> out(bytes.size() / sizeof(T));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

}  // namespace

TEST_CASE("known numbers") {
  CHECK(small_float(1.0F, 5, 10) == 0x3c00);
  CHECK(small_float(-2.0F, 5, 10) == 0xc000);
  CHECK(small_float(65504.0F, 5, 10) == 0x7bff);
  CHECK(small_float(1e9F, 5, 10) == 0x7bff);
  CHECK(small_float(1.0F, 8, 7) == 0x3f80);
  CHECK(small_float(1.0F, 4, 3) == 0x38);
  CHECK(small_float(448.0F, 4, 3) == 0x7e);
  CHECK(small_float(-1e9F, 4, 3) == 0xfe);
  CHECK(small_float(57344.0F, 5, 2) == 0x7b);
  CHECK(small_float(0.0F, 5, 10) == 0);
  CHECK(small_float(1e-20F, 5, 10) == 0);
  // Rounds, also into the next exponent.
  CHECK(small_float(1.999F, 4, 3) == 0x40);
}

TEST_CASE("the nearest number of each format") {
  const int formats[][2] = {{5, 10}, {8, 7}, {4, 3}, {5, 2}};
  for (const auto& format : formats) {
    const int exponent = format[0];
    const int mantissa = format[1];
    CAPTURE(mantissa);
    for (float v = -4; v < 4; v += 0.013F) {
      if (std::abs(v) < 0.1F) {
        continue;
      }
      const double back = value_of(small_float(v, exponent, mantissa), exponent, mantissa);
      REQUIRE(std::abs(back / static_cast<double>(v) - 1) <= std::ldexp(1.0001, -mantissa - 1));
    }
  }
}

TEST_CASE("elements are normal numbers, the same in every call, and never all alike") {
  const auto bytes = random_elements(14, 10'000);
  CHECK(bytes.size() == 20'000);
  CHECK(bytes == random_elements(14, 10'000));
  double sum = 0;
  double squares = 0;
  for (const uint16_t bits : as<uint16_t>(bytes)) {
    const double v = value_of(bits, 8, 7);
    sum += v;
    squares += v * v;
  }
  CHECK(std::abs(sum / 1e4) < 0.05);
  CHECK(squares / 1e4 == doctest::Approx(1).epsilon(0.05));
  CHECK(random_elements(0, 10).size() == 40);
  CHECK(random_elements(1, 10).size() == 80);
  CHECK(random_elements(5, 10).size() == 160);
  CHECK(random_elements(28, 10).size() == 10);
  CHECK(random_elements(3, 10).size() == 10);
  CHECK(random_elements(99, 10).empty());
  CHECK(random_elements(2).size() == 2 * kRandomElements);
}
