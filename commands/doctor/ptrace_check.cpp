// Stops a child process and reads its memory, as a dump does, and names the kernel setting that forbids it.
#include "commands/child.h"
#include "commands/doctor/checks.h"
#include "common/base/clock.h"
#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "stackdump/ptrace/access.h"
#include "stackdump/ptrace/traced_process.h"

#include <fmt/format.h>

#include <cerrno>
#include <sys/uio.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

using base::tr;

constexpr double kStopLimitS = 2;
constexpr int64_t kCapSysPtrace = 19;

constexpr std::string_view kNoStacks = base::later("no stacks: hangs are found, but not explained");
constexpr std::string_view kNoPositions = base::later("hangs are found late and without their position");

std::string status_line(std::string_view key) {
  const auto text = base::read_file("/proc/self/status");
  for (std::string_view line : base::split(text ? std::string_view(*text) : std::string_view(), '\n')) {
    if (line.starts_with(key)) {
      return std::string(base::trim(line.substr(key.size())));
    }
  }
  return {};
}

bool may_trace_everybody() {
  const auto caps = base::parse_hex(status_line("CapEff:"));
  return caps && ((*caps >> kCapSysPtrace) & 1) != 0;
}

Finding refused(std::string check, const base::Error& e, std::string_view lost) {
  std::string text = base::to_line(e);
  if (!e.cause.empty()) {
    text = tr("{}: {}", text, e.cause);
  }
  return {.check = std::move(check),
          .grade = Grade::fail,
          .text = std::move(text),
          .lost = tr(lost),
          .remedy = e.hint.empty() ? std::string("docker run --cap-add=SYS_PTRACE") : e.hint};
}

Finding try_to_stop(const CommandChild& child) {
  // The destructor of TracedProcess resumes the child.
  const base::MonoNs begin = base::mono_ns();
  auto traced = stackdump::TracedProcess::stop(child.pid(), begin + base::s_to_ns(kStopLimitS));
  if (!traced) {
    return refused("ptrace", traced.error(), kNoStacks);
  }
  const bool stopped = !traced->threads().empty() && traced->registers(traced->threads().front()).has_value();
  traced->resume();
  const double ms = base::ns_to_s(base::mono_ns() - begin) * 1e3;
  if (!stopped) {
    return {.check = "ptrace",
            .grade = Grade::fail,
            .text = tr("attached to a child, but it did not stop, or its registers could not be read"),
            .lost = tr(kNoStacks),
            .remedy = tr("look for a sandbox that emulates ptrace (gVisor, qemu-user)")};
  }
  return {.check = "ptrace", .text = tr("stopped a child, read its registers and resumed it: {:.1f} ms", ms)};
}

Finding try_to_read(const CommandChild& child) {
  static const int64_t kKnown = 0x7870757275216f6b;
  int64_t found = 0;
  const iovec here{.iov_base = &found, .iov_len = sizeof found};
  // In a forked child the constant has the same address.
  const iovec there{.iov_base = const_cast<int64_t*>(&kKnown), .iov_len = sizeof kKnown};
  if (::process_vm_readv(child.pid(), &here, 1, &there, 1, 0) != static_cast<ssize_t>(sizeof found)) {
    base::Error e = stackdump::explain_refusal(child.pid(), errno);
    e.what = tr("cannot read the memory of a child");
    return refused("memory", e, kNoPositions);
  }
  return {.check = "memory",
          .grade = found == kKnown ? Grade::ok : Grade::fail,
          .text = found == kKnown ? tr("read the memory of a running child (process_vm_readv)")
                                  : tr("process_vm_readv returned wrong bytes"),
          .lost = found == kKnown ? std::string() : tr(kNoPositions),
          .remedy = found == kKnown
                        ? std::string()
                        : tr("look for a sandbox that emulates process_vm_readv (gVisor, qemu-user)")};
}

Finding yama() {
  const auto text = base::read_file("/proc/sys/kernel/yama/ptrace_scope", 64);
  const int64_t scope = text ? base::parse_int(base::trim(*text)).value_or(0) : 0;
  if (!text) {
    return {.check = "yama",
            .text = tr("this kernel has no Yama: any process of the same user may be traced")};
  }
  if (scope == 0) {
    return {.check = "yama", .text = tr("ptrace_scope 0: any process of the same user may be traced")};
  }
  if (scope < 3 && may_trace_everybody()) {
    return {.check = "yama", .text = tr("ptrace_scope {}, and this process may trace everything", scope)};
  }
  if (scope == 1) {
    return {.check = "yama",
            .text = tr(
                "ptrace_scope 1: processes that xpurun starts may be traced; `xpurun stacks --pid` of others "
                "needs root")};
  }
  return {.check = "yama",
          .grade = Grade::fail,
          .text = tr("ptrace_scope {}: {}", scope,
                     scope == 2 ? tr("only root may trace") : tr("nobody may trace until the next boot")),
          .lost = tr(kNoStacks),
          .remedy = scope == 2 ? std::string("sudo sysctl kernel.yama.ptrace_scope=1")
                               : tr("have the administrator boot with kernel.yama.ptrace_scope=1")};
}

Finding seccomp(Grade of_the_try) {
  const std::string mode = status_line("Seccomp:");
  if (mode.empty() || mode == "0") {
    return {.check = "seccomp", .text = tr("no seccomp filter on this process")};
  }
  if (of_the_try == Grade::ok) {
    return {.check = "seccomp",
            .text = tr("a seccomp filter is active and allows ptrace and process_vm_readv")};
  }
  return {.check = "seccomp",
          .grade = Grade::fail,
          .text = tr("a seccomp filter is active, and the checks above failed under it"),
          .lost = tr(kNoStacks),
          .remedy = tr("docker run --cap-add=SYS_PTRACE, or a seccomp profile that allows ptrace and "
                       "process_vm_readv")};
}

}  // namespace

Findings check_ptrace(const DoctorContext& /*context*/) {
  auto child = CommandChild::fork([] {
    const char ready = '\n';
    (void)!::write(STDOUT_FILENO, &ready, 1);
    ::alarm(60);
    for (;;) {
      ::pause();
    }
    return 0;
  });
  if (!child || !child->line(kStopLimitS)) {
    return {{.check = "ptrace",
             .grade = Grade::fail,
             .text = tr("cannot start a child process for the test"),
             .lost = tr(kNoStacks),
             .remedy = tr("raise the limit of processes: ulimit -u, or the container's --pids-limit")}};
  }
  Findings out{try_to_stop(*child), try_to_read(*child)};
  const Grade worst = std::max(out[0].grade, out[1].grade);
  out.push_back(yama());
  out.push_back(seccomp(worst));
  return out;
}

}  // namespace xpurun::launcher
