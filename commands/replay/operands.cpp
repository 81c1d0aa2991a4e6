#include "commands/replay/operands.h"

#include "commands/replay/random_data.h"
#include "common/model/timing/cuda_types.h"

#include <algorithm>
#include <cstring>

namespace xpurun::launcher {

namespace {

using namespace model::cuda_types;

template <typename T>
void put(Scalar& to, T value) {
  std::memcpy(to.bytes, &value, sizeof value);
}

base::Result<GpuBuffer> random_buffer(Gpu& gpu, uint64_t bytes, int type) {
  XPURUN_TRY_ASSIGN(GpuBuffer out, gpu.allocate(bytes));
  XPURUN_TRY(gpu.fill(out, random_elements(type)));
  return out;
}

// cuBLASLt wants multiples of 8 elements, or of 128 bits where the matrix is a mask.
int64_t auxiliary_leading(int64_t rows) {
  constexpr int64_t kMultiple = 128;
  return (rows + kMultiple - 1) / kMultiple * kMultiple;
}

}  // namespace

Scalar scalar(int type, bool one) {
  Scalar out;
  switch (type) {
    case kR16F:
      put<uint16_t>(out, one ? 0x3c00 : 0);
      break;
    case kR64F:
    case kC64F:
      put<double>(out, one ? 1 : 0);
      break;
    case kR32I:
      put<int32_t>(out, one ? 1 : 0);
      break;
    default:
      put<float>(out, one ? 1.0F : 0.0F);
      break;
  }
  return out;
}

base::Result<MatmulOperands> make_operands(Gpu& gpu, const report::MatmulProblem& p) {
  MatmulOperands out;
  XPURUN_TRY_ASSIGN(out.a, random_buffer(gpu, report::bytes_of(p.a, p.batch), p.a.type));
  XPURUN_TRY_ASSIGN(out.b, random_buffer(gpu, report::bytes_of(p.b, p.batch), p.b.type));
  XPURUN_TRY_ASSIGN(out.d, gpu.allocate(report::bytes_of(p.d, p.batch)));
  if (p.c.type != p.d.type) {
    XPURUN_TRY_ASSIGN(out.c, random_buffer(gpu, report::bytes_of(p.c, p.batch), p.c.type));
  }
  if (report::has_bias(p.epilogue) || report::has_bias_gradient(p.epilogue)) {
    const report::Matrix vector{p.d.type, std::max(p.m, p.n), 1};
    XPURUN_TRY_ASSIGN(out.bias, random_buffer(gpu, report::bytes_of(vector, p.batch), p.d.type));
  }
  if (report::has_auxiliary(p.epilogue)) {
    out.auxiliary_leading = auxiliary_leading(p.m);
    const report::Matrix matrix{p.d.type, out.auxiliary_leading, p.n};
    XPURUN_TRY_ASSIGN(out.auxiliary, random_buffer(gpu, report::bytes_of(matrix, p.batch), p.d.type));
  }
  if (p.scale_a || p.scale_b) {
    const float ones[] = {1.0F, 1.0F, 1.0F, 1.0F};
    std::vector<std::byte> block(sizeof ones);
    std::memcpy(block.data(), ones, sizeof ones);
    XPURUN_TRY_ASSIGN(out.scales, gpu.allocate(sizeof ones));
    XPURUN_TRY(gpu.fill(out.scales, block));
  }
  return out;
}

}  // namespace xpurun::launcher
