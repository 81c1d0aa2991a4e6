// Paths of xpurun's own parts, relative to the running program in an installed tree, a bundle or a build
// directory. The environment is not consulted.
#pragma once

#include "common/base/result.h"

#include <string>
#include <string_view>

namespace xpurun::launcher {

// The running xpurun program itself.
base::Result<std::string> own_program();
// The preload library for this host's glibc.
base::Result<std::string> preload_library();
// Its file's name for a version of glibc as gnu_get_libc_version(3) writes the version. The bundle has a
// second build for versions before 2.34, whose libc.so.6 has neither threads nor dlopen().
std::string_view preload_file_name(std::string_view glibc);
base::Result<std::string> stackdump_program();
// The helper that connects to the other nodes of the job.
base::Result<std::string> nodes_program();
// job.py of `xpurun selftest`; the files that it imports are beside it.
base::Result<std::string> selftest_job();

}  // namespace xpurun::launcher
