// Whether the environment makes this process a rank, and which rank. Called from the constructor; reads and
// writes only the environment.
#pragma once

namespace xpurun::preload {

// True if any launcher's rank variable holds a number. RANK alone is enough, because a crash report needs no
// world size.
bool has_rank_environment();

// The rank as decimal text, if the launcher gives every process its own number; else nullptr.
const char* own_rank();

// Whether a rank has started this process: a program with the same variables, which has called mark_rank().
// Programs that a rank starts have its variables, too, but are of no interest, and there may be thousands.
bool is_started_by_rank();
// Tells the programs that this process starts that it is the rank (XPURUN_RANK_MARK).
void mark_rank();

}  // namespace xpurun::preload
