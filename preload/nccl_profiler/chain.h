// The user's profiler plugin, which NCCL would load if this library were absent. NCCL loads one plugin per
// process. The plugin is opened at the first communicator and gets exactly the calls that NCCL would make,
// with its own handles, events and return values.
#pragma once

#include "common/wire/segment.h"
#include "preload/nccl_profiler/abi.h"

#include <stdint.h>

namespace xpurun::preload {

struct Communicator {
  uint64_t hash;
  const char* name;
  int nodes;
  int ranks;
  int rank;
  NcclLogger* log;
};

// `value`: the user's NCCL_PROFILER_PLUGIN; empty: not set, so NCCL would look for its default names.
// `version`: of the interface that NCCL uses with this library. Call once per process.
void open_chain(const char* value, int version);
bool has_chain();
wire::ChainState chain_state();
int chain_version();  // the newest interface that the plugin exports; 0: none known

int chain_init(void** context, const Communicator& comm);
// Whether NCCL would send the plugin an event of that type.
bool chain_wants(int type);
// `parent` is the plugin's own handle.
int chain_start(void* context, void** handle, void* descriptor, void* parent);
int chain_stop(void* handle);
int chain_record(void* handle, int state, void* arguments);
int chain_finalize(void* context);

}  // namespace xpurun::preload
