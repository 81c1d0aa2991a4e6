// cudaDataType_t, as in library_types.h of CUDA: numbers that matmuls carry.
#pragma once

namespace xpurun::model::cuda_types {

inline constexpr int kR32F = 0;
inline constexpr int kR64F = 1;
inline constexpr int kR16F = 2;
inline constexpr int kR8I = 3;
inline constexpr int kC32F = 4;
inline constexpr int kC64F = 5;
inline constexpr int kR32I = 10;
inline constexpr int kR16BF = 14;
inline constexpr int kE4M3 = 28;
inline constexpr int kE5M2 = 29;

}  // namespace xpurun::model::cuda_types
