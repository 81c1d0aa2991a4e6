// A small model of NCCL as the caller of a profiler plugin: loads NCCL_PROFILER_PLUGIN at the first
// communicator, newest table first, and reports collectives, and from a proxy thread the channels of their
// kernels. Configured by the environment:
//   FAKE_NCCL_VERSION    result of ncclGetVersion (default 22809)
//   FAKE_NCCL_PROFILER   newest supported interface (default 5)
//   FAKE_NCCL_CHANNELS   channels of every kernel (default 3)
//   FAKE_NCCL_ANNOUNCES  1: one channel more is announced
//   FAKE_NCCL_BEHAVIOUR  never-stops, stop-first, late-start, no-timer, silent, later, replay
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
// Returns the return value for the call.
int fake_profiler_task(const struct FakeTask* task);
void fake_profiler_group_start();
void fake_profiler_group_end();
int fake_nccl_version();
// Whether all calls so far were reported to the plugin.
int fake_profiler_told_all();
// Largest delay of a report of a channel's begin or end, in ns.
int fake_profiler_late_us();
// fake_gpu.cpp
void fake_gpu_interval(void* stream, uint64_t* begin, uint64_t* end);
int fake_is_capturing(void* stream);
void fake_gpu_lock();
void fake_gpu_unlock();
void fake_violation(const char* what);
}
