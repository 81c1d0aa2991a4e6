// The cost of a hooked call with the real libraries, under xpurun: the preload's entry, which the program
// calls, against the library's own function, in turn, in one process.
//   call_cost LIBCUDART LIBCUBLAS LIBNCCL
// Build before measuring: g++ -O2 call_cost.cpp -ldl.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

constexpr int kRounds = 41;

double now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

struct Two {
  void* hooked;
  void* real;
};

Two find(void* library, const char* name) {
  return {dlsym(RTLD_DEFAULT, name), dlsym(library, name)};
}

// Median and extremes of the differences between neighbouring blocks.
// `rest` is done before each block.
template <typename Call, typename Rest>
void compare(const char* what, const Two& two, int calls, Call call, Rest rest) {
  if (two.hooked == nullptr || two.real == nullptr) {
    std::printf("%-34s not there\n", what);
    return;
  }
  std::vector<double> more;
  std::vector<double> alone;
  for (int round = 0; round < kRounds; ++round) {
    double ns[2] = {};
    for (int side = 0; side < 2; ++side) {
      const int which = (side + round) % 2;
      void* volatile function = which == 0 ? two.real : two.hooked;
      for (int i = 0; i < calls / 10; ++i) {
        call(function);
      }
      rest();
      const double begin = now_ns();
      for (int i = 0; i < calls; ++i) {
        call(function);
      }
      ns[which] = (now_ns() - begin) / calls;
    }
    more.push_back(ns[1] - ns[0]);
    alone.push_back(ns[0]);
  }
  std::sort(more.begin(), more.end());
  std::sort(alone.begin(), alone.end());
  std::printf("%-34s %8.1f ns by itself, hooked %+.1f (%+.1f to %+.1f, quartiles %+.1f, %+.1f)%s\n", what,
              alone[kRounds / 2], more[kRounds / 2], more.front(), more.back(), more[kRounds / 4],
              more[kRounds * 3 / 4], two.hooked == two.real ? "; NOT HOOKED" : "");
  std::fflush(stdout);
}

// The same with caches that the program has filled between two calls: here by writing twice the size of a
// level 2 cache. The clock readings around each call are on both sides.
template <typename Call>
void compare_cold(const char* what, const Two& two, Call call) {
  constexpr int kColdCalls = 100;
  static std::vector<char> evict(4 << 20);
  if (two.hooked == nullptr || two.real == nullptr) {
    return;
  }
  std::vector<double> more;
  for (int round = 0; round < kRounds; ++round) {
    double ns[2] = {};
    for (int i = 0; i < 2 * kColdCalls; ++i) {
      const int which = (i + round) % 2;
      void* volatile function = which == 0 ? two.real : two.hooked;
      for (size_t at = 0; at < evict.size(); at += 64) {
        evict[at] = static_cast<char>(evict[at] + 1);
      }
      const double begin = now_ns();
      call(function);
      ns[which] += (now_ns() - begin) / kColdCalls;
    }
    more.push_back(ns[1] - ns[0]);
  }
  std::sort(more.begin(), more.end());
  std::printf("%-34s cold caches, hooked %+.1f ns (%+.1f to %+.1f, quartiles %+.1f, %+.1f)\n", what,
              more[kRounds / 2], more.front(), more.back(), more[kRounds / 4], more[kRounds * 3 / 4]);
  std::fflush(stdout);
}

// The CUDA calls needed to time a matmul, alone: four queries and two events.
class CallsOfATimedMatmul {
 public:
  CallsOfATimedMatmul(void* runtime, void* blas, void* handle) : handle_(handle) {
    find(runtime, "cudaPeekAtLastError", &peek_);
    find(runtime, "cudaGetDevice", &device_);
    find(runtime, "cudaStreamIsCapturing", &capturing_);
    find(runtime, "cudaEventRecord", &record_);
    find(blas, "cublasGetStream_v2", &stream_);
    int (*create)(void**, unsigned) = nullptr;
    find(runtime, "cudaEventCreateWithFlags", &create);
    there_ = there_ && create(&start_, 0) == 0 && create(&stop_, 0) == 0;
  }

  // Median over the rounds, ns. `rest` is done before each burst.
  template <typename Rest>
  void measure(int calls, Rest rest) const {
    constexpr const char* kWhat = "CUDA calls of a timed one";
    if (!there_) {
      std::printf("%-34s not there\n", kWhat);
      return;
    }
    std::vector<double> took;
    for (int round = 0; round < kRounds; ++round) {
      rest();
      const double begin = now_ns();
      for (int i = 0; i < calls; ++i) {
        act();
      }
      took.push_back((now_ns() - begin) / calls);
    }
    std::sort(took.begin(), took.end());
    std::printf("%-34s %8.1f ns (%.1f to %.1f, quartiles %.1f, %.1f)\n", kWhat, took[kRounds / 2],
                took.front(), took.back(), took[kRounds / 4], took[kRounds * 3 / 4]);
  }

