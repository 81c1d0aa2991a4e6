// What a shared library is linked with and whether it brings a function itself, read from its file alone.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

// DT_NEEDED of an x86-64 ELF file; empty if it cannot be read.
std::vector<std::string> needed_libraries(const std::string& path);

}  // namespace xpurun::launcher
