// Device times of collectives from NCCL's own profiler interface. NCCL loads this library as its plugin
// (NCCL_PROFILER_PLUGIN) and reports when each channel of a kernel began and ended, by the GPU's clock,
// without any work on the stream. Which collectives NCCL reports on is decided call by call.
// docs/ARCHITECTURE.md describes the parts. Nothing here allocates; functions that every collective calls
// take no lock.
#pragma once

#include "common/wire/segment.h"
#include "preload/nccl_profiler/chain.h"
#include "preload/nccl_profiler/records.h"

#include <stdint.h>

namespace xpurun::preload {

// What the interface is good for in this process at this moment.
enum class ProfilerUse { none, describes, times };
ProfilerUse profiler_use();

// NCCL has opened the plugin by the interface of that version: decides what NCCL will be asked for. Only the
// first call in a process counts.
void load_profiler(int version, const Communicator& first);

// Before the call: asks NCCL about the collective. kNoRecord: no room, or not possible now.
// stop_asking_nccl() must follow in any case when the call has returned.
uint32_t expect_collective(const Expected& expected);
void stop_asking_nccl();
// The collectives that the calling thread has expected and not launched yet.
const OwnRecords& expected_here();
// After the launch (the call or the group has returned): algorithm and protocol as NCCL reported them. Frees
// the record. For ProfilerUse::describes.
wire::CollectiveHow take_description(uint32_t record);
// After the launch of the calling thread's collectives, or its failure. Records that NCCL has not reported on
// are given up, unless another thread carries the calls out (`later`).
enum class Launched { now, later };
void expected_are_launched(Launched when);

// Around calls that NCCL carries out as sends and receives, and around groups with such calls: the event mask
// must not change between two of them (event_gate.h).
void point_to_point_begins();
void point_to_point_ends();

// A collective that has finished. Times are CLOCK_MONOTONIC.
struct ProfiledCollective {
  Expected expected;
  wire::CollectiveHow how;
  wire::Source source;
  uint64_t begin_ns;
  uint64_t duration_ns;
};

// The poller: the next collective that has finished, if there is one. Begin with *at = 0.
bool next_profiled(uint32_t* at, ProfiledCollective* out);
// The poller, in every round and whenever the level changes.
void keep_profiler_books();

// In a forked child.
void forget_profiler();

}  // namespace xpurun::preload
