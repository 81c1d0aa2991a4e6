// A simulated machine for `xpurun replay`: GPUs that use the host's memory and have their own clock, cuBLAS,
// cuBLASLt and NCCL. Nothing waits: a call moves its stream's clock, so that durations are exact. Arguments
// are checked as the real libraries check them: addresses inside of allocations, leading dimensions, pointers
// that an epilogue needs, and data other than zeros. Configured by the environment:
//   FAKE_REPLAY_DEVICES   number of GPUs (default 2)
//   FAKE_REPLAY_MEMORY    bytes of each GPU (default 256 MiB)
//   FAKE_REPLAY_TFLOPS    speed of a matmul (default 100)
//   FAKE_REPLAY_BUS_GB_S  bus bandwidth of an all-reduce of two GPUs (default 100)
//   FAKE_REPLAY_INIT      what cuInit returns
//   FAKE_REPLAY_SLOW      "DEVICE:FACTOR": this GPU takes longer for everything but collectives
//   FAKE_REPLAY_WRONG     this GPU gives other results of matmuls that accumulate
//   FAKE_REPLAY_LOG       file to which each call of a matmul or collective that differs is appended
#include "commands/replay/vendor.h"
#include "tests/fakes/replay/fake_machine.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace xpurun::launcher::vendor;
using namespace fake_replay;

