// Random normal numbers as the elements of a matrix. The power that a GPU draws, and with it the clock and
// the speed of a matmul, depends on the data: zeros are up to 13 % faster. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace xpurun::launcher {

// A prime, so that rows of a matrix that is filled with copies of one block differ.
inline constexpr size_t kRandomElements = 262'139;

// `elements` elements of a cudaDataType_t, mean 0, standard deviation 1; the same ones in every call. Empty
// for a type without a known layout.
std::vector<std::byte> random_elements(int cuda_type, size_t elements = kRandomElements);

// The bits of the nearest number of a signed format. Too large numbers become the largest normal number, too
// small numbers zero.
uint32_t small_float(float value, int exponent_bits, int mantissa_bits);

}  // namespace xpurun::launcher
