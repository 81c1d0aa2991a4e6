// Blocks: a series in the order of time, summed up as medians of equal parts. Neighbouring values of a series
// are correlated, so single values would prove too much; tests compare the medians of blocks. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace xpurun::report {

inline constexpr size_t kMostBlocks = 32;

// At most kMostBlocks medians, in the order of time; every value is in exactly one block.
std::vector<double> block_medians(std::span<const float> values);

// The mean over several ranks of their blocks: the first ones, the second ones, and so on.
class BlockMeans {
 public:
  // Blocks beyond kMostBlocks do not count.
  void add(std::span<const double> blocks);
  void add(const BlockMeans& other);
  std::vector<double> means() const;

 private:
  struct Sum {
    double sum = 0;
    double count = 0;
  };
  std::array<Sum, kMostBlocks> sums_{};
};

}  // namespace xpurun::report
