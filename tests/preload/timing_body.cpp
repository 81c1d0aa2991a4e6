// A small program that uses the GPU: test_timing.py loads it with timing_victim, globally or
// with RTLD_LOCAL, against the fakes. Each word of the command line is a scene; every hooked call is
// checked to have reached the fake with the arguments it was given.
#include "preload/core/vendor.h"
#include "preload/hooks/hook_list.h"
#include "tests/fakes/fake_gpu.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <type_traits>
#include <unistd.h>

using namespace xpurun::preload;

#define XPURUN_DECLARE(name, type, policy) extern "C" type name;
XPURUN_HOOKS(XPURUN_DECLARE)

extern "C" {
int cudaStreamSynchronize(void* stream);
int cudaGetLastError();
int fake_set_last_error(int error);
int fake_profiler_mask();
int fake_profiler_told_all();
int fake_profiler_late_us();
}

namespace {

int g_wrong = 0;
int g_streams[8];
void* const kStream = &g_streams[0];
void* const kOther = &g_streams[4];

template <typename... P>
int call(const char* name, int (*function)(P...), std::type_identity_t<P>... args) {
  const uint64_t before = fake_calls();
  const int result = function(args...);
  if (fake_calls() != before + 1 || strcmp(fake_last_function(), name) != 0 ||
      fake_last_arguments() != fake::hash(args...)) {
    printf("WRONG %s reached %s after %d calls\n", name, fake_last_function(),
           static_cast<int>(fake_calls() - before));
    ++g_wrong;
  }
  return result;
}
#define CALL(name, ...) call(#name, name __VA_OPT__(, ) __VA_ARGS__)

void* at(uintptr_t value) {
  return reinterpret_cast<void*>(value);
}
const void* const kA = at(0xa0000);
const void* const kB = at(0xb0000);
void* const kC = at(0xc0000);
const void* const* const kAs = static_cast<const void* const*>(at(0xaa000));
const void* const* const kBs = static_cast<const void* const*>(at(0xbb000));
void* const* const kCs = static_cast<void* const*>(at(0xcc000));
const void* const kOne = at(0x11000);
const void* const kZero = at(0x22000);

#define PLAIN(name, m) CALL(name, kStream, 0, 1, m, 20, 30, kOne, kA, 101, kB, 102, kZero, kC, 103)
#define BATCHED(name, m) CALL(name, kStream, 1, 0, m, 20, 30, kOne, kAs, 101, kBs, 102, kZero, kCs, 103, 4)
#define STRIDED(name, m) \
  CALL(name, kStream, 1, 1, m, 20, 30, kOne, kA, 101, 1001, kB, 102, 1002, kZero, kC, 103, 1003, 5)
#define TYPED(name, m) CALL(name, kStream, 0, 2, m, 20, 30, kOne, kA, 2, 101, kB, 3, 102, kZero, kC, 8, 103)

void matmuls() {
  PLAIN(cublasSgemm_v2, 11);
  PLAIN(cublasDgemm_v2, 12);
  PLAIN(cublasCgemm_v2, 13);
  PLAIN(cublasZgemm_v2, 14);
  PLAIN(cublasHgemm, 15);
  PLAIN(cublasCgemm3m, 16);
  PLAIN(cublasZgemm3m, 17);
  PLAIN(cublasSgemm_v2_64, 5'000'000'001);
  PLAIN(cublasDgemm_v2_64, 19);
  PLAIN(cublasCgemm_v2_64, 20);
  PLAIN(cublasZgemm_v2_64, 21);
  PLAIN(cublasHgemm_64, 22);
  BATCHED(cublasSgemmBatched, 23);
  BATCHED(cublasDgemmBatched, 24);
  BATCHED(cublasCgemmBatched, 25);
  BATCHED(cublasZgemmBatched, 26);
  BATCHED(cublasHgemmBatched, 27);
  BATCHED(cublasSgemmBatched_64, 28);
  BATCHED(cublasDgemmBatched_64, 29);
  BATCHED(cublasCgemmBatched_64, 30);
  BATCHED(cublasZgemmBatched_64, 31);
  BATCHED(cublasHgemmBatched_64, 32);
  STRIDED(cublasSgemmStridedBatched, 33);
  STRIDED(cublasDgemmStridedBatched, 34);
  STRIDED(cublasCgemmStridedBatched, 35);
  STRIDED(cublasZgemmStridedBatched, 36);
  STRIDED(cublasHgemmStridedBatched, 37);
  STRIDED(cublasSgemmStridedBatched_64, 38);
  STRIDED(cublasDgemmStridedBatched_64, 39);
  STRIDED(cublasCgemmStridedBatched_64, 40);
  STRIDED(cublasZgemmStridedBatched_64, 41);
  STRIDED(cublasHgemmStridedBatched_64, 42);
  TYPED(cublasSgemmEx, 43);
  TYPED(cublasCgemmEx, 44);
  TYPED(cublasSgemmEx_64, 45);
  TYPED(cublasCgemmEx_64, 46);
  CALL(cublasGemmEx, kStream, 1, 0, 47, 20, 30, kOne, kA, 14, 101, kB, 14, 102, kZero, kC, 0, 103, 68, 99);
  CALL(cublasGemmEx_64, kStream, 1, 0, 48, 20, 30, kOne, kA, 14, 101, kB, 14, 102, kZero, kC, 0, 103, 68, 99);
  CALL(cublasGemmBatchedEx, kStream, 0, 1, 49, 20, 30, kOne, kAs, 2, 101, kBs, 2, 102, kZero, kCs, 2, 103, 6,
       68, -1);
  CALL(cublasGemmBatchedEx_64, kStream, 0, 1, 50, 20, 30, kOne, kAs, 2, 101, kBs, 2, 102, kZero, kCs, 2, 103,
       6, 68, -1);
  CALL(cublasGemmStridedBatchedEx, kStream, 0, 1, 51, 20, 30, kOne, kA, 2, 101, 1001, kB, 2, 102, 1002, kZero,
       kC, 2, 103, 1003, 7, 68, -1);
  CALL(cublasGemmStridedBatchedEx_64, kStream, 0, 1, 52, 20, 30, kOne, kA, 2, 101, 1001, kB, 2, 102, 1002,
       kZero, kC, 2, 103, 1003, 7, 68, -1);
}

template <typename I, typename F, typename G>
void grouped(const char* float_name, F* of_float, const char* double_name, F* of_double, const char* ex_name,
             G* ex, I m0) {
  const int ta[] = {0, 1};
  const int tb[] = {1, 0};
  const I m[] = {m0, 2};
  const I n[] = {10, 3};
  const I k[] = {100, 4};
  const I ld[] = {128, 128};
  const I sizes[] = {2, 5};
  call(float_name, of_float, kStream, ta, tb, m, n, k, kOne, kAs, ld, kBs, ld, kZero, kCs, ld, I{2}, sizes);
  call(double_name, of_double, kStream, ta, tb, m, n, k, kOne, kAs, ld, kBs, ld, kZero, kCs, ld, I{2}, sizes);
  call(ex_name, ex, kStream, ta, tb, m, n, k, kOne, kAs, 14, ld, kBs, 14, ld, kZero, kCs, 14, ld, I{2}, sizes,
       68);
}

void groups() {
  grouped<int>("cublasSgemmGroupedBatched", cublasSgemmGroupedBatched, "cublasDgemmGroupedBatched",
               cublasDgemmGroupedBatched, "cublasGemmGroupedBatchedEx", cublasGemmGroupedBatchedEx, 60);
  grouped<int64_t>("cublasSgemmGroupedBatched_64", cublasSgemmGroupedBatched_64,
                   "cublasDgemmGroupedBatched_64", cublasDgemmGroupedBatched_64,
                   "cublasGemmGroupedBatchedEx_64", cublasGemmGroupedBatchedEx_64, 61);
}

struct Attributes {
  int64_t value[40] = {};
  Attributes with(int attribute, int64_t v) const {
    Attributes out = *this;
    out.value[attribute] = v;
    return out;
  }
};

Attributes layout(int type, int64_t rows, int64_t cols, int64_t batch) {
  return Attributes{}.with(0, type).with(2, rows).with(3, cols).with(5, batch);
}

void lt() {
  Attributes desc = Attributes{}.with(0, 68).with(3, 1).with(7, 4).with(17, 0x1234);
  Attributes a = layout(28, 700, 500, 3);  // transposed: k is 700
  Attributes b = layout(28, 700, 600, 3);
  Attributes d = layout(14, 500, 600, 3);
  CALL(cublasLtMatmul, kOther, &desc, kOne, kA, &a, kB, &b, kZero, kC, &d, kC, &d, nullptr, kC, 4096,
       kStream);
  desc = Attributes{}.with(0, 68).with(7, 1);
  a = layout(14, 500, 700, 1);
  b = layout(14, 700, 600, 1);
  d = layout(14, 500, 600, 1).with(1, 1);
  CALL(cublasLtMatmul, kOther, &desc, kOne, kA, &a, kB, &b, kZero, kC, &d, kC, &d, nullptr, kC, 4096,
       kStream);
}

NcclUniqueId unique_id(char fill) {
  NcclUniqueId id;
  memset(id.internal, fill, sizeof(id.internal));
  return id;
}

void* g_comm = nullptr;

void communicators() {
  NcclConfig config{sizeof(NcclConfig), kNcclConfigMagic, 22809, 1, 0, 0, 0, nullptr, 0, 0,
                    "tensor parallel"};
  CALL(ncclCommInitRankConfig, &g_comm, 8, unique_id('x'), 3, &config);
  void* second = nullptr;
  CALL(ncclCommInitRank, &second, 2, unique_id('y'), 1);
  void* split = nullptr;
  CALL(ncclCommSplit, g_comm, 1, 2, &split, nullptr);
  void* none = nullptr;
  CALL(ncclCommSplit, g_comm, kNcclSplitNoColor, 0, &none, nullptr);
  void* in_group = nullptr;
  NcclUniqueId ids[2] = {unique_id('p'), unique_id('q')};
  CALL(ncclGroupStart);
  CALL(ncclCommInitRankScalable, &in_group, 16, 5, 2, ids, nullptr);
  CALL(ncclGroupEnd);
  CALL(ncclAllReduce, in_group, kC, 1, 7, 0, in_group, kStream);
  CALL(ncclCommAbort, second);
  CALL(ncclCommFinalize, split);
  CALL(ncclCommDestroy, split);
  void* handle = nullptr;
  CALL(ncclCommRegister, g_comm, kC, 4096, &handle);
  CALL(ncclCommDeregister, g_comm, handle);
}

void collectives() {
  if (g_comm == nullptr) {
    ncclCommInitRank(&g_comm, 8, unique_id('x'), 3);
  }
  CALL(ncclAllReduce, kA, kC, 1000, 7, 0, g_comm, kStream);
  CALL(ncclReduce, kA, kC, 1001, 6, 2, 5, g_comm, kStream);
  CALL(ncclBroadcast, kA, kC, 1002, 9, 6, g_comm, kStream);
  CALL(ncclBcast, kC, 1003, 9, 7, g_comm, kStream);
  CALL(ncclAllGather, kA, kC, 1004, 9, g_comm, kStream);
  CALL(ncclReduceScatter, kA, kC, 1005, 9, 0, g_comm, kStream);
  CALL(ncclAlltoAll, kA, kC, 1006, 9, g_comm, kStream);
  CALL(ncclGather, kA, kC, 1007, 9, 1, g_comm, kStream);
  CALL(ncclScatter, kA, kC, 1008, 9, 2, g_comm, kStream);
}

void point_to_point() {
  CALL(ncclGroupStart);
  CALL(ncclGroupStart);
  for (int peer = 0; peer < 4; ++peer) {
    CALL(ncclSend, kA, 2000, 7, peer, g_comm, kStream);
    CALL(ncclRecv, kC, 2000, 7, peer, g_comm, kOther);
  }
  CALL(ncclGroupEnd);
  CALL(ncclAllReduce, kA, kC, 77, 7, 0, g_comm, kStream);
  CALL(ncclGroupEnd);
  CALL(ncclSend, kA, 2001, 7, 1, g_comm, kStream);
}

// From here on the calls are on a new communicator.
void another() {
  CALL(ncclCommInitRank, &g_comm, 8, unique_id('z'), 3);
}

// Groups of collectives without anything else.
void grouped() {
  for (int i = 0; i < 4; ++i) {
    CALL(ncclGroupStart);
    CALL(ncclReduceScatter, at(0x10000), at(0x20000), 500, 9, 0, g_comm, kStream);
    CALL(ncclReduceScatter, at(0x30000), at(0x40000), 500, 9, 0, g_comm, kStream);
    CALL(ncclGroupEnd);
  }
}

constexpr int kRounds = 10;
constexpr int kRaces = 150;       // of each round, beside the exchanges
constexpr int kUndisturbed = 50;  // and when no thread is in one
pthread_barrier_t g_round;

void all_reduces(void* stream, int count) {
  for (int i = 0; i < count; ++i) {
    ncclAllReduce(stream, stream, 64, 7, 0, g_comm, stream);
  }
}

void* collectives_in_a_row(void* stream) {
  for (int round = 0; round < kRounds; ++round) {
    all_reduces(stream, kRaces);
    pthread_barrier_wait(&g_round);
    all_reduces(stream, kUndisturbed);
    pthread_barrier_wait(&g_round);
  }
  return nullptr;
}

void* exchanges_in_a_row(void* stream) {
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kRaces; ++i) {
      ncclGroupStart();
      ncclSend(kA, 64, 7, 1, g_comm, stream);
      ncclRecv(kC, 64, 7, 1, g_comm, stream);
      ncclSend(kA, 64, 7, 2, g_comm, stream);
      ncclRecv(kC, 64, 7, 2, g_comm, stream);
      ncclGroupEnd();
    }
    pthread_barrier_wait(&g_round);
    pthread_barrier_wait(&g_round);
  }
  return nullptr;
}

