// NCCL's own profiler interface as a source of collectives' device times: NCCL loads this library as its
// plugin (NCCL_PROFILER_PLUGIN) and tells when each channel of a kernel began and ended, by the GPU's clock,
// with no work on the stream. Which collectives it looks at is decided call by call. docs/ARCHITECTURE.md
// says how the pieces meet. Nothing here allocates; what is called for every collective takes no lock.
#pragma once

#include "common/wire/segment.h"

#include <stdint.h>

namespace xpurun::preload {

// What the interface can do in this process now.
enum class ProfilerUse { none, describes, times };
ProfilerUse profiler_use();

// A collective about to be called.
struct Expected {
  uint32_t op;
  uint32_t comm;
  uint64_t sequence;
  uint64_t call_ns;
  uint64_t work;
  void* stream;
  const void* send;
  const void* receive;
  int root;
};

inline constexpr uint32_t kNoRecord = 0xffffffff;

// Before the call: NCCL will be asked about it. kNoRecord: no room, or not now. ask_no_more() in any case
// when the call has returned.
uint32_t expect_collective(const Expected& expected);
void ask_no_more();
// When the collective has been launched (call or group returned): what NCCL has said about its way, and the
// record goes back. For ProfilerUse::describes.
wire::CollectiveHow take_description(uint32_t record);
// The calling thread's collectives have been launched, or not: those that NCCL has said nothing about yet are
// given up, unless they are carried out by another thread (`later`).
enum class Launched { now, later };
void expected_are_launched(Launched when);

// Around calls that NCCL makes point-to-point operations of, and around groups with such calls: what NCCL is
// asked for must not change between two of them, or its proxy waits for ever for a kernel that does not
// report.
void point_to_point_begins();
void point_to_point_ends();

// A collective that is over. Times are CLOCK_MONOTONIC.
struct ProfiledCollective {
  Expected expected;
  wire::CollectiveHow how;
  wire::Source source;
  uint64_t begin_ns;
  uint64_t duration_ns;
};

// The poller: the next one that is over, if there is one. Begin with *at = 0.
bool next_profiled(uint32_t* at, ProfiledCollective* out);
// The poller, at every look and whenever the level has changed.
void keep_profiler_books();

// In a forked child.
void forget_profiler();

}  // namespace xpurun::preload
