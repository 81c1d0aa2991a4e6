#include "common/model/timing/peaks.h"

#include <doctest/doctest.h>

using namespace xpurun::model;

namespace {

constexpr int kFp32 = 0;
constexpr int kFp16 = 2;
constexpr int kBf16 = 14;
constexpr int kE4M3 = 28;
constexpr int kE5M2 = 29;
constexpr int kCompute32 = 68;
constexpr int kComputeTf32 = 77;

std::string problem(std::string_view text) {
  const auto peaks = Peaks::parse(text);
  return peaks ? "" : peaks.error().what;
}

}  // namespace

TEST_CASE("peaks by data sheet") {
  const Peaks peaks;
  CHECK(peaks.of("NVIDIA H200", kBf16, kCompute32) == doctest::Approx(989.4e12));
  CHECK(peaks.of("NVIDIA H20", kBf16, kCompute32) == doctest::Approx(148e12));
  CHECK(peaks.of("NVIDIA H100 PCIe", kBf16, kCompute32) == doctest::Approx(756e12));
  CHECK(peaks.of("NVIDIA H200", kFp32, kComputeTf32) > peaks.of("NVIDIA H200", kFp32, kCompute32));
  CHECK(peaks.of("NVIDIA H200", kE5M2, kCompute32) == doctest::Approx(1978.9e12));
  CHECK(peaks.of("NVIDIA A100-SXM4-80GB", kE4M3, kCompute32) == 0);
  CHECK(peaks.of("NVIDIA H200", 10, kCompute32) == 0);
  CHECK(peaks.of("Something else", kBf16, kCompute32) == 0);
}

TEST_CASE("peaks given by --peak") {
  const Peaks all = *Peaks::parse("989e12");
  CHECK(all.of("NVIDIA A100", kBf16, kCompute32) == doctest::Approx(989e12));
  CHECK(all.of("", kFp32, kCompute32) == doctest::Approx(989e12));
  CHECK(all.is_given(kBf16, kCompute32));
  const Peaks some = *Peaks::parse("bf16=989T,fp8=1.979P,tf32=494.5T");
  CHECK(some.of("", kBf16, kCompute32) == doctest::Approx(989e12));
  CHECK(some.of("", kE4M3, kCompute32) == doctest::Approx(1979e12));
  CHECK(some.of("", kE5M2, kCompute32) == doctest::Approx(1979e12));
  CHECK(some.of("", kFp32, kComputeTf32) == doctest::Approx(494.5e12));
  CHECK(some.of("", kFp32, kCompute32) == 0);
  CHECK_FALSE(some.is_given(kFp32, kCompute32));
  CHECK(some.of("NVIDIA A100", kFp16, kCompute32) == doctest::Approx(312e12));
  const Peaks both = *Peaks::parse("100T,fp8=500000G");
  CHECK(both.of("NVIDIA H200", kBf16, kCompute32) == doctest::Approx(100e12));
  CHECK(both.of("NVIDIA H200", kE4M3, kCompute32) == doctest::Approx(500e12));
}

TEST_CASE("implausible peaks are refused") {
  CHECK(problem("fast") == "'fast' is not in FLOP/s; write 989T, 989e12 or bf16=989T,fp8=1979T");
  for (const char* text : {"", "989X", "-1T", "0", "0x10", "nan", "inf", "1e300", "989T,", ",989T",
                           "bf16=", "989 T", "bf16=989T fp8=1979T", "T", "1TT", "1e"}) {
    CAPTURE(text);
    CHECK(problem(text).find("is not in FLOP/s") != std::string::npos);
  }
  CHECK(problem("bf17=1T") == "'bf17' is not a type: bf16, fp16, fp8, tf32, fp32, fp64 or int8");
  CHECK(problem("=1T").starts_with("'' is not a type"));
  CHECK(problem("bf16=1T,bf16=2T") == "there are two numbers for bf16");
  CHECK(problem("1T,2T") == "there are two numbers for all types");
}
