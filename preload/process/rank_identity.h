// Whether this process is a rank by its environment, and which one. Called from the constructor; reads only
// the environment.
#pragma once

namespace xpurun::preload {

// True if any launcher's rank variable is a number. RANK alone is enough: a crash report needs no world size.
bool has_rank_environment();

// The rank as decimal text, from launchers that give every process a number of its own; else nullptr.
const char* own_rank();

}  // namespace xpurun::preload
