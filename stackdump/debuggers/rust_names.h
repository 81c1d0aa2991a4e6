// Names of Rust's functions.
#pragma once

#include "common/model/stack_snapshot.h"

#include <vector>

namespace xpurun::stackdump {

// Names of Rust (v0), which libstdc++ does not demangle. Binutils does, where the host has it; a name stays
// as it is otherwise.
void demangle_rust(std::vector<model::ThreadStack>& threads);

}  // namespace xpurun::stackdump