 private:
  template <typename Function>
  void find(void* library, const char* name, Function* out) {
    *out = reinterpret_cast<Function>(dlsym(library, name));
    there_ = there_ && *out != nullptr;
  }

  void act() const {
    void* stream = nullptr;
    int device = 0;
    int status = 0;
    stream_(handle_, &stream);
    peek_();
    device_(&device);
    capturing_(stream, &status);
    record_(start_, stream);
    record_(stop_, stream);
  }

  void* handle_;
  int (*peek_)() = nullptr;
  int (*device_)(int*) = nullptr;
  int (*capturing_)(void*, int*) = nullptr;
  int (*record_)(void*, void*) = nullptr;
  int (*stream_)(void*, void**) = nullptr;
  void* start_ = nullptr;
  void* stop_ = nullptr;
  bool there_ = true;
};

using Plain = int (*)();
using Free = int (*)(void*);
using Gemm = int (*)(void*, int, int, int, int, int, const void*, const void*, int, const void*, int,
                     const void*, void*, int);
struct Dim3 {
  unsigned x, y, z;
};
using Launch = int (*)(const void*, Dim3, Dim3, void**, size_t, void*);
using DriverLaunch = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             void*, void**, void**);
using CopyAsync = int (*)(void*, const void*, size_t, int, void*);
using Reduce = int (*)(const void*, void*, size_t, int, int, void*, void*);
using LtMatmul = int (*)(void*, void*, const void*, const void*, void*, const void*, void*, const void*,
                         const void*, void*, void*, void*, const void*, void*, size_t, void*);

constexpr int kBurst = 200;  // fits the queue of launches, so that the host's time is what is measured
constexpr const char* kEmptyKernel =
    ".version 6.4\n.target sm_50\n.address_size 64\n.visible .entry empty() { ret; }\n";

template <typename Function>
Function symbol(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

void* g_memory = nullptr;
void* g_handle = nullptr;
int (*g_synchronize)() = nullptr;

void synchronize() {
  if (g_synchronize != nullptr) {
    g_synchronize();
  }
}

// A kernel of the runtime: with real libraries through its library interface (CUDA 12.8), else any address.
void launches_by_runtime(void* runtime, bool is_fake) {
  static const void* s_kernel = g_memory;
  const auto load = symbol<int (*)(void**, const void*, void*, void*, unsigned, void*, void*, unsigned)>(
      "cudaLibraryLoadData");
  const auto get = symbol<int (*)(const void**, void*, const char*)>("cudaLibraryGetKernel");
  void* library = nullptr;
  const bool loaded = load != nullptr && get != nullptr &&
                      load(&library, kEmptyKernel, nullptr, nullptr, 0, nullptr, nullptr, 0) == 0 &&
                      get(&s_kernel, library, "empty") == 0;
  if (!is_fake && !loaded) {
    std::printf("cudaLaunchKernel                   no kernel\n");
    return;
  }
  compare(
      "cudaLaunchKernel", find(runtime, "cudaLaunchKernel"), is_fake ? 20'000 : kBurst,
      [](void* f) {
        reinterpret_cast<Launch>(f)(s_kernel, {64, 1, 1}, {128, 1, 1}, nullptr, 0, nullptr);
      },
      synchronize);
  compare_cold("cudaLaunchKernel", find(runtime, "cudaLaunchKernel"), [](void* f) {
    reinterpret_cast<Launch>(f)(s_kernel, {64, 1, 1}, {128, 1, 1}, nullptr, 0, nullptr);
  });
}

void launches_by_driver() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  const auto load = symbol<int (*)(void**, const void*)>("cuModuleLoadData");
  const auto get = symbol<int (*)(void**, void*, const char*)>("cuModuleGetFunction");
  void* module = nullptr;
  static void* s_kernel = nullptr;
  if (driver == nullptr || load == nullptr || get == nullptr || load(&module, kEmptyKernel) != 0 ||
      get(&s_kernel, module, "empty") != 0) {
    std::printf("cuLaunchKernel                     no kernel\n");
    return;
  }
  synchronize();
  compare(
      "cuLaunchKernel", find(driver, "cuLaunchKernel"), kBurst,
      [](void* f) {
        reinterpret_cast<DriverLaunch>(f)(s_kernel, 64, 1, 1, 128, 1, 1, 0, nullptr, nullptr, nullptr);
      },
      synchronize);
}

void copies(void* runtime) {
  compare(
      "cudaMemcpyAsync, 4 bytes", find(runtime, "cudaMemcpyAsync"), kBurst,
      [](void* f) {
        reinterpret_cast<CopyAsync>(f)(static_cast<char*>(g_memory) + 4096, g_memory, 4, 3, nullptr);
      },
      synchronize);
}

