// Fakes of every function that the preload hooks. Linked into each fake library; that library's version
// script selects its functions. Each records its arguments (fake_gpu.h), so that a test can check
// them, and puts work on its stream.
#include "preload/core/vendor.h"
#include "preload/hooks/hook_list.h"
#include "tests/fakes/fake_gpu.h"
#include "tests/fakes/fake_profiler.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <type_traits>
#include <unistd.h>

extern "C" {
void* fake_make_comm(int rank, int nranks);
int fake_comm_ranks(void* comm);
int fake_set_capturing(void* stream, int on);
}

namespace {

using namespace xpurun::preload;

int call_status() {
  static const int status = getenv("FAKE_CALL_STATUS") != nullptr ? atoi(getenv("FAKE_CALL_STATUS")) : 0;
  return status;
}

template <typename... A>
void* last_of(A... args) {
  void* last = nullptr;
  ((last = [](auto value) -> void* {
     if constexpr (std::is_same_v<decltype(value), void*>) {
       return value;
     } else {
       return nullptr;
     }
   }(args)),
   ...);
  return last;
}

int g_allocation = 0;

// Like a library that was linked with the runtime.
void launch_kernels_too(void* stream) {
  static const auto launch = reinterpret_cast<CudaLaunchKernel*>(
      getenv("FAKE_CALL_KERNELS") != nullptr ? dlsym(RTLD_DEFAULT, "cudaLaunchKernel") : nullptr);
  if (launch != nullptr) {
    launch(&g_allocation, {1, 1, 1}, {1, 1, 1}, nullptr, 0, stream);
  }
}

void keep_the_host() {
  static const long us = getenv("FAKE_CALL_US") != nullptr ? atol(getenv("FAKE_CALL_US")) : 0;
  const timespec pause{us / 1'000'000, us % 1'000'000 * 1000};
  if (us > 0) {
    nanosleep(&pause, nullptr);
  }
}

template <typename First>
void* stream_in(First first) {
  if constexpr (std::is_same_v<First, const void*>) {
    return static_cast<const LaunchConfig*>(first)->stream;
  } else {
    return nullptr;
  }
}

// The effect of a call on the simulated GPU.
template <typename First, typename... A>
void act(const char* name, First first, A... rest) {
  const bool stream_last = strncmp(name, "nccl", 4) == 0 || strcmp(name, "cublasLtMatmul") == 0 ||
                           strcmp(name, "cudaGraphLaunch") == 0 || strstr(name, "Async") != nullptr;
  const bool comm_call = strncmp(name, "ncclComm", 8) == 0;
  if (strncmp(name, "cublas", 6) == 0) {
    keep_the_host();
  }
  if constexpr (std::is_same_v<First, void*>) {
    if (strncmp(name, "cublas", 6) == 0 && strcmp(name, "cublasLtMatmul") != 0) {
      launch_kernels_too(first);
      fake_gpu_work(first);
    }
    if (strcmp(name, "cudaStreamBeginCapture") == 0 || strcmp(name, "cudaStreamEndCapture") == 0) {
      fake_set_capturing(first, strcmp(name, "cudaStreamBeginCapture") == 0 ? 1 : 0);
    }
  }
  if constexpr (std::is_same_v<First, void**>) {
    if (strncmp(name, "cuda", 4) == 0) {
      *first = &g_allocation;
    }
  }
  if (strstr(name, "LaunchKernelEx") != nullptr) {
    fake_gpu_kernel(stream_in(first));
  } else if (strstr(name, "LaunchKernel") != nullptr) {
    fake_gpu_kernel(last_of(rest...));
  }
  if (stream_last && !comm_call) {
    fake_gpu_work(last_of(first, rest...));
  }
}

void make_comm(NcclInit*, void** comm, int nranks, NcclUniqueId, int rank) {
  *comm = fake_make_comm(rank, nranks);
}
void make_comm(NcclInitConfig*, void** comm, int nranks, NcclUniqueId, int rank, NcclConfig*) {
  *comm = fake_make_comm(rank, nranks);
}
void make_comm(NcclInitScalable*, void** comm, int nranks, int rank, int, NcclUniqueId*, NcclConfig*) {
  *comm = fake_make_comm(rank, nranks);
}
void make_comm(NcclInitAll*, void** comms, int count, const int*) {
  for (int i = 0; i < count; ++i) {
    comms[i] = fake_make_comm(i, count);
  }
}
void make_comm(NcclSplit*, void* comm, int color, int key, void** made, NcclConfig*) {
  *made = color < 0 ? nullptr : fake_make_comm(key, fake_comm_ranks(comm));
}

// Reports NCCL's calls to the profiler and gives their return values.
template <typename Function, typename... A>
int profile(Function*, const char*, A...) {
  return 0;
}
bool has_root(const char* name) {
  return strcmp(name, "ncclBroadcast") == 0 || strcmp(name, "ncclGather") == 0 ||
         strcmp(name, "ncclScatter") == 0;
}
int profile_task(const char* name, const void* send, void* receive, size_t count, int root, void* comm,
                 void* stream) {
  const bool exchange = strcmp(name, "ncclSend") == 0 || strcmp(name, "ncclRecv") == 0 ||
                        strcmp(name, "ncclAlltoAll") == 0 || strcmp(name, "ncclGather") == 0 ||
                        strcmp(name, "ncclScatter") == 0;
  const FakeTask task{name + 4, send, receive, count, root, comm, stream, exchange ? 1 : 0};
  return fake_profiler_task(&task);
}
int profile(NcclReduceAll*, const char* name, const void* send, void* receive, size_t count, int, int op,
            void* comm, void* stream) {
  return profile_task(name, send, receive, count, has_root(name) ? op : 0, comm, stream);
}
int profile(NcclReduce*, const char* name, const void* send, void* receive, size_t count, int, int, int root,
            void* comm, void* stream) {
  return profile_task(name, send, receive, count, root, comm, stream);
}
int profile(NcclInPlace*, const char* name, void* buffer, size_t count, int, int root, void* comm,
            void* stream) {
  return profile_task(name, buffer, buffer, count, root, comm, stream);
}
int profile(NcclPlain*, const char* name, const void* send, void* receive, size_t count, int, void* comm,
            void* stream) {
  return profile_task(name, send, receive, count, 0, comm, stream);
}
int profile(NcclSendTo*, const char* name, const void* buffer, size_t count, int, int peer, void* comm,
            void* stream) {
  return profile_task(name, nullptr, const_cast<void*>(buffer), count, peer, comm, stream);
}

template <size_t kName, typename F>
struct Fake;

constexpr const char* kNames[] = {
#define XPURUN_NAME(name, type, policy) #name,
    XPURUN_HOOKS(XPURUN_NAME)
#undef XPURUN_NAME
};

template <size_t kName, typename... A>
struct Fake<kName, int(A...)> {
  static int call(A... args) {
    const char* name = kNames[kName];
    fake_set_last_function(name);
    fake_set_last_arguments(fake::hash(args...));
    if constexpr (sizeof...(A) > 0) {
      using Function = int(A...);
      if constexpr (std::is_same_v<Function, NcclInit> || std::is_same_v<Function, NcclInitConfig> ||
                    std::is_same_v<Function, NcclInitScalable> || std::is_same_v<Function, NcclInitAll> ||
                    std::is_same_v<Function, NcclSplit>) {
        if (strncmp(name, "ncclComm", 8) == 0) {
          make_comm(static_cast<Function*>(nullptr), args...);
          return 0;
        }
      }
      act(name, args...);
      if (strncmp(name, "nccl", 4) == 0 && strncmp(name, "ncclComm", 8) != 0) {
        if (const int status = profile(static_cast<Function*>(nullptr), name, args...); status != 0) {
          return status;
        }
      }
      if constexpr (std::is_same_v<Function, NcclOnComm>) {
        if (strcmp(name, "ncclCommDestroy") == 0) {
          fake_profiler_close(args...);
        }
      }
      const bool counted = strncmp(name, "cublas", 6) == 0 || strncmp(name, "nccl", 4) == 0;
      return counted ? call_status() : 0;
    }
    if (strcmp(name, "ncclGroupStart") == 0) {
      fake_profiler_group_start();
    } else if (strcmp(name, "ncclGroupEnd") == 0) {
      fake_profiler_group_end();
    }
    return 0;
  }
};

enum Number : size_t {
#define XPURUN_NUMBER(name, type, policy) k_##name,
  XPURUN_HOOKS(XPURUN_NUMBER)
#undef XPURUN_NUMBER
};

}  // namespace

#define XPURUN_FAKE(name, type, policy)                                                            \
  extern "C" {                                                                                     \
  __attribute__((visibility("hidden"), used)) type* fake_slot_##name = Fake<k_##name, type>::call; \
  }                                                                                                \
                                                                                                   \
  asm(".pushsection .text\n.globl " #name "\n.type " #name ", @function\n" #name                   \
      ":\nendbr64\njmp *fake_slot_" #name "(%rip)\n.size " #name ", . - " #name "\n.popsection\n");

XPURUN_HOOKS(XPURUN_FAKE)
