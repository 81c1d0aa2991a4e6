// Matrix multiplications of cuBLAS and cuBLASLt, described by their arguments: one overload per family of
// cuBLAS prototypes; for cuBLASLt, the opaque layouts and descriptor, read through the library's own getters.
#pragma once

#include "preload/core/vendor.h"
#include "preload/record/own_cost.h"
#include "preload/record/timed_call.h"

namespace xpurun::preload {

struct Problem {
  int ta, tb;
  int64_t m, n, k, batch;
  int type_a, type_b, type_c, compute;
};

// Key and work of a call; `handle` is a cublasHandle_t.
CallInfo describe_matmul(wire::Api api, void* handle, const Problem& p);

// The compute type of functions whose name fixes the data type.
constexpr int compute_of(int type) {
  return type == kR16F ? kCompute16F : (type == kR64F || type == kC64F ? kCompute64F : kCompute32F);
}

// clang-format off
template <typename I>
Problem problem_of(int type, Gemm<I>*, void*, int ta, int tb, I m, I n, I k, const void*, const void*, I, const void*, I,
                   const void*, void*, I) {
  return {ta, tb, m, n, k, 1, type, type, type, compute_of(type)};
}
template <typename I>
Problem problem_of(int type, GemmBatched<I>*, void*, int ta, int tb, I m, I n, I k, const void*, const void* const*, I,
                   const void* const*, I, const void*, void* const*, I, I batch) {
  return {ta, tb, m, n, k, batch, type, type, type, compute_of(type)};
}
template <typename I>
Problem problem_of(int type, GemmStrided<I>*, void*, int ta, int tb, I m, I n, I k, const void*, const void*, I, long long,
                   const void*, I, long long, const void*, void*, I, long long, I batch) {
  return {ta, tb, m, n, k, batch, type, type, type, compute_of(type)};
}
template <typename I>
Problem problem_of(int type, TypedGemm<I>*, void*, int ta, int tb, I m, I n, I k, const void*, const void*, int a, I,
                   const void*, int b, I, const void*, void*, int c, I) {
  return {ta, tb, m, n, k, 1, a, b, c, compute_of(type)};
}
template <typename I>
Problem problem_of(GemmEx<I>*, void*, int ta, int tb, I m, I n, I k, const void*, const void*, int a, I, const void*, int b,
                   I, const void*, void*, int c, I, int compute, int) {
  return {ta, tb, m, n, k, 1, a, b, c, compute};
}
template <typename I>
Problem problem_of(GemmBatchedEx<I>*, void*, int ta, int tb, I m, I n, I k, const void*, const void* const*, int a, I,
                   const void* const*, int b, I, const void*, void* const*, int c, I, I batch, int compute, int) {
  return {ta, tb, m, n, k, batch, a, b, c, compute};
}
template <typename I>
Problem problem_of(GemmStridedEx<I>*, void*, int ta, int tb, I m, I n, I k, const void*, const void*, int a, I, long long,
                   const void*, int b, I, long long, const void*, void*, int c, I, long long, I batch, int compute, int) {
  return {ta, tb, m, n, k, batch, a, b, c, compute};
}
// clang-format on

struct Groups {
  int64_t count;
  uint64_t work;
};

// The arrays lie on the host and have `groups` elements.
template <typename I>
CallInfo describe_grouped(wire::Api api, void* handle, const int* ta, const int* tb, const I* m, const I* n,
                          const I* k, I groups, const I* sizes, int a, int b, int c, int compute) {
  if (groups <= 0) {
    return describe_matmul(api, handle, {0, 0, 0, 0, 0, 0, a, b, c, compute});
  }
  CallInfo info = describe_matmul(api, handle, {ta[0], tb[0], m[0], n[0], k[0], 1, a, b, c, compute});
  info.key.flags |= wire::kOpGrouped;
  info.key.batch = static_cast<uint32_t>(groups);
  info.work = 0;
  for (I i = 0; i < groups; ++i) {
    info.work += describe_matmul(api, nullptr, {0, 0, m[i], n[i], k[i], sizes[i], a, b, c, compute}).work;
  }
  return info;
}

// Functions whose name fixes the data type.
template <int kType>
struct PlainGemm {
  template <wire::Api kApi, typename... A>
  static int call(int (*real)(void*, A...), void* handle, A... args) {
    const uint64_t cost_began_ns = cost_begins();
    return call_timed(real, cost_began_ns,
                      describe_matmul(kApi, handle, problem_of(kType, real, handle, args...)), handle,
                      args...);
  }
  template <wire::Api kApi, typename I>
  static int call(GemmGrouped<I>* real, void* handle, const int* ta, const int* tb, const I* m, const I* n,
                  const I* k, const void* alpha, const void* const* a, const I* lda, const void* const* b,
                  const I* ldb, const void* beta, void* const* c, const I* ldc, I groups, const I* sizes) {
    const uint64_t cost_began_ns = cost_begins();
    const CallInfo info = describe_grouped(kApi, handle, ta, tb, m, n, k, groups, sizes, kType, kType, kType,
                                           compute_of(kType));
    return call_timed(real, cost_began_ns, info, handle, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc,
                      groups, sizes);
  }
};

// Functions that take the data types as arguments.
struct TypedGemmCall {
  template <wire::Api kApi, typename... A>
  static int call(int (*real)(void*, A...), void* handle, A... args) {
    const uint64_t cost_began_ns = cost_begins();
    return call_timed(real, cost_began_ns, describe_matmul(kApi, handle, problem_of(real, handle, args...)),
                      handle, args...);
  }
  template <wire::Api kApi, typename I>
  static int call(GemmGroupedEx<I>* real, void* handle, const int* ta, const int* tb, const I* m, const I* n,
                  const I* k, const void* alpha, const void* const* a, int a_type, const I* lda,
                  const void* const* b, int b_type, const I* ldb, const void* beta, void* const* c,
                  int c_type, const I* ldc, I groups, const I* sizes, int compute) {
    const uint64_t cost_began_ns = cost_begins();
    const CallInfo info =
        describe_grouped(kApi, handle, ta, tb, m, n, k, groups, sizes, a_type, b_type, c_type, compute);
    return call_timed(real, cost_began_ns, info, handle, ta, tb, m, n, k, alpha, a, a_type, lda, b, b_type,
                      ldb, beta, c, c_type, ldc, groups, sizes, compute);
  }
};

CallInfo describe_lt_matmul(void* desc, void* a, void* b, void* c, void* d, void* stream);

struct LtCall {
  template <wire::Api kApi>
  static int call(LtMatmul* real, void* handle, void* desc, const void* alpha, const void* a, void* a_layout,
                  const void* b, void* b_layout, const void* beta, const void* c, void* c_layout, void* d,
                  void* d_layout, const void* algo, void* workspace, size_t workspace_bytes, void* stream) {
    const uint64_t cost_began_ns = cost_begins();
    const CallInfo info = describe_lt_matmul(desc, a_layout, b_layout, c_layout, d_layout, stream);
    return call_timed(real, cost_began_ns, info, handle, desc, alpha, a, a_layout, b, b_layout, beta, c,
                      c_layout, d, d_layout, algo, workspace, workspace_bytes, stream);
  }
};

}  // namespace xpurun::preload