void race() {
  if (g_comm == nullptr) {
    ncclCommInitRank(&g_comm, 8, unique_id('x'), 3);
  }
  pthread_t thread[8];
  pthread_barrier_init(&g_round, nullptr, 8);
  for (int i = 0; i < 8; ++i) {
    pthread_create(&thread[i], nullptr, i < 4 ? collectives_in_a_row : exchanges_in_a_row, &g_streams[i]);
  }
  for (pthread_t& t : thread) {
    pthread_join(t, nullptr);
  }
}

// NCCL's current event mask.
void mask() {
  printf("mask %d\n", fake_profiler_mask());
}

void memory() {
  void* p = nullptr;
  CALL(cudaMalloc, &p, 1 << 20);
  CALL(cudaMallocManaged, &p, 4096, 1);
  CALL(cudaMallocAsync, &p, 4096, kStream);
  CALL(cudaMallocFromPoolAsync, &p, 4096, kOther, kStream);
  CALL(cudaMallocHost, &p, 4096);
  CALL(cudaHostAlloc, &p, 4096, 2);
  CALL(cudaFree, kC);
  CALL(cudaFreeAsync, kC, kStream);
  CALL(cudaFreeHost, kC);
  CALL(cudaMemcpy, kC, kA, 1 << 16, 1);
  CALL(cudaMemcpy, kC, at(0x1000), 1 << 16, 1);
  CALL(cudaMemcpyAsync, at(0x1000), kA, 1 << 20, 2, kStream);
  CALL(cudaMemcpy2D, kC, 128, kA, 256, 100, 10, 3);
  CALL(cudaMemcpy2DAsync, kC, 128, kA, 256, 100, 10, 3, kStream);
  CALL(cudaMemcpyPeer, kC, 1, kA, 0, 5000);
  CALL(cudaMemcpyPeerAsync, kC, 1, kA, 0, 5000, kStream);
  CALL(cudaMemset, kC, 0, 100);
  CALL(cudaMemsetAsync, kC, 0, 100, kStream);
  CALL(cudaGraphLaunch, at(0x77), kStream);
  CALL(cudaLaunchKernel, kA, Dim3{1, 2, 3}, Dim3{4, 5, 6}, nullptr, 7, kStream);
  const LaunchConfig config{{2, 2, 2}, {4, 5, 6}, 7, kStream};
  CALL(cudaLaunchKernelExC, &config, kB, nullptr);
  CALL(__cudaLaunchKernel, kA, Dim3{1, 2, 3}, Dim3{4, 5, 6}, nullptr, 7, kStream);
}

