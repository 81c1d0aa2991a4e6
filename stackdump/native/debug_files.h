// Finds the separate file that holds the debug information of an image: by build id below .build-id/, or by
// the name in .gnu_debuglink. Only on this host's file systems: no server is ever asked.
#pragma once

#include "stackdump/native/elf_image.h"
#include "stackdump/native/module_files.h"

namespace xpurun::stackdump {

// `path` is the image's name in the process. A file is accepted only with the same build id or, without a
// build id, with the checksum in the link.
std::optional<ElfImage> find_debug_file(const ModuleFiles& files, const std::string& path,
                                        const ElfImage& image);

}  // namespace xpurun::stackdump
