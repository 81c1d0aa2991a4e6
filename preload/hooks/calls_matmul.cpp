#include "preload/hooks/calls_matmul.h"

#include "preload/core/resolve.h"

#include <string.h>

namespace xpurun::preload {

namespace {

bool is_complex(int type) {
  // cudaDataType_t has no rule for complex types: C_32F, C_64F, C_16F, C_16BF.
  return type == kC32F || type == kC64F || type == 6 || type == 15;
}

// One multiplication and one addition per element; a complex multiplication takes four times as many.
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

// Reads attributes of a layout or descriptor. An unreadable attribute has the value to which cuBLASLt
// initialises it.
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

// The parts of the problem that a layout describes.
struct LayoutFacts {
  int type;
  int64_t rows;
  int64_t columns;
  int64_t batch;
  bool is_row_major;
};

// A layout is 64 bytes with complete information (cublasLtMatrixLayoutOpaque_t). Programs make new layouts
// for each call, but with equal contents, and each query costs a call: the thread caches the answers.
struct alignas(64) KnownLayout {
  uint64_t words[kLayoutWords];
  LayoutFacts facts;
  bool is_known;
};
constexpr uint32_t kKnownLayoutBits = 4;
__thread KnownLayout t_layouts[1U << kKnownLayoutBits];
constexpr uint64_t kMixers[kLayoutWords] = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb,
                                            0xd6e8feb86659fd93, 0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53,
                                            0xd1342543de82ef95, 0xaf251af3b0f025b5};

const LayoutFacts& facts_of(LtGetAttribute* get, void* layout) {
  static constexpr LayoutFacts kNothing{0, 0, 0, 1, false};
  if (layout == nullptr || get == nullptr) {
    return kNothing;
  }
  uint64_t words[kLayoutWords];
  memcpy(words, layout, sizeof(words));
  // Independent products, which the CPU can compute in parallel.
  uint64_t sum = 0;
  for (int i = 0; i < kLayoutWords; ++i) {
    sum += words[i] * kMixers[i];
  }
  KnownLayout& known = t_layouts[sum >> (64 - kKnownLayoutBits)];
  uint64_t differing = known.is_known ? 0 : 1;
  for (int i = 0; i < kLayoutWords; ++i) {
    differing |= known.words[i] ^ words[i];
  }
  if (differing != 0) {
    const Attributes attributes(get, layout);
    known.facts = {static_cast<int>(attributes.value<uint32_t>(kLayoutType, 0)),
                   static_cast<int64_t>(attributes.value<uint64_t>(kLayoutRows, 0)),
                   static_cast<int64_t>(attributes.value<uint64_t>(kLayoutCols, 0)),
                   attributes.value<int32_t>(kLayoutBatch, 1),
                   attributes.value<int32_t>(kLayoutOrder, 0) == kOrderRow};
    memcpy(known.words, words, sizeof(words));
    known.is_known = true;
  }
  return known.facts;
}

// Matrices of these types have no scale.
bool is_plain(int type) {
  return type == kR32F || type == kR64F || type == kR16F || type == kR16BF;
}

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
  const LayoutFacts layout_a = facts_of(of_layout, a);
  const LayoutFacts layout_b = facts_of(of_layout, b);
  const LayoutFacts layout_c = facts_of(of_layout, c);
  const LayoutFacts layout_d = facts_of(of_layout, d);
  Problem p{};
  p.ta = matmul.value<int32_t>(kDescTransA, 0);
  p.tb = matmul.value<int32_t>(kDescTransB, 0);
  p.m = layout_d.rows;
  p.n = layout_d.columns;
  p.k = p.ta == 0 ? layout_a.columns : layout_a.rows;
  p.batch = layout_d.batch;
  p.type_a = layout_a.type;
  p.type_b = layout_b.type;
  p.type_c = layout_c.type;
  p.compute = matmul.value<int32_t>(kDescComputeType, 0);
  CallInfo info = describe_matmul(wire::Api::cublasLtMatmul, nullptr, p);
  info.stream = stream;
  info.key.dtype[3] = byte(layout_d.type);
  // 1 is CUBLASLT_EPILOGUE_DEFAULT.
  info.key.epilogue = static_cast<uint16_t>(matmul.value<uint32_t>(kDescEpilogue, 1));
  const bool scaled_a = !is_plain(p.type_a) && matmul.value<void*>(kDescScaleA, nullptr) != nullptr;
  const bool scaled_b = !is_plain(p.type_b) && matmul.value<void*>(kDescScaleB, nullptr) != nullptr;
  const bool row_major = layout_d.is_row_major;
  info.key.flags = byte((scaled_a ? wire::kOpScaleA : 0) | (scaled_b ? wire::kOpScaleB : 0) |
                        (row_major ? wire::kOpRowMajor : 0));
  return info;
}

}  // namespace xpurun::preload
