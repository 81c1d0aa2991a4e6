// Kernel, container, limits, debuggers.
#include "commands/child.h"
#include "commands/doctor/checks.h"
#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/os/pidfd.h"

#include <fmt/format.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

using base::tr;

constexpr rlim_t kFewFiles = 4096;
constexpr double kDebuggerLimitS = 20;
// Inode of the first PID namespace, PROC_PID_INIT_INO of the kernel.
constexpr ino_t kInitialPidNamespace = 0xEFFFFFFC;

Finding kernel() {
  utsname name{};
  ::uname(&name);
  const auto self = Pidfd::open(::getpid());
  if (!self) {
    return {.check = "kernel",
            .grade = Grade::fail,
            .text = tr("Linux {} has no pidfd", name.release),
            .lost = tr("deaths are noticed late, and their order is lost"),
            .remedy = tr("use Linux 5.3 or later, or a sandbox that has pidfd_open")};
  }
  return {.check = "kernel", .text = tr("Linux {} {}", name.release, name.machine)};
}

std::string container_kind() {
  if (base::file_exists("/.dockerenv")) {
    return "Docker";
  }
  if (base::file_exists("/run/.containerenv")) {
    return "Podman";
  }
  const auto groups = base::read_file("/proc/1/cgroup", size_t{64} << 10);
  for (const auto& [word, kind] : {std::pair("kubepods", "Kubernetes"), std::pair("docker", "Docker"),
                                   std::pair("containerd", "containerd"), std::pair("lxc", "LXC")}) {
    if (groups && groups->find(word) != std::string::npos) {
      return kind;
    }
  }
  return {};
}

Finding container() {
  struct stat pid_namespace {};
  const bool own_pids =
      ::stat("/proc/self/ns/pid", &pid_namespace) == 0 && pid_namespace.st_ino != kInitialPidNamespace;
  const std::string kind = container_kind();
  if (kind.empty() && !own_pids) {
    return {.check = "container", .text = tr("none")};
  }
  return {.check = "container",
          .text = kind.empty() ? tr("a separate PID namespace")
                  : own_pids   ? tr("{}, with a separate PID namespace", kind)
                               : kind};
}

std::string limit_text(rlim_t limit) {
  return limit == RLIM_INFINITY ? tr("unlimited") : fmt::format("{}", limit);
}

Finding open_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  Finding out{.check = "nofile", .text = tr("{} open files", limit_text(limit.rlim_cur))};
  if (limit.rlim_cur < kFewFiles) {
    out.grade = Grade::warn;
    out.lost = tr("jobs with many ranks and dataloader workers run out of descriptors");
    out.remedy = limit.rlim_max == RLIM_INFINITY ? std::string("ulimit -n unlimited")
                                                 : fmt::format("ulimit -n {}", limit.rlim_max);
  }
  return out;
}

Finding locked_memory() {
  rlimit limit{};
  ::getrlimit(RLIMIT_MEMLOCK, &limit);
  const bool unlimited = limit.rlim_cur == RLIM_INFINITY;
  const std::string amount = unlimited ? tr("unlimited") : base::human_size(limit.rlim_cur);
  Finding out{.check = "memlock", .text = tr("{} of locked memory", amount)};
  if (!unlimited && base::file_exists("/sys/class/infiniband")) {
    out.grade = Grade::warn;
    out.text += tr(", and there is InfiniBand");
    out.lost = tr("NCCL cannot register memory and falls back to TCP, or fails");
    out.remedy = tr("ulimit -l unlimited; in a container: --ulimit memlock=-1");
  }
  return out;
}

Finding core_files() {
  rlimit limit{};
  ::getrlimit(RLIMIT_CORE, &limit);
  const auto pattern = base::read_file("/proc/sys/kernel/core_pattern", 4096);
  const std::string where = pattern ? base::sanitize(base::trim(*pattern)) : "?";
  if (limit.rlim_cur == 0 && !where.starts_with("|")) {
    return {.check = "core",
            .text = tr("no core files (ulimit -c 0); the stacks of a crash are still taken")};
  }
  return {.check = "core", .text = tr("core files go to {}", where)};
}

Finding debugger(const std::string& name, Grade absent, std::string lost) {
  const std::string path = find_program(name);
  if (path.empty()) {
    return {.check = name,
            .grade = absent,
            .text = absent == Grade::none ? tr("not found, and not needed without an NVIDIA GPU")
                                          : tr("not found"),
            .lost = absent == Grade::none ? "" : std::move(lost),
            .remedy = absent == Grade::none ? std::string() : tr("install {}", name)};
  }
  const ProgramOutput answer = run_program({path, "--version"}, kDebuggerLimitS);
  const std::string version = base::sanitize(answer.output.substr(0, answer.output.find('\n')));
  if (answer.status != 0) {
    return {.check = name,
            .grade = Grade::warn,
            .text = tr("{} --version fails", path),
            .lost = std::move(lost),
            .remedy = fmt::format("{} --version", path)};
  }
  return {.check = name, .text = tr("{} at {}", version, path)};
}

}  // namespace

Findings check_host(const DoctorContext& /*context*/) {
  const bool gpu = base::file_exists("/proc/driver/nvidia/version");
  return {
      kernel(),
      container(),
      open_files(),
      locked_memory(),
      core_files(),
      debugger("gdb", Grade::warn, tr("the fallback when a process cannot be unwound by xpurun itself")),
      debugger("cuda-gdb", gpu ? Grade::warn : Grade::none, tr("which kernel a GPU that hangs is running"))};
}

}  // namespace xpurun::launcher
