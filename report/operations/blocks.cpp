#include "report/operations/blocks.h"

#include "report/speed/primitives/statistics.h"

#include <algorithm>

namespace xpurun::report {

std::vector<double> block_medians(std::span<const float> values) {
  const size_t blocks = std::min(values.size(), kMostBlocks);
  std::vector<double> out;
  for (size_t b = 0; b < blocks; ++b) {
    const size_t first = b * values.size() / blocks;
    const size_t last = (b + 1) * values.size() / blocks;
    std::vector<double> part(values.begin() + static_cast<std::ptrdiff_t>(first),
                             values.begin() + static_cast<std::ptrdiff_t>(last));
    out.push_back(quantile(part, 0.5));
  }
  return out;
}

void BlockMeans::add(std::span<const double> blocks) {
  for (size_t b = 0; b < std::min(blocks.size(), kMostBlocks); ++b) {
    sums_[b].sum += blocks[b];
    sums_[b].count += 1;
  }
}

void BlockMeans::add(const BlockMeans& other) {
  for (size_t b = 0; b < kMostBlocks; ++b) {
    sums_[b].sum += other.sums_[b].sum;
    sums_[b].count += other.sums_[b].count;
  }
}

std::vector<double> BlockMeans::means() const {
  std::vector<double> out;
  for (const Sum& one : sums_) {
    if (one.count > 0) {
      out.push_back(one.sum / one.count);
    }
  }
  return out;
}

}  // namespace xpurun::report
