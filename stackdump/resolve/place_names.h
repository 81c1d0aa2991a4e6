// Names of addresses of a process that is not stopped, and may have ended.
#pragma once

#include "stackdump/memory/remote_memory.h"
#include "stackdump/native/module_files.h"
#include "stackdump/resolve/resolve_settings.h"

#include <string>
#include <utility>
#include <vector>

namespace xpurun::stackdump {

// "heat.c:88 (residual)" for each address; without lines "heat (residual)", without a name "heat+0x11a3".
// `mappings`: the lines of /proc/PID/maps that the addresses lie in.
std::vector<std::pair<Addr, std::string>> name_places(const ModuleFiles& files, const std::string& mappings,
                                                      const std::vector<Addr>& places,
                                                      const ResolveSettings& settings);

}  // namespace xpurun::stackdump
