// Finds CUPTI in this process, or loads it. Any thread.
#pragma once

#include "preload/cupti/cupti_abi.h"
#include "preload/cupti/sampling_abi.h"

namespace xpurun::preload::cupti {

// False if there is no libcupti.so, or if it lacks a function. A library that was already loaded goes first:
// torch links one.
bool load_functions(Functions& out);
// The same for sampling hardware counters. Call after load_functions().
bool load_sampling_functions(SamplingFunctions& out);

}  // namespace xpurun::preload::cupti