// One problem, layouts and descriptor made once.
void lt_matmuls(const char* blas_path) {
  const std::string path(blas_path);
  const size_t at = path.rfind("libcublas.so");
  void* lt = at == std::string::npos
                 ? nullptr
                 : dlopen((path.substr(0, at) + "libcublasLt" + path.substr(at + 9)).c_str(),
                          RTLD_NOW | RTLD_GLOBAL);
  const auto make_desc = symbol<int (*)(void**, int, int)>("cublasLtMatmulDescCreate");
  const auto make_layout =
      symbol<int (*)(void**, int, uint64_t, uint64_t, int64_t)>("cublasLtMatrixLayoutCreate");
  static void* s_desc = nullptr;
  static void* s_layout = nullptr;
  if (lt == nullptr || make_desc == nullptr || make_layout == nullptr || make_desc(&s_desc, 68, 0) != 0 ||
      make_layout(&s_layout, 0, 16, 16, 16) != 0) {
    std::printf("cublasLtMatmul                     not there\n");
    return;
  }
  compare(
      "cublasLtMatmul 16x16x16", find(lt, "cublasLtMatmul"), kBurst,
      [](void* f) {
        static const float one = 1;
        reinterpret_cast<LtMatmul>(f)(g_handle, s_desc, &one, g_memory, s_layout, g_memory, s_layout, &one,
                                      g_memory, s_layout, g_memory, s_layout, nullptr, nullptr, 0, nullptr);
      },
      synchronize);
}

// A communicator of one rank: a copy on the GPU, and all that NCCL does to launch it.
void collectives(void* nccl) {
  const auto make = symbol<int (*)(void**, int, const int*)>("ncclCommInitAll");
  static void* s_comm = nullptr;
  if (make == nullptr || make(&s_comm, 1, nullptr) != 0) {
    std::printf("ncclAllReduce                      no communicator\n");
    return;
  }
  compare(
      "ncclAllReduce of one rank", find(nccl, "ncclAllReduce"), kBurst,
      [](void* f) {
        reinterpret_cast<Reduce>(f)(g_memory, static_cast<char*>(g_memory) + 4096, 1, 7, 0, s_comm, nullptr);
      },
      synchronize);
}

}  // namespace

int main(int argc, char** argv) {
  void* library[3] = {};
  for (int i = 0; i < 3 && i + 1 < argc; ++i) {
    library[i] = dlopen(argv[i + 1], RTLD_NOW | RTLD_GLOBAL);
    if (library[i] == nullptr) {
      std::printf("%s\n", dlerror());
      return 1;
    }
  }
  if (argc != 4) {
    std::printf("usage: call_cost LIBCUDART LIBCUBLAS LIBNCCL\n");
    return 2;
  }
  const Two free_host = find(library[0], "cudaFreeHost");
  const auto malloc_device = reinterpret_cast<int (*)(void**, size_t)>(dlsym(RTLD_DEFAULT, "cudaMalloc"));
  g_synchronize = reinterpret_cast<int (*)()>(dlsym(library[0], "cudaDeviceSynchronize"));
  const auto set_to = reinterpret_cast<int (*)(void*, int, size_t)>(dlsym(library[0], "cudaMemset"));
  void* memory = nullptr;
  if (malloc_device == nullptr || malloc_device(&memory, 1 << 20) != 0) {
    std::printf("no GPU memory\n");
    return 1;
  }
  g_memory = memory;
  if (set_to != nullptr) {
    set_to(memory, 0, 1 << 20);
  }
  usleep(500'000);  // until timing has created its events
  compare(
      "cudaFreeHost(nullptr)", free_host, 200'000, [](void* f) { reinterpret_cast<Free>(f)(nullptr); },
      [] {});
  compare_cold("cudaFreeHost(nullptr)", free_host, [](void* f) { reinterpret_cast<Free>(f)(nullptr); });
  const Two start = find(library[2], "ncclGroupStart");
  const Two end = find(library[2], "ncclGroupEnd");
  static void* s_end[2];
  static void* s_start[2];
  s_start[0] = start.real;
  s_start[1] = start.hooked;
  s_end[0] = end.real;
  s_end[1] = end.hooked;
  compare(
      "ncclGroupStart and ncclGroupEnd", start, 200'000,
      [](void* f) {
        reinterpret_cast<Plain>(f)();
        reinterpret_cast<Plain>(f == s_start[0] ? s_end[0] : s_end[1])();
      },
      [] {});
  const auto create = reinterpret_cast<int (*)(void**)>(dlsym(library[1], "cublasCreate_v2"));
  if (create != nullptr && create(&g_handle) != 0) {
    std::printf("no cuBLAS\n");
    return 1;
  }
  if (create == nullptr) {
    g_handle = memory;  // a stand-in of cuBLAS
  }
  compare(
      "cublasSgemm 16x16x16", find(library[1], "cublasSgemm_v2"), kBurst,
      [](void* f) {
        static const float one = 1;
        reinterpret_cast<Gemm>(f)(g_handle, 0, 0, 16, 16, 16, &one, g_memory, 16, g_memory, 16, &one,
                                  g_memory, 16);
      },
      synchronize);
  CallsOfATimedMatmul(library[0], library[1], g_handle).measure(kBurst, synchronize);
  lt_matmuls(argv[2]);
  launches_by_runtime(library[0], create == nullptr);
  launches_by_driver();
  copies(library[0]);
  collectives(library[2]);
}