namespace {

constexpr int kInvalidDevice = 101;
constexpr int kInvalidValue = 7;    // of cuBLAS
constexpr int kInvalidHandle = 1;   // CUDA_ERROR_INVALID_VALUE
constexpr int kInternalError = 14;  // of cuBLAS
constexpr double kLaunchNs = 5'000;
constexpr double kEventNs = 1'000;
constexpr double kBytesPerNs = 4'000;
constexpr double kLinkBytesPerNs = 50;
constexpr size_t kMostCleared = 2 << 20;  // words
constexpr double kPeerBytesPerNs = 400;

struct Event {
  double at_ns = -1;
};
struct Context {
  int device = 0;
  int users = 0;
};
struct Handle {
  Stream* stream = nullptr;
  size_t workspace = 0;
};
struct Attributes {
  std::map<int, std::vector<unsigned char>> values;
  template <typename T>
  T get(int attribute, T otherwise) const {
    const auto found = values.find(attribute);
    T out = otherwise;
    if (found != values.end() && found->second.size() == sizeof(T)) {
      std::memcpy(&out, found->second.data(), sizeof(T));
    }
    return out;
  }
};
struct Layout : Attributes {
  int type = 0;
  uint64_t rows = 0;
  uint64_t columns = 0;
  int64_t leading = 0;
};
struct Descriptor : Attributes {
  int compute = 0;
  int scale_type = 0;
};

Context g_contexts[16];
Context* g_current = nullptr;
std::map<Address, std::pair<size_t, int>> g_memory;  // bytes and device
std::map<int, size_t> g_used;
std::set<std::string> g_logged;

int devices() {
  return static_cast<int>(number("FAKE_REPLAY_DEVICES", 2));
}
size_t memory() {
  return static_cast<size_t>(number("FAKE_REPLAY_MEMORY", 256 << 20));
}

bool has_data(const void* pointer, uint64_t bytes) {
  const auto* data = static_cast<const unsigned char*>(pointer);
  return std::any_of(data, data + std::min<uint64_t>(bytes, 4096), [](unsigned char b) { return b != 0; });
}

uint64_t element(int type) {
  switch (type) {
    case 0:
    case 10:
      return 4;
    case 1:
    case 4:
      return 8;
    case 2:
    case 14:
      return 2;
    case 3:
    case 28:
    case 29:
      return 1;
    case 5:
      return 16;
    default:
      return 0;
  }
}

struct Matrix {
  const void* data;
  int type;
  int64_t rows;
  int64_t columns;
  int64_t leading;
  int64_t stride;
};

bool is_valid(const Matrix& m, int64_t batch, bool is_input) {
  const auto size = static_cast<int64_t>(element(m.type));
  if (size == 0 || m.leading < m.rows || (batch > 1 && m.stride < m.leading * m.columns)) {
    return false;
  }
  const int64_t bytes = ((batch - 1) * m.stride + (m.columns - 1) * m.leading + m.rows) * size;
  return is_inside(m.data, static_cast<uint64_t>(bytes)) &&
         (!is_input || has_data(m.data, static_cast<uint64_t>(bytes)));
}

int multiply(const char* name, Stream* stream, Matrix a, Matrix b, Matrix d, int ta, int tb, int64_t m,
             int64_t n, int64_t k, int64_t batch, int compute, int epilogue) {
  a.rows = ta == 0 ? m : k;
  a.columns = ta == 0 ? k : m;
  b.rows = tb == 0 ? k : n;
  b.columns = tb == 0 ? n : k;
  d.rows = m;
  d.columns = n;
  if (stream == nullptr || !is_valid(a, batch, true) || !is_valid(b, batch, true) ||
      !is_valid(d, batch, false)) {
    return kInvalidValue;
  }
  std::ostringstream line;
  line << name << ' ' << "NTC"[ta] << "NTC"[tb] << ' ' << m << 'x' << n << 'x' << k << " batch " << batch
       << " types " << a.type << ' ' << b.type << ' ' << d.type << " compute " << compute << " epilogue "
       << epilogue;
  log(line.str());
  const double flop = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
                      static_cast<double>(batch);
  stream->work(kLaunchNs + flop / number("FAKE_REPLAY_TFLOPS", 100) / 1e3);
  return 0;
}

Stream* stream_of(void* handle) {
  const auto* h = static_cast<Handle*>(handle);
  return h->workspace > 0 ? h->stream : nullptr;
}

int set(Attributes* to, int attribute, const void* value, size_t bytes) {
  const auto* data = static_cast<const unsigned char*>(value);
  to->values[attribute].assign(data, data + bytes);
  return 0;
}

Matrix matrix_of(const void* data, void* layout) {
  const auto* l = static_cast<const Layout*>(layout);
  return {data, l->type, 0, 0, l->leading, l->get<int64_t>(kLayoutStride, 0)};
}

constexpr uint64_t kAlgorithm = 0x5eed;

// Pointers that the epilogue needs are there.
bool has_pointers(const Descriptor& d) {
  const int epilogue = d.get<int32_t>(kDescEpilogue, 1);
  const bool bias = (epilogue & (4 | 16 | 256 | 512)) != 0;
  const bool auxiliary = (epilogue & 128) != 0;
  return (!bias || is_inside(d.get<void*>(kDescBias, nullptr), 1)) &&
         (!auxiliary || (is_inside(d.get<void*>(kDescAuxiliary, nullptr), 1) &&
                         d.get<int64_t>(kDescAuxiliaryLeading, 0) % 8 == 0));
}

}  // namespace

namespace fake_replay {

// Whether [address, address + bytes) lies in one allocation.
bool is_inside(const void* pointer, uint64_t bytes) {
  const auto address = reinterpret_cast<Address>(pointer);
  auto after = g_memory.upper_bound(address);
  if (after == g_memory.begin()) {
    return false;
  }
  --after;
  return address + bytes <= after->first + after->second.first;
}

void log(const std::string& line) {
  const char* path = std::getenv("FAKE_REPLAY_LOG");
  if (path != nullptr && g_logged.insert(line).second) {
    std::ofstream(path, std::ios::app) << line << '\n';
  }
}

}  // namespace fake_replay

