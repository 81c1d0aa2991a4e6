// Device times of collectives from NCCL's own profiler interface. NCCL loads this library as its plugin
// (NCCL_PROFILER_PLUGIN) and reports when each channel of a kernel began and ended, by the GPU's clock,
// without any work on the stream. Each call decides whether NCCL reports on it. docs/ARCHITECTURE.md
// describes the parts. Nothing here allocates; functions that every collective calls take no lock.
#pragma once

#include "common/wire/segment.h"
#include "preload/nccl_profiler/chain.h"
#include "preload/nccl_profiler/records.h"

#include <stdint.h>

namespace xpurun::preload {

// The current use of the interface in this process.
enum class ProfilerUse { none, describes, times };
ProfilerUse profiler_use();

// NCCL has opened the plugin through this interface version: decides what to ask NCCL for. Only the first
// call in a process counts.
void load_profiler(int version, const Communicator& first);

// Before the call: asks NCCL about the collective. kNoRecord: no room, or currently impossible. In either
// case, stop_asking_nccl() must follow after the call.
uint32_t expect_collective(const Expected& expected);
void stop_asking_nccl();
// The collectives that the calling thread has announced and not yet launched.
const OwnRecords& expected_here();
// After the launch (the call or the group has returned): algorithm and protocol as reported by NCCL. Frees
// the record. For ProfilerUse::describes.
wire::CollectiveHow take_description(uint32_t record);
// After the launch of the calling thread's collectives, or after its failure. Records without a report by
// NCCL are given up, unless another thread carries out the calls (`later`).
enum class Launched { now, later };
void expected_are_launched(Launched when);

// Around calls that NCCL carries out as sends and receives, and around groups with such calls: the event mask
// must not change inside (event_gate.h).
void point_to_point_begins();
void point_to_point_ends();

// A finished collective. Times are CLOCK_MONOTONIC, in ns.
struct ProfiledCollective {
  Expected expected;
  wire::CollectiveHow how;
  wire::Source source;
  uint64_t begin_ns;
  uint64_t duration_ns;
};

// The next finished collective, if any. Start with *at = 0. Poller only.
bool next_profiled(uint32_t* at, ProfiledCollective* out);
// Call in every round, and whenever the level changes. Poller only.
void keep_profiler_books();

// Call in a forked child.
void forget_profiler();

}  // namespace xpurun::preload
