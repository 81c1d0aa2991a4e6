#include "launcher/spawn/install_paths.h"

#include "common/base/os/io.h"

#include <fmt/format.h>

#include <charconv>
#include <gnu/libc-version.h>
#include <initializer_list>

namespace xpurun::launcher {

namespace {

base::Result<std::string> find_beside(std::string_view what, std::initializer_list<std::string> candidates) {
  XPURUN_TRY_ASSIGN(const std::string program, own_program());
  const std::string dir = program.substr(0, program.rfind('/'));
  for (const std::string& candidate : candidates) {
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

std::string_view preload_file_name(std::string_view glibc) {
  constexpr std::string_view kMajor = "2.";
  constexpr int kMerged = 34;  // one libc.so.6 for everything
  int minor = kMerged;
  if (glibc.starts_with(kMajor)) {
    glibc.remove_prefix(kMajor.size());
    std::from_chars(glibc.data(), glibc.data() + glibc.size(), minor);
  }
  return minor < kMerged ? "libxpurun_preload.so.glibc-2.28" : "libxpurun_preload.so";
}

base::Result<std::string> preload_library() {
  const std::string_view name = preload_file_name(::gnu_get_libc_version());
  return find_beside(name, {fmt::format("../lib/xpurun/{}", name), fmt::format("../preload/{}", name)});
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
