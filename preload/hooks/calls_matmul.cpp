#include "preload/hooks/calls_matmul.h"

#include "preload/core/resolve.h"

namespace xpurun::preload {

namespace {

bool is_complex(int type) {
  // cudaDataType_t has no rule for complex types: C_32F, C_64F, C_16F, C_16BF.
  return type == kC32F || type == kC64F || type == 6 || type == 15;
}

// A multiplication and an addition an element; a complex multiplication takes four times as many.
uint64_t flop(int64_t m, int64_t n, int64_t k, int64_t batch, int type) {
  if (m <= 0 || n <= 0 || k <= 0 || batch <= 0) {
    return 0;
  }
  const uint64_t real = 2 * static_cast<uint64_t>(m) * static_cast<uint64_t>(n) * static_cast<uint64_t>(k) *
                        static_cast<uint64_t>(batch);
  return is_complex(type) ? 4 * real : real;
}

template <typename Function>
Function* library_function(std::atomic<Function*>& cached, const char* library, const char* name) {
  Function* found = cached.load(std::memory_order_acquire);
  if (found == nullptr) {
    found = reinterpret_cast<Function*>(find_function(library, name));
    cached.store(found, std::memory_order_release);
  }
  return found;
}

// Reads attributes of a layout or descriptor; an attribute that cannot be read has the value that cuBLASLt
// initialises it with.
class Attributes {
 public:
  Attributes(LtGetAttribute* get, void* object) : get_(object != nullptr ? get : nullptr), object_(object) {}

  template <typename T>
  T value(int attribute, T otherwise) const {
    T value = otherwise;
    size_t written = 0;
    const bool ok = get_ != nullptr && get_(object_, attribute, &value, sizeof(value), &written) == 0;
    return ok ? value : otherwise;
  }

 private:
  LtGetAttribute* get_;
  void* object_;
};

uint8_t byte(int value) {
  return static_cast<uint8_t>(value);
}

}  // namespace

CallInfo describe_matmul(wire::Api api, void* handle, const Problem& p) {
  CallInfo info{};
  info.key.api = static_cast<uint16_t>(api);
  info.key.op_class = static_cast<uint8_t>(wire::OpClass::matmul);
  info.key.dtype[0] = byte(p.type_a);
  info.key.dtype[1] = byte(p.type_b);
  info.key.dtype[2] = byte(p.type_c);
  info.key.dtype[3] = byte(p.type_c);
  info.key.compute = byte(p.compute);
  info.key.trans = byte((p.ta & 15) | (p.tb & 15) << 4);
  info.key.batch = static_cast<uint32_t>(p.batch);
  info.key.m = p.m;
  info.key.n = p.n;
  info.key.k = p.k;
  info.key.comm = wire::kNoComm;
  info.key.peer = -1;
  info.work = flop(p.m, p.n, p.k, p.batch, p.type_a);
  info.blas = handle;
  return info;
}

CallInfo describe_lt_matmul(void* desc, void* a, void* b, void* c, void* d, void* stream) {
  static constinit std::atomic<LtGetAttribute*> desc_getter{nullptr};
  static constinit std::atomic<LtGetAttribute*> layout_getter{nullptr};
  LtGetAttribute* of_desc = library_function(desc_getter, "libcublasLt.so", "cublasLtMatmulDescGetAttribute");
  LtGetAttribute* of_layout =
      library_function(layout_getter, "libcublasLt.so", "cublasLtMatrixLayoutGetAttribute");
  const Attributes matmul(of_desc, desc);
  const Attributes layout_a(of_layout, a);
  const Attributes layout_b(of_layout, b);
  const Attributes layout_c(of_layout, c);
  const Attributes layout_d(of_layout, d);
  Problem p{};
  p.ta = matmul.value<int32_t>(kDescTransA, 0);
  p.tb = matmul.value<int32_t>(kDescTransB, 0);
  p.m = static_cast<int64_t>(layout_d.value<uint64_t>(kLayoutRows, 0));
  p.n = static_cast<int64_t>(layout_d.value<uint64_t>(kLayoutCols, 0));
  p.k = static_cast<int64_t>(layout_a.value<uint64_t>(p.ta == 0 ? kLayoutCols : kLayoutRows, 0));
  p.batch = layout_d.value<int32_t>(kLayoutBatch, 1);
  p.type_a = static_cast<int>(layout_a.value<uint32_t>(kLayoutType, 0));
  p.type_b = static_cast<int>(layout_b.value<uint32_t>(kLayoutType, 0));
  p.type_c = static_cast<int>(layout_c.value<uint32_t>(kLayoutType, 0));
  p.compute = matmul.value<int32_t>(kDescComputeType, 0);
  CallInfo info = describe_matmul(wire::Api::cublasLtMatmul, nullptr, p);
  info.stream = stream;
  info.key.dtype[3] = byte(static_cast<int>(layout_d.value<uint32_t>(kLayoutType, 0)));
  info.key.epilogue = static_cast<uint16_t>(matmul.value<uint32_t>(kDescEpilogue, 1));
  const bool scaled_a = matmul.value<void*>(kDescScaleA, nullptr) != nullptr;
  const bool scaled_b = matmul.value<void*>(kDescScaleB, nullptr) != nullptr;
  const bool row_major = layout_d.value<int32_t>(kLayoutOrder, 0) == kOrderRow;
  info.key.flags = byte((scaled_a ? wire::kOpScaleA : 0) | (scaled_b ? wire::kOpScaleB : 0) |
                        (row_major ? wire::kOpRowMajor : 0));
  return info;
}

}  // namespace xpurun::preload