extern "C" {

int cuInit(unsigned) {
  return devices() > 0 ? static_cast<int>(number("FAKE_REPLAY_INIT", 0)) : kNoDevice;
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = devices();
  return 0;
}
int cuDeviceGet(int* device, int index) {
  *device = index;
  return index < devices() ? 0 : kInvalidDevice;
}
int cuDeviceGetName(char* text, int size, int) {
  std::snprintf(text, static_cast<size_t>(size), "NVIDIA H200");
  return 0;
}
int cuDeviceGetUuid_v2(Uuid* uuid, int device) {
  std::memset(uuid->bytes, 0x10 + device, sizeof uuid->bytes);
  return 0;
}
int cuDeviceGetPCIBusId(char* text, int size, int device) {
  std::snprintf(text, static_cast<size_t>(size), "0000:%dB:00.0", 3 * (1 - device));
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = memory();
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == kComputeMajor ? 9 : attribute == kL2Bytes ? 1 << 20 : 0;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  g_contexts[device].device = device;
  ++g_contexts[device].users;
  *context = &g_contexts[device];
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  if (--g_contexts[device].users == 0 && g_used[device] != 0) {
    std::fprintf(stderr, "LEAK of %zu bytes on GPU %d\n", g_used[device], device);
  }
  return 0;
}
int cuCtxSetCurrent(void* context) {
  g_current = static_cast<Context*>(context);
  return 0;
}
int cuMemGetInfo_v2(size_t* free, size_t* total) {
  *total = memory();
  *free = memory() - g_used[g_current->device];
  return 0;
}
int cuMemAlloc_v2(Address* address, size_t bytes) {
  size_t& used = g_used[g_current->device];
  if (bytes > memory() - used) {
    return kOutOfMemory;
  }
  used += bytes;
  *address = reinterpret_cast<Address>(std::calloc(1, bytes));
  g_memory[*address] = {bytes, g_current->device};
  return 0;
}
int cuMemFree_v2(Address address) {
  const auto found = g_memory.find(address);
  if (found == g_memory.end()) {
    std::fprintf(stderr, "FREE of an unknown address\n");
    return kInvalidHandle;
  }
  g_used[found->second.second] -= found->second.first;
  std::free(reinterpret_cast<void*>(address));
  g_memory.erase(found);
  return 0;
}
int cuMemcpyHtoD_v2(Address to, const void* from, size_t bytes) {
  if (!is_inside(reinterpret_cast<void*>(to), bytes)) {
    return kInvalidHandle;
  }
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
int cuMemcpyDtoD_v2(Address to, Address from, size_t bytes) {
  return is_inside(reinterpret_cast<void*>(from), bytes)
             ? cuMemcpyHtoD_v2(to, reinterpret_cast<void*>(from), bytes)
             : kInvalidHandle;
}
int cuMemsetD32Async(Address to, unsigned value, size_t words, void* stream) {
  if (!is_inside(reinterpret_cast<void*>(to), 4 * words)) {
    return kInvalidHandle;
  }
  // Of the buffers that only keep a GPU busy, which are large and hold zeros, nothing is written.
  if (value != 0 || words <= kMostCleared) {
    std::fill_n(reinterpret_cast<unsigned*>(to), words, value);
  }
  static_cast<Stream*>(stream)->work(static_cast<double>(4 * words) / kBytesPerNs);
  return 0;
}
int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* stream) {
  static_cast<Stream*>(stream)->work(2.0 * static_cast<double>(bytes) / kBytesPerNs);
  // Thousands of copies of the same in a second of the simulated clock would take the host a minute.
  const bool same = is_inside(reinterpret_cast<void*>(to), bytes) &&
                    is_inside(reinterpret_cast<void*>(from), bytes) &&
                    std::memcmp(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from),
                                std::min<size_t>(bytes, 4096)) == 0;
  return same ? 0 : cuMemcpyDtoD_v2(to, from, bytes);
}
int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void* stream) {
  static_cast<Stream*>(stream)->work(static_cast<double>(bytes) / kLinkBytesPerNs);
  return cuMemcpyHtoD_v2(to, from, bytes);
}
int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void* stream) {
  if (!is_inside(reinterpret_cast<void*>(from), bytes)) {
    return kInvalidHandle;
  }
  static_cast<Stream*>(stream)->work(static_cast<double>(bytes) / kLinkBytesPerNs);
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return 0;
}
int cuMemcpyPeerAsync(Address to, void*, Address from, void*, size_t bytes, void* stream) {
  static_cast<Stream*>(stream)->work(static_cast<double>(bytes) / kPeerBytesPerNs);
  return cuMemcpyDtoD_v2(to, from, bytes);
}
int cuCtxEnablePeerAccess(void*, unsigned) {
  return 0;
}
int cuMemAllocHost_v2(void** address, size_t bytes) {
  *address = std::malloc(bytes);
  return 0;
}
int cuMemFreeHost(void* address) {
  std::free(address);
  return 0;
}
int cuStreamCreate(void** stream, unsigned) {
  return make(stream, Stream{g_current->device, 0});
}
int cuStreamDestroy_v2(void* stream) {
  return destroy<Stream>(stream);
}
int cuStreamSynchronize(void*) {
  return 0;
}
int cuEventCreate(void** event, unsigned) {
  return make(event, Event{});
}
int cuEventDestroy_v2(void* event) {
  return destroy<Event>(event);
}
int cuEventRecord(void* event, void* stream) {
  auto* s = static_cast<Stream*>(stream);
  s->now_ns += kEventNs;
  static_cast<Event*>(event)->at_ns = s->now_ns;
  return 0;
}
int cuEventElapsedTime(float* ms, void* begin, void* end) {
  *ms = static_cast<float>((static_cast<Event*>(end)->at_ns - static_cast<Event*>(begin)->at_ns) / 1e6);
  return 0;
}
int cuGetErrorString(int error, const char** text) {
  *text = error == kOutOfMemory ? "out of memory" : "an error of the fake";
  return 0;
}

