// NCCL's profiler interface, versions 1 to 6, as far as this library reads it. Own declarations, modelled on
// src/include/plugin/profiler/profiler_v1.h to profiler_v6.h and src/include/plugin/nccl_profiler.h of
// NVIDIA/nccl (before 2.28: src/include/nccl_profiler.h). tests/preload/profiler_abi_check.cpp compares them
// with numbers measured on those headers.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace xpurun::preload {

inline constexpr int kNewestProfiler = 6;

enum ProfilerEvent : int {
  kEventGroup = 1 << 0,
  kEventColl = 1 << 1,
  kEventP2p = 1 << 2,
  kEventProxyOp = 1 << 3,
  kEventProxyStep = 1 << 4,
  kEventProxyCtrl = 1 << 5,
  kEventKernelCh = 1 << 6,
  kEventNetPlugin = 1 << 7,
  kEventGroupApi = 1 << 8,
  kEventCollApi = 1 << 9,
  kEventP2pApi = 1 << 10,
  kEventKernelLaunch = 1 << 11,
  kEventCeColl = 1 << 12,
  kEventCeSync = 1 << 13,
  kEventCeBatch = 1 << 14,
};

// ncclProfilerEventState_t
inline constexpr int kStateKernelChStop = 22;

// The common head of the event descriptors of version 1 and version 5. Up to version 4 the type is one byte,
// and the bytes after it are meaningless.
struct EventHead {
  uint64_t type;
  void* parent;
  int rank;
  int unused;
};

struct CollV1 {
  EventHead head;
  const char* name;
  uint64_t comm_hash;
  uint64_t sequence;
  uint8_t func;
  const void* send;
  void* receive;
  size_t count;
  int root;
  uint8_t datatype;
  uint32_t op;
  size_t traffic;
  uint8_t channels;
  uint8_t warps;
  uint8_t algorithm;
  uint8_t protocol;
  int is_collnet;
  int is_nvls;
};

struct CollV2 {
  EventHead head;
  const char* name;
  uint64_t comm_hash;
  uint64_t sequence;
  const char* func;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  size_t traffic;
  uint8_t channels;
  uint8_t warps;
  const char* algorithm;
  const char* protocol;
};

struct CollV3 {
  EventHead head;
  const char* name;
  uint64_t comm_hash;
  uint64_t sequence;
  const char* func;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels;
  uint8_t warps;
  const char* algorithm;
  const char* protocol;
};

// Versions 4, 5 and 6; version 4 ends before parent_group.
struct CollV5 {
  EventHead head;
  uint64_t sequence;
  const char* func;
  const void* send;
  void* receive;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels;
  uint8_t warps;
  const char* algorithm;
  const char* protocol;
  void* parent_group;
};

struct P2pV5 {
  EventHead head;
  const char* func;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
  void* parent_group;
};

// Version 3 ends after the channel.
struct KernelChV4 {
  EventHead head;
  uint8_t channel;
  uint64_t timer;
};

// The argument of recordEventState for kStateKernelChStop, from version 4 on.
struct KernelChStop {
  uint64_t timer;
};

using NcclLogger = void(int level, unsigned long flags, const char* file, int line, const char* format, ...);

// The exported structure; `init` differs.
template <typename Init>
struct ProfilerTable {
  const char* name;
  Init* init;
  int (*start)(void* context, void** handle, void* descriptor);
  int (*stop)(void* handle);
  int (*record)(void* handle, int state, void* arguments);
  int (*finalize)(void* context);
};

using InitV1 = int(void** context, int* mask);
using InitV4 = int(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks, int rank,
                   NcclLogger* log);
using InitV5 = int(void** context, uint64_t hash, int* mask, const char* name, int nodes, int ranks, int rank,
                   NcclLogger* log);
using ProfilerTableV1 = ProfilerTable<InitV1>;  // up to version 3
using ProfilerTableV4 = ProfilerTable<InitV4>;
using ProfilerTableV5 = ProfilerTable<InitV5>;  // and version 6

}  // namespace xpurun::preload
