// The functions of the C library that give memory and take it back, as exported names. Each is one jump
// through a slot, which holds
//   first      until the first call: looks up the next function of that name, which may be another
//              allocator's;
//   sampling   in a rank of which memory is sampled;
//   that next function otherwise.
#pragma once

namespace xpurun::preload {

// The slots hold the next functions from now on. From the constructor, before any thread is there.
void find_heap_functions();
// The slots hold the functions that sample. start_heap_sampling() comes before.
void sample_heap_functions();
// The opposite, in a forked child.
void stop_heap_functions();

}  // namespace xpurun::preload
