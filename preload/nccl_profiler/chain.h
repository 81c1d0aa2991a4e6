// The profiler plugin that NCCL would have loaded if we did not stand in its place. It is opened at the first
// communicator and gets just the calls that it would have got: its own handles, its own events, its own
// return values.
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

// `value`: what NCCL_PROFILER_PLUGIN was; empty: not set, and NCCL would look for its default names.
// `version`: of the interface that NCCL uses with us. Once a process.
void open_chain(const char* value, int version);
bool has_chain();
wire::ChainState chain_state();
int chain_version();  // the newest that it has; 0: none that we can see

int chain_init(void** context, const Communicator& comm);
// Whether it would be told of an event of that type.
bool chain_wants(int type);
// `parent` is its own handle.
int chain_start(void* context, void** handle, void* descriptor, void* parent);
int chain_stop(void* handle);
int chain_record(void* handle, int state, void* arguments);
int chain_finalize(void* context);

}  // namespace xpurun::preload