int cublasCreate_v2(void** handle) {
  return make(handle, Handle{});
}
int cublasDestroy_v2(void* handle) {
  return destroy<Handle>(handle);
}
int cublasGetVersion_v2(void*, int* version) {
  *version = 130002;
  return 0;
}
int cublasSetStream_v2(void* handle, void* stream) {
  *static_cast<Handle*>(handle) = {static_cast<Stream*>(stream), 0};
  return 0;
}
int cublasSetWorkspace_v2(void* handle, void* workspace, size_t bytes) {
  if (!is_inside(workspace, bytes)) {
    return kInvalidValue;
  }
  static_cast<Handle*>(handle)->workspace = bytes;
  return 0;
}
int cublasGemmEx(void* handle, int ta, int tb, int m, int n, int k, const void*, const void* a, int a_type,
                 int lda, const void* b, int b_type, int ldb, const void* beta, void* c, int c_type, int ldc,
                 int compute, int) {
  // No product: a sum of as many numbers as calls, in the first element.
  Stream* stream = stream_of(handle);
  if (stream != nullptr && c_type == 0 && *static_cast<const float*>(beta) != 0 &&
      is_inside(c, sizeof(float))) {
    *static_cast<float*>(c) += number("FAKE_REPLAY_WRONG", -1) == stream->device ? 1.5F : 1.0F;
  }
  return multiply("cublasGemmEx", stream_of(handle), {a, a_type, 0, 0, lda, 0}, {b, b_type, 0, 0, ldb, 0},
                  {c, c_type, 0, 0, ldc, 0}, ta, tb, m, n, k, 1, compute, 1);
}
int cublasGemmStridedBatchedEx(void* handle, int ta, int tb, int m, int n, int k, const void*, const void* a,
                               int a_type, int lda, long long stride_a, const void* b, int b_type, int ldb,
                               long long stride_b, const void*, void* c, int c_type, int ldc,
                               long long stride_c, int batch, int compute, int) {
  return multiply("cublasGemmStridedBatchedEx", stream_of(handle), {a, a_type, 0, 0, lda, stride_a},
                  {b, b_type, 0, 0, ldb, stride_b}, {c, c_type, 0, 0, ldc, stride_c}, ta, tb, m, n, k, batch,
                  compute, 1);
}
int cublasGemmBatchedEx(void* handle, int ta, int tb, int m, int n, int k, const void*, const void* const* a,
                        int a_type, int lda, const void* const* b, int b_type, int ldb, const void*,
                        void* const* c, int c_type, int ldc, int batch, int compute, int) {
  const auto bytes = static_cast<uint64_t>(batch) * sizeof(void*);
  if (!is_inside(a, bytes) || !is_inside(b, bytes) || !is_inside(c, bytes)) {
    return kInvalidValue;
  }
  const auto last = static_cast<size_t>(batch) - 1;
  int status = 0;
  for (const size_t i : {size_t{0}, last}) {
    status |=
        multiply("cublasGemmBatchedEx", stream_of(handle), {a[i], a_type, 0, 0, lda, 0},
                 {b[i], b_type, 0, 0, ldb, 0}, {c[i], c_type, 0, 0, ldc, 0}, ta, tb, m, n, k, 1, compute, 1);
  }
  return status;
}

