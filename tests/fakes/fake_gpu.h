// A GPU that exists on the clock only: work on a stream takes the time it is said to take, events complete
// when it has passed. Shared by all fake vendor libraries of a process. Programmed by the environment:
//   FAKE_GPU_WORK_US     how long each matmul, collective, copy and graph takes (default 50)
//   FAKE_GPU_KERNEL_US   how long each kernel takes that the program launches itself (default 20)
//   FAKE_GPU_EVENT_US    how long an event keeps its stream (default 0)
//   FAKE_GPU_NEVER       from the N-th piece of work on, a stream never gets on
//   FAKE_GPU_FAIL_EVENTS every event call fails with that error
//   FAKE_CALL_STATUS     what every matmul and collective returns
//   FAKE_CALL_US         what every matmul takes on the host before the GPU gets it
//   FAKE_CALL_KERNELS    every matmul launches a kernel through the runtime's exported name
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {
void fake_gpu_work(void* stream);
void fake_gpu_kernel(void* stream);
// The arguments of the last call of a fake, as fake_hash() of them.
uint64_t fake_last_arguments();
void fake_set_last_arguments(uint64_t hash);
const char* fake_last_function();
void fake_set_last_function(const char* name);
uint64_t fake_calls();
// Errors that a real runtime would have made of what was done: event records on a capturing stream.
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