// Two kinds of kernels and one that was launched once, on two streams.
void kernels() {
  const LaunchConfig config{{16, 16, 1}, {4, 5, 6}, 7, kOther};
  for (int i = 0; i < 3000; ++i) {
    cudaLaunchKernel(kA, Dim3{1024, 1, 1}, Dim3{128, 1, 1}, nullptr, 0, kStream);
    if (i % 3 == 0) {
      cudaLaunchKernelExC(&config, kB, nullptr);
    }
    if (i % 500 == 0) {
      cudaStreamSynchronize(kStream);
    }
  }
  CALL(__cudaLaunchKernel, kC, Dim3{1, 1, 1}, Dim3{4, 5, 6}, nullptr, 7, kStream);
}

// A program that gets the driver's functions from the loader, and a program that asks the library itself.
void driver() {
  char path[4096];
  snprintf(path, sizeof(path), "%s/tests/fakes/driver/libcuda.so.1", getenv("XPURUN_TEST_BUILD"));
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const LaunchConfig config{{2, 2, 2}, {4, 5, 6}, 7, kStream};
  const auto launch = reinterpret_cast<CuLaunchKernel*>(dlsym(RTLD_DEFAULT, "cuLaunchKernel"));
  const auto launch_ex = reinterpret_cast<CuLaunchKernelEx*>(dlsym(RTLD_DEFAULT, "cuLaunchKernelEx"));
  call("cuLaunchKernel", launch, kC, 8, 2, 1, 128, 1, 1, 0, kStream, nullptr, nullptr);
  call("cuLaunchKernelEx", launch_ex, &config, kC, nullptr, nullptr);
  call("cuLaunchKernelEx", reinterpret_cast<CuLaunchKernelEx*>(dlsym(library, "cuLaunchKernelEx")), &config,
       kC, nullptr, nullptr);
}