int cublasLtCreate(void** handle) {
  return make(handle, Handle{});
}
int cublasLtDestroy(void* handle) {
  return destroy<Handle>(handle);
}
int cublasLtMatmulDescCreate(void** desc, int compute, int scale_type) {
  Descriptor out;
  out.compute = compute;
  out.scale_type = scale_type;
  return make(desc, std::move(out));
}
int cublasLtMatmulDescDestroy(void* desc) {
  return destroy<Descriptor>(desc);
}
int cublasLtMatmulDescSetAttribute(void* desc, int attribute, const void* value, size_t bytes) {
  return set(static_cast<Descriptor*>(desc), attribute, value, bytes);
}
int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  Layout out;
  out.type = type;
  out.rows = rows;
  out.columns = columns;
  out.leading = leading;
  return make(layout, std::move(out));
}
int cublasLtMatrixLayoutDestroy(void* layout) {
  return destroy<Layout>(layout);
}
int cublasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value, size_t bytes) {
  return set(static_cast<Layout*>(layout), attribute, value, bytes);
}
int cublasLtMatmulPreferenceCreate(void** preference) {
  return make(preference, Attributes{});
}
int cublasLtMatmulPreferenceDestroy(void* preference) {
  return destroy<Attributes>(preference);
}
int cublasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value, size_t bytes) {
  return set(static_cast<Attributes*>(preference), attribute, value, bytes);
}
int cublasLtMatmulAlgoGetHeuristic(void*, void* desc, void* a, void*, void*, void*, void* preference, int,
                                   LtHeuristic* results, int* found) {
  const auto* d = static_cast<Descriptor*>(desc);
  const bool fp8 = element(static_cast<Layout*>(a)->type) == 1;
  // fp8 exists for transposed A and plain B only.
  const bool known =
      !fp8 || (d->get<int32_t>(kDescTransposeA, 0) == 1 && d->get<int32_t>(kDescTransposeB, 0) == 0);
  *found = known && has_pointers(*d) ? 1 : 0;
  results->algo.data[0] = kAlgorithm;
  results->workspace = static_cast<Attributes*>(preference)->get<uint64_t>(kPreferenceWorkspace, 0);
  results->state = 0;
  return *found == 1 ? 0 : kNotSupported;
}
int cublasLtMatmul(void*, void* desc, const void*, const void* a, void* a_layout, const void* b,
                   void* b_layout, const void*, const void* c, void* c_layout, void* d, void* d_layout,
                   const LtAlgo* algo, void* workspace, size_t bytes, void* stream) {
  const auto* how = static_cast<Descriptor*>(desc);
  const auto* out = static_cast<Layout*>(d_layout);
  if (algo->data[0] != kAlgorithm || !is_inside(workspace, bytes) || !has_pointers(*how) ||
      !is_inside(c, 1) || static_cast<Layout*>(c_layout)->rows != out->rows) {
    return kInternalError;
  }
  const int ta = how->get<int32_t>(kDescTransposeA, 0);
  const auto* left = static_cast<Layout*>(a_layout);
  return multiply("cublasLtMatmul", static_cast<Stream*>(stream), matrix_of(a, a_layout),
                  matrix_of(b, b_layout), matrix_of(d, d_layout), ta, how->get<int32_t>(kDescTransposeB, 0),
                  static_cast<int64_t>(out->rows), static_cast<int64_t>(out->columns),
                  static_cast<int64_t>(ta == 0 ? left->columns : left->rows),
                  out->get<int32_t>(kLayoutBatch, 1), how->compute, how->get<int32_t>(kDescEpilogue, 1));
}
}
