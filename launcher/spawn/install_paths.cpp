#include "launcher/spawn/install_paths.h"

#include "common/base/os/io.h"

#include <fmt/format.h>

#include <initializer_list>
#include <string_view>

namespace xpurun::launcher {

namespace {

base::Result<std::string> find_beside(std::string_view what,
                                      std::initializer_list<std::string_view> candidates) {
  XPURUN_TRY_ASSIGN(const std::string program, own_program());
  const std::string dir = program.substr(0, program.rfind('/'));
  for (std::string_view candidate : candidates) {
    std::string path = fmt::format("{}/{}", dir, candidate);
    if (base::file_exists(path)) {
      return path;
    }
  }
  return base::fail(base::Error{.what = fmt::format("cannot find {}", what),
                                .id = "E-INSTALL",
                                .cause = fmt::format("expected beside {}", program),
                                .hint = "install the whole tree or unpack the whole bundle again"});
}

}  // namespace

base::Result<std::string> own_program() {
  return base::read_link("/proc/self/exe");
}

base::Result<std::string> preload_library() {
  return find_beside("libxpurun_preload.so",
                     {"../lib/xpurun/libxpurun_preload.so", "../preload/libxpurun_preload.so"});
}

base::Result<std::string> stackdump_program() {
  return find_beside("xpurun-stackdump",
                     {"../libexec/xpurun/xpurun-stackdump", "../stackdump/xpurun-stackdump"});
}

base::Result<std::string> nodes_program() {
  return find_beside("xpurun-nodes",
                     {"../libexec/xpurun/xpurun-nodes", "../launcher/nodes/agent/xpurun-nodes"});
}

base::Result<std::string> selftest_job() {
  return find_beside("selftest/job.py", {"../lib/xpurun/selftest/job.py", "selftest/job.py"});
}

}  // namespace xpurun::launcher