void capture_kernels() {
  CALL(cudaStreamBeginCapture, kStream, 0);
  for (int i = 0; i < 100; ++i) {
    cudaLaunchKernel(kA, Dim3{1024, 1, 1}, Dim3{128, 1, 1}, nullptr, 0, kStream);
  }
  void* graph = nullptr;
  CALL(cudaStreamEndCapture, kStream, &graph);
}

void capture() {
  CALL(cudaStreamBeginCapture, kStream, 0);
  PLAIN(cublasSgemm_v2, 900);
  CALL(ncclAllReduce, kA, kC, 1000, 7, 0, g_comm, kStream);
  CALL(cudaMemcpyAsync, kC, kA, 64, 3, kStream);
  void* graph = nullptr;
  CALL(cudaStreamEndCapture, kStream, &graph);
  PLAIN(cublasSgemm_v2, 901);
}

void missing() {
  void* symbol = dlsym(RTLD_DEFAULT, "cuMemCreate");
  unsigned long long handle = 0;
  printf("missing %d\n",
         symbol == nullptr ? -1 : reinterpret_cast<CuMemCreate*>(symbol)(&handle, 1, nullptr, 0));
}

void after_fork() {
  const pid_t child = fork();
  if (child == 0) {
    PLAIN(cublasSgemm_v2, 800);
    _exit(g_wrong == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("child %d\n", status);
  PLAIN(cublasSgemm_v2, 801);
}

void* few_calls(void* stream) {
  for (int i = 0; i < 1000; ++i) {
    cublasSgemm_v2(stream, 0, 0, 8, 8, 8, kOne, kA, 8, kB, 8, kZero, kC, 8);
  }
  return nullptr;
}

void threads() {
  pthread_t thread[8];
  for (int i = 0; i < 8; ++i) {
    pthread_create(&thread[i], nullptr, few_calls, &g_streams[i]);
  }
  for (pthread_t& t : thread) {
    pthread_join(t, nullptr);
  }
}

void million() {
  timespec begin{};
  timespec end{};
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < 1'000'000; ++i) {
    cublasSgemm_v2(kStream, 0, 0, 16, 16, 16, kOne, kA, 8, kB, 8, kZero, kC, 8);
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  cudaStreamSynchronize(kStream);
  fprintf(stdout, "%.1f ns a call\n",
          (static_cast<double>(end.tv_sec - begin.tv_sec) * 1e9 +
           static_cast<double>(end.tv_nsec - begin.tv_nsec)) /
              1e6);
}

void last_error() {
  fake_set_last_error(77);
  PLAIN(cublasSgemm_v2, 850);
  printf("last error %d\n", cudaGetLastError());
}

// Waits until NCCL's proxy has reported everything (at most 10 s, on a busy machine), then for some rounds of
// the poller.
void settle() {
  const timespec moment{0, 1'000'000};
  for (int i = 0; i < 10'000 && fake_profiler_told_all() == 0; ++i) {
    nanosleep(&moment, nullptr);
  }
  const timespec pause{0, 130'000'000};
  nanosleep(&pause, nullptr);
}

// Until the supervisor has found this process and has its calls timed: one of the copies was.
void wait_until_timed() {
  const timespec moment{0, 5'000'000};
  for (int i = 0; i < 5'000 && fake_event_calls() == 0; ++i) {
    memory();
    nanosleep(&moment, nullptr);
  }
  settle();
}

void wait_for_line() {
  char line[64];
  printf("waiting\n");
  fflush(stdout);
  if (fgets(line, sizeof(line), stdin) == nullptr) {
    settle();
  }
}

// Calls until `end_calls` or `idle`, whatever the time this takes.
pthread_t g_caller;
bool g_busy;

void* many_calls(void*) {
  while (__atomic_load_n(&g_busy, __ATOMIC_RELAXED)) {
    cublasSgemm_v2(kStream, 0, 0, 16, 16, 16, kOne, kA, 8, kB, 8, kZero, kC, 8);
  }
  return nullptr;
}

void busy() {
  g_busy = true;
  pthread_create(&g_caller, nullptr, many_calls, nullptr);
}

void end_calls() {
  __atomic_store_n(&g_busy, false, __ATOMIC_RELAXED);
  pthread_join(g_caller, nullptr);
}

void idle() {
  end_calls();
  cudaStreamSynchronize(kStream);
}

// A small training job that runs until the file "end" exists: every 20 ms the calls of a step, with no two
// collectives alike.
void steps() {
  collectives();
  while (access("end", F_OK) != 0) {
    for (int i = 0; i < 72; ++i) {
      cublasSgemm_v2(kStream, 0, 0, 16 << i % 4, 16, 16, kOne, kA, 8, kB, 8, kZero, kC, 8);
      for (int k = 0; k < 3; ++k) {
        cudaLaunchKernel(kA, Dim3{64U << k, 1, 1}, Dim3{128, 1, 1}, nullptr, 0, kStream);
      }
      if (i % 6 == 0) {
        ncclAllReduce(kA, kC, 1000 + static_cast<size_t>(i), 7, 0, g_comm, kOther);
      }
    }
    const timespec pause{0, 20'000'000};
    nanosleep(&pause, nullptr);
  }
}

struct Scene {
  const char* name;
  void (*act)();
};
const Scene kScenes[] = {
    {"matmuls", matmuls},
    {"groups", groups},
    {"lt", lt},
    {"communicators", communicators},
    {"collectives", collectives},
    {"end_calls", end_calls},
    {"p2p", point_to_point},
    {"another", another},
    {"grouped", grouped},
    {"race", race},
    {"mask", mask},
    {"memory", memory},
    {"capture", capture},
    {"kernels", kernels},
    {"driver", driver},
    {"capture-kernels", capture_kernels},
    {"missing", missing},
    {"fork", after_fork},
    {"threads", threads},
    {"million", million},
    {"busy", busy},
    {"idle", idle},
    {"last-error", last_error},
    {"steps", steps},
    {"settle", settle},
    {"timed", wait_until_timed},
    {"wait", wait_for_line},
};

}  // namespace

extern "C" int play(int count, char** names) {
  for (int i = 0; i < count; ++i) {
    for (const Scene& scene : kScenes) {
      if (strcmp(scene.name, names[i]) == 0) {
        scene.act();
      }
    }
  }
  printf("wrong %d violations %d late %d us events %d\n", g_wrong, fake_violations(), fake_profiler_late_us(),
         fake_event_calls());
  fflush(stdout);
  return g_wrong;
}
