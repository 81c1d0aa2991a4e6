#include "commands/replay/matmul_libraries.h"

#include "commands/replay/lt_call.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <cstdlib>
#include <vector>

namespace xpurun::launcher {

namespace {

using report::MatmulProblem;

constexpr size_t kMiB = size_t{1} << 20;
constexpr int kHopper = 9;

// PyTorch's workspaces: 32 MiB from Hopper on; before, :4096:2:16:8 for cuBLAS and 4 MiB for cuBLASLt.
size_t blas_workspace(int compute_major) {
  return compute_major >= kHopper ? 32 * kMiB : (4096 * 2 + 16 * 8) * size_t{1024};
}
size_t lt_workspace(int compute_major) {
  const char* text = std::getenv("CUBLASLT_WORKSPACE_SIZE");
  const auto kib = text == nullptr ? std::nullopt : base::parse_int(text);
  if (kib && *kib > 0 && *kib < (1 << 22)) {
    return static_cast<size_t>(*kib) * 1024;
  }
  return compute_major >= kHopper ? 32 * kMiB : 4 * kMiB;
}

class BlasCall : public PreparedCall {
 public:
  BlasCall(const vendor::Blas& blas, void* handle, const MatmulProblem& problem,
           const MatmulOperands& operands, GpuBuffer pointers)
      : blas_(blas), handle_(handle), p_(problem), o_(operands), pointers_(std::move(pointers)) {
    alpha_ = scalar(p_.scale_type, true);
    beta_ = scalar(p_.scale_type, p_.accumulate);
  }

  base::Status run() override {
    const auto n = [](int64_t size) { return static_cast<int>(size); };
    const auto elements = [](const report::Matrix& m) { return static_cast<long long>(m.rows * m.columns); };
    switch (p_.call) {
      case report::MatmulCall::strided:
        return check_blas(
            blas_.gemm_strided(handle_, p_.transpose_a, p_.transpose_b, n(p_.m), n(p_.n), n(p_.k),
                               alpha_.bytes, o_.a.pointer(), p_.a.type, n(p_.a.rows), elements(p_.a),
                               o_.b.pointer(), p_.b.type, n(p_.b.rows), elements(p_.b), beta_.bytes,
                               o_.d.pointer(), p_.d.type, n(p_.d.rows), elements(p_.d), n(p_.batch),
                               p_.compute, vendor::kAlgoDefault),
            "cublasGemmStridedBatchedEx");
      case report::MatmulCall::batched: {
        const auto list = [&](size_t which) {
          return static_cast<void**>(
              pointers_.pointer(which * static_cast<size_t>(p_.batch) * sizeof(void*)));
        };
        return check_blas(blas_.gemm_batched(handle_, p_.transpose_a, p_.transpose_b, n(p_.m), n(p_.n),
                                             n(p_.k), alpha_.bytes, list(0), p_.a.type, n(p_.a.rows), list(1),
                                             p_.b.type, n(p_.b.rows), beta_.bytes, list(2), p_.d.type,
                                             n(p_.d.rows), n(p_.batch), p_.compute, vendor::kAlgoDefault),
                          "cublasGemmBatchedEx");
      }
      default:
        return check_blas(blas_.gemm(handle_, p_.transpose_a, p_.transpose_b, n(p_.m), n(p_.n), n(p_.k),
                                     alpha_.bytes, o_.a.pointer(), p_.a.type, n(p_.a.rows), o_.b.pointer(),
                                     p_.b.type, n(p_.b.rows), beta_.bytes, o_.d.pointer(), p_.d.type,
                                     n(p_.d.rows), p_.compute, vendor::kAlgoDefault),
                          "cublasGemmEx");
    }
  }

 private:
  const vendor::Blas& blas_;
  void* handle_;
  MatmulProblem p_;
  const MatmulOperands& o_;
  GpuBuffer pointers_;
  Scalar alpha_;
  Scalar beta_;
};

// The addresses of the matrices of a batch: those of A, then B, then D.
base::Result<GpuBuffer> pointer_lists(Gpu& gpu, const MatmulProblem& p, const MatmulOperands& o) {
  std::vector<vendor::Address> list;
  const std::pair<const GpuBuffer*, const report::Matrix*> matrices[] = {
      {&o.a, &p.a}, {&o.b, &p.b}, {&o.d, &p.d}};
  for (const auto& [buffer, matrix] : matrices) {
    for (int64_t i = 0; i < p.batch; ++i) {
      list.push_back(buffer->address() + static_cast<uint64_t>(i) * report::bytes_of(*matrix, 1));
    }
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(list.data());
  const std::vector<std::byte> block(bytes, bytes + list.size() * sizeof(vendor::Address));
  XPURUN_TRY_ASSIGN(GpuBuffer out, gpu.allocate(block.size()));
  XPURUN_TRY(gpu.fill(out, block));
  return out;
}

}  // namespace

base::Result<std::unique_ptr<MatmulLibraries>> MatmulLibraries::open(Gpu& gpu, const vendor::Blas& blas,
                                                                     const vendor::Lt& lt) {
  std::unique_ptr<MatmulLibraries> out(new MatmulLibraries(gpu, blas, lt));
  XPURUN_TRY(out->set_up());
  return out;
}

MatmulLibraries::~MatmulLibraries() {
  if (lt_handle_ != nullptr) {
    lt_.destroy(lt_handle_);
  }
  if (blas_handle_ != nullptr) {
    blas_.destroy(blas_handle_);
  }
}

base::Status MatmulLibraries::set_up() {
  gpu_.make_current();
  XPURUN_TRY(check_blas(blas_.create(&blas_handle_), "cublasCreate"));
  XPURUN_TRY(check_blas(lt_.create(&lt_handle_), "cublasLtCreate"));
  int version = 0;
  if (blas_.version(blas_handle_, &version) == 0) {
    // 120602 is 12.6.2, 130002 is 13.0.2.
    version_ = fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
  }
  const int major = gpu_.facts().compute_major;
  XPURUN_TRY_ASSIGN(blas_workspace_, gpu_.allocate(blas_workspace(major)));
  XPURUN_TRY_ASSIGN(lt_workspace_, gpu_.allocate(lt_workspace(major)));
  XPURUN_TRY(check_blas(blas_.set_stream(blas_handle_, gpu_.stream()), "cublasSetStream"));
  // After the stream, which sets the workspace back to the library's own.
  return check_blas(blas_.set_workspace(blas_handle_, blas_workspace_.pointer(), blas_workspace_.bytes()),
                    "cublasSetWorkspace");
}

base::Result<std::unique_ptr<PreparedCall>> MatmulLibraries::prepare(const MatmulProblem& problem,
                                                                     const MatmulOperands& operands) {
  if (problem.call == report::MatmulCall::lt) {
    return make_lt_call({.gpu = gpu_, .lt = lt_, .handle = lt_handle_, .workspace = lt_workspace_}, problem,
                        operands);
  }
  GpuBuffer pointers;
  if (problem.call == report::MatmulCall::batched) {
    XPURUN_TRY_ASSIGN(pointers, pointer_lists(gpu_, problem, operands));
  }
  return std::make_unique<BlasCall>(blas_, blas_handle_, problem, operands, std::move(pointers));
}

}  // namespace xpurun::launcher
