// How NCCL drives a profiler plugin, in small: loads NCCL_PROFILER_PLUGIN at the first communicator, newest
// table first, and tells it of collectives and of the channels of their kernels, these from a proxy thread.
// Programmed by the environment:
//   FAKE_NCCL_VERSION    what ncclGetVersion says (default 22809)
//   FAKE_NCCL_PROFILER   newest interface that it knows (default 5)
//   FAKE_NCCL_CHANNELS   channels of every kernel (default 3); one more is announced with
//   FAKE_NCCL_ANNOUNCES=1 FAKE_NCCL_BEHAVIOUR  never-stops, stop-first, late-start, no-timer, silent, later,
//   replay
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {
void fake_profiler_open(void* comm, int rank, int nranks);
void fake_profiler_close(void* comm);
struct FakeTask {
  const char* func;  // as NCCL names it
  const void* send;
  void* receive;
  size_t count;
  int root;
  void* comm;
  void* stream;
  int point_to_point;
};
// Returns what the call should return.
int fake_profiler_task(const struct FakeTask* task);
void fake_profiler_group_start();
void fake_profiler_group_end();
int fake_nccl_version();
// Whether the plugin was told of everything that was called so far.
int fake_profiler_told_all();
// How late at most it was told that a channel began or ended.
int fake_profiler_late_us();
// fake_gpu.cpp
void fake_gpu_interval(void* stream, uint64_t* begin, uint64_t* end);
int fake_is_capturing(void* stream);
void fake_gpu_lock();
void fake_gpu_unlock();
void fake_violation(const char* what);
}
