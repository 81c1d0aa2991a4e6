// The cost of a hooked call with the real libraries, under xpurun: the preload's entry, which the program
// calls, against the library's own function, in turn, in one process.
//   call_cost LIBCUDART LIBCUBLAS LIBNCCL
// Build before measuring: g++ -O2 call_cost.cpp -ldl.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
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
  const auto synchronize = reinterpret_cast<int (*)()>(dlsym(library[0], "cudaDeviceSynchronize"));
  const auto set_to = reinterpret_cast<int (*)(void*, int, size_t)>(dlsym(library[0], "cudaMemset"));
  void* memory = nullptr;
  if (malloc_device == nullptr || malloc_device(&memory, 1 << 20) != 0) {
    std::printf("no GPU memory\n");
    return 1;
  }
  if (set_to != nullptr) {
    set_to(memory, 0, 1 << 20);
  }
  usleep(500'000);  // until timing has created its events
  compare(
      "cudaFreeHost(nullptr)", free_host, 200'000, [](void* f) { reinterpret_cast<Free>(f)(nullptr); },
      [] {});
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
  static void* s_handle = nullptr;
  if (create != nullptr && create(&s_handle) != 0) {
    std::printf("no cuBLAS\n");
    return 1;
  }
  if (create == nullptr) {
    s_handle = memory;  // a fake of cuBLAS
  }
  static void* s_memory = memory;
  static const auto s_synchronize = synchronize;
  // In bursts that fit the launch queue, so that host time is measured.
  compare(
      "cublasSgemm 16x16x16", find(library[1], "cublasSgemm_v2"), 200,
      [](void* f) {
        static const float one = 1;
        reinterpret_cast<Gemm>(f)(s_handle, 0, 0, 16, 16, 16, &one, s_memory, 16, s_memory, 16, &one,
                                  s_memory, 16);
      },
      [] {
        if (s_synchronize != nullptr) {
          s_synchronize();
        }
      });
  CallsOfATimedMatmul(library[0], library[1], s_handle).measure(200, [] {
    if (s_synchronize != nullptr) {
      s_synchronize();
    }
  });
  if (create == nullptr) {  // a real runtime needs a real kernel
    compare(
        "cudaLaunchKernel", find(library[0], "cudaLaunchKernel"), 20'000,
        [](void* f) {
          reinterpret_cast<Launch>(f)(s_memory, {64, 1, 1}, {128, 1, 1}, nullptr, 0, nullptr);
        },
        [] {});
  }
}
