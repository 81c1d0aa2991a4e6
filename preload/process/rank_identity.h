// Whether the environment makes this process a rank, and which rank. Called from the constructor; reads only
// the environment.
#pragma once

namespace xpurun::preload {

// True if any launcher's rank variable holds a number. RANK alone is enough, because a crash report needs no
// world size.
bool has_rank_environment();

// The rank as decimal text, if the launcher gives every process its own number; else nullptr.
const char* own_rank();

}  // namespace xpurun::preload
