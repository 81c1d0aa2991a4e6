// A simulated GPU: work on a stream takes a configured time, and events complete after that time. Shared by
// all fake vendor libraries of a process. Configured by the environment:
//   FAKE_GPU_WORK_US     duration of each matmul, collective, copy and graph in us (default 50)
//   FAKE_GPU_KERNEL_US   duration of each kernel that the program launches itself in us (default 20)
//   FAKE_GPU_EVENT_US    time for which an event occupies its stream in us (default 0)
//   FAKE_GPU_NEVER       from the N-th piece of work on, a stream makes no progress
//   FAKE_GPU_FAIL_EVENTS every event call fails with this error
//   FAKE_GPU_PRINTS      prints the time between two events, in ns, each time that it is asked for
//   FAKE_CALL_STATUS     return value of every matmul and collective
//   FAKE_CALL_US         host time of every matmul before the GPU gets the work, in us
//   FAKE_CALL_KERNELS    every matmul launches a kernel through the runtime's exported name
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {
void fake_gpu_work(void* stream);
void fake_gpu_kernel(void* stream);
// fake_hash() of the arguments of the last call of a fake.
uint64_t fake_last_arguments();
void fake_set_last_arguments(uint64_t hash);
const char* fake_last_function();
void fake_set_last_function(const char* name);
uint64_t fake_calls();
// Number of calls that a real runtime would reject: event records on a capturing stream.
int fake_violations();
int fake_event_calls();
}

namespace fake {

template <typename T>
uint64_t bits(const T& value) {
  uint64_t h = 0xcbf29ce484222325;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&value);
  for (size_t i = 0; i < sizeof(T); ++i) {
    h = (h ^ bytes[i]) * 0x100000001b3;
  }
  return h;
}

template <typename... A>
uint64_t hash(const A&... args) {
  uint64_t h = 1;
  ((h = h * 31 + bits(args)), ...);
  return h;
}

}  // namespace fake
