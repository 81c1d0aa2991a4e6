#include "commands/replay/lt_call.h"

#include <fmt/format.h>

namespace xpurun::launcher {

namespace {

using report::MatmulProblem;
using report::Matrix;

// A descriptor, layout or preference with the function that destroys it.
class LtObject {
 public:
  using Destroy = int(void*);
  explicit LtObject(Destroy* destroy) : destroy_(destroy) {}
  ~LtObject() {
    if (object_ != nullptr) {
      destroy_(object_);
    }
  }
  LtObject(const LtObject&) = delete;
  LtObject& operator=(const LtObject&) = delete;

  void** out() { return &object_; }
  void* get() const { return object_; }

 private:
  Destroy* destroy_;
  void* object_ = nullptr;
};

class LtCall : public PreparedCall {
 public:
  LtCall(const LtPlace& place, const MatmulProblem& problem, const MatmulOperands& operands)
      : place_(place),
        lt_(place.lt),
        p_(problem),
        o_(operands),
        desc_(lt_.desc_destroy),
        a_(lt_.layout_destroy),
        b_(lt_.layout_destroy),
        c_(lt_.layout_destroy),
        d_(lt_.layout_destroy),
        alpha_(scalar(problem.scale_type, true)),
        beta_(scalar(problem.scale_type, false)) {}

  base::Status prepare() {
    XPURUN_TRY(describe());
    XPURUN_TRY(lay_out(p_.a, a_));
    XPURUN_TRY(lay_out(p_.b, b_));
    XPURUN_TRY(lay_out(p_.c, c_));
    XPURUN_TRY(lay_out(p_.d, d_));
    return choose();
  }

  base::Status run() override {
    const GpuBuffer& c = o_.c.bytes() > 0 ? o_.c : o_.d;
    return check_blas(
        lt_.matmul(place_.handle, desc_.get(), alpha_.bytes, o_.a.pointer(), a_.get(), o_.b.pointer(),
                   b_.get(), beta_.bytes, c.pointer(), c_.get(), o_.d.pointer(), d_.get(), &algo_,
                   place_.workspace.pointer(), place_.workspace.bytes(), place_.gpu.stream()),
        "cublasLtMatmul");
  }

 private:
  template <typename T>
  base::Status set(int attribute, const T& value) {
    return check_blas(lt_.desc_set(desc_.get(), attribute, &value, sizeof value),
                      "cublasLtMatmulDescSetAttribute");
  }

  base::Status describe() {
    XPURUN_TRY(
        check_blas(lt_.desc_create(desc_.out(), p_.compute, p_.scale_type), "cublasLtMatmulDescCreate"));
    XPURUN_TRY(set(vendor::kDescTransposeA, static_cast<int32_t>(p_.transpose_a)));
    XPURUN_TRY(set(vendor::kDescTransposeB, static_cast<int32_t>(p_.transpose_b)));
    XPURUN_TRY(set(vendor::kDescEpilogue, static_cast<int32_t>(p_.epilogue)));
    if (o_.bias.bytes() > 0) {
      XPURUN_TRY(set(vendor::kDescBias, o_.bias.pointer()));
    }
    if (o_.auxiliary.bytes() > 0) {
      XPURUN_TRY(set(vendor::kDescAuxiliary, o_.auxiliary.pointer()));
      XPURUN_TRY(set(vendor::kDescAuxiliaryLeading, o_.auxiliary_leading));
      if (p_.batch > 1) {
        XPURUN_TRY(set(vendor::kDescAuxiliaryStride, o_.auxiliary_leading * p_.n));
      }
    }
    if (p_.scale_a) {
      XPURUN_TRY(set(vendor::kDescScaleA, o_.scales.pointer()));
    }
    if (p_.scale_b) {
      XPURUN_TRY(set(vendor::kDescScaleB, o_.scales.pointer()));
    }
    return {};
  }

  base::Status lay_out(const Matrix& m, LtObject& layout) {
    XPURUN_TRY(check_blas(lt_.layout_create(layout.out(), m.type, static_cast<uint64_t>(m.rows),
                                            static_cast<uint64_t>(m.columns), m.rows),
                          "cublasLtMatrixLayoutCreate"));
    if (p_.batch > 1) {
      const auto batch = static_cast<int32_t>(p_.batch);
      const int64_t stride = m.rows * m.columns;
      XPURUN_TRY(check_blas(lt_.layout_set(layout.get(), vendor::kLayoutBatch, &batch, sizeof batch),
                            "cublasLtMatrixLayoutSetAttribute"));
      XPURUN_TRY(check_blas(lt_.layout_set(layout.get(), vendor::kLayoutStride, &stride, sizeof stride),
                            "cublasLtMatrixLayoutSetAttribute"));
    }
    return {};
  }

  base::Status choose() {
    LtObject preference(lt_.preference_destroy);
    XPURUN_TRY(check_blas(lt_.preference_create(preference.out()), "cublasLtMatmulPreferenceCreate"));
    const auto bytes = static_cast<uint64_t>(place_.workspace.bytes());
    XPURUN_TRY(
        check_blas(lt_.preference_set(preference.get(), vendor::kPreferenceWorkspace, &bytes, sizeof bytes),
                   "cublasLtMatmulPreferenceSetAttribute"));
    vendor::LtHeuristic best{};
    int found = 0;
    const int status = lt_.heuristic(place_.handle, desc_.get(), a_.get(), b_.get(), c_.get(), d_.get(),
                                     preference.get(), 1, &best, &found);
    if (status != 0 || found < 1 || best.state != 0) {
      return base::fail(fmt::format("cuBLASLt has no algorithm for the call on this GPU (status {})",
                                    status != 0 ? status : best.state));
    }
    algo_ = best.algo;
    return {};
  }

  LtPlace place_;
  const vendor::Lt& lt_;
  MatmulProblem p_;
  const MatmulOperands& o_;
  LtObject desc_;
  LtObject a_;
  LtObject b_;
  LtObject c_;
  LtObject d_;
  Scalar alpha_;
  Scalar beta_;
  vendor::LtAlgo algo_{};
};

}  // namespace

base::Result<std::unique_ptr<PreparedCall>> make_lt_call(const LtPlace& place, const MatmulProblem& problem,
                                                         const MatmulOperands& operands) {
  auto out = std::make_unique<LtCall>(place, problem, operands);
  XPURUN_TRY(out->prepare());
  return out;
}

}  // namespace xpurun::launcher
