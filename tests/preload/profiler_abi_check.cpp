// Our declarations of NCCL's profiler structures, against sizes and offsets measured on NCCL's headers
// src/include/plugin/profiler/profiler_v1.h to profiler_v6.h (NVIDIA/nccl, June 2026; the same in the tags
// v2.23.4-1 to v2.30.7-1 that have them), x86-64. Compiling is the test.
#include "preload/nccl_profiler/abi.h"

using namespace xpurun::preload;

static_assert(offsetof(EventHead, parent) == 8 && offsetof(EventHead, rank) == 16 && sizeof(EventHead) == 24);

#define XPURUN_COLL(type, f, s, r, c, root_at, ch, a, p)                                                 \
  static_assert(offsetof(type, func) == f && offsetof(type, send) == s && offsetof(type, receive) == r); \
  static_assert(offsetof(type, count) == c && offsetof(type, root) == root_at);                          \
  static_assert(offsetof(type, channels) == ch && offsetof(type, algorithm) == a &&                      \
                offsetof(type, protocol) == p)

XPURUN_COLL(CollV1, 48, 56, 64, 72, 80, 104, 106, 107);
XPURUN_COLL(CollV2, 48, 56, 64, 72, 80, 104, 112, 120);
XPURUN_COLL(CollV3, 48, 56, 64, 72, 80, 96, 104, 112);
XPURUN_COLL(CollV5, 32, 40, 48, 56, 64, 80, 88, 96);  // 4, 5 and 6
static_assert(sizeof(CollV1) == 120 && sizeof(CollV2) == 128 && sizeof(CollV3) == 120);
static_assert(offsetof(CollV5, parent_group) == 104 && sizeof(CollV5) == 112);
static_assert(offsetof(P2pV5, buffer) == 32 && offsetof(P2pV5, parent_group) == 64);
static_assert(offsetof(KernelChV4, channel) == 24 && offsetof(KernelChV4, timer) == 32);
static_assert(offsetof(KernelChStop, timer) == 0);
static_assert(sizeof(ProfilerTableV1) == 48 && sizeof(ProfilerTableV4) == 48 &&
              sizeof(ProfilerTableV5) == 48);
static_assert(offsetof(ProfilerTableV5, start) == 16 && offsetof(ProfilerTableV5, stop) == 24);
static_assert(offsetof(ProfilerTableV5, record) == 32 && offsetof(ProfilerTableV5, finalize) == 40);
static_assert(kEventKernelCh == 64 && kEventCeBatch == 16384 && kStateKernelChStop == 22);

int main() {
  return 0;
}
