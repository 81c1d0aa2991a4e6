#include "launcher/evidence/kernel_log.h"

#include "common/base/os/fd.h"
#include "common/base/strings.h"
#include "common/base/tr.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/klog.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace xpurun::launcher {

using model::EvidenceStatus;
using model::KernelEvent;
using model::KernelEventKind;

namespace {

// The kernel cuts records at 8 KiB (devkmsg in printk.c); a shorter buffer gives EINVAL.
constexpr size_t kLongestRecord = 8192;
constexpr size_t kMostRecords = 1'000'000;
constexpr size_t kMostEvents = 200;
constexpr size_t kLongestText = 500;
// on_log_clock() is exact but for the first seconds of the host.
constexpr uint64_t kDriftUs = 2'000'000;

// syslog(2), SYSLOG_ACTION_*.
constexpr int kReadAll = 3;
constexpr int kSizeBuffer = 10;

// The text between `before` and `after`; empty if either is missing.
std::string_view between(std::string_view text, std::string_view before, std::string_view after) {
  const size_t start = text.find(before);
  if (start == std::string_view::npos) {
    return {};
  }
  const std::string_view rest = text.substr(start + before.size());
  const size_t end = rest.find(after);
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

base::Pid pid_of(std::string_view text) {
  const auto pid = base::parse_int(text);
  return pid && *pid > 0 && *pid <= (1 << 22) ? static_cast<base::Pid>(*pid) : 0;
}

// mm/oom_kill.c: "Out of memory: Killed process 4711 (python3) total-vm:...", "Memory cgroup out of memory:
// ...".
bool read_oom(std::string_view text, KernelEvent& e) {
  const bool of_limit = text.starts_with("Memory cgroup out of memory: ");
  const bool oom = of_limit || text.starts_with("Out of memory: ");
  const std::string_view process = between(text, "Killed process ", " (");
  if (!oom || process.empty()) {
    return false;
  }
  e.kind = KernelEventKind::oom_kill;
  e.memory_limit = of_limit;
  e.pid = pid_of(process);
  e.comm = base::sanitize(between(text, " (", ")"));
  return true;
}

// "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python3, GPU has fallen off the bus." Older drivers omit
// pid and name or write '<unknown>'.
bool read_xid(std::string_view text, KernelEvent& e) {
  const std::string_view pci = between(text, "NVRM: Xid (PCI:", "): ");
  if (pci.empty()) {
    return false;
  }
  const std::string_view number = between(text, "): ", ",");
  const auto xid = base::parse_int(number);
  if (!xid || *xid < 0 || *xid > 100'000) {
    return false;
  }
  e.kind = KernelEventKind::xid;
  e.xid = static_cast<int>(*xid);
  e.pci = base::sanitize(pci);
  e.pid = pid_of(between(text, "pid=", ","));
  const std::string_view name = between(text, "name=", ",");
  e.comm = name.starts_with('<') ? std::string() : base::sanitize(name);
  return true;
}

// kernel/hung_task.c: "INFO: task python3:4711 blocked for more than 120 seconds."
bool read_hung_task(std::string_view text, KernelEvent& e) {
  const std::string_view task = between(text, "INFO: task ", " blocked for more than ");
  const size_t colon = task.rfind(':');
  if (task.empty() || colon == std::string_view::npos) {
    return false;
  }
  e.kind = KernelEventKind::hung_task;
  e.comm = base::sanitize(task.substr(0, colon));
  e.pid = pid_of(task.substr(colon + 1));
  return true;
}

// Whether pids of this process's namespace are those in the log (PROC_PID_INIT_INO in linux/proc_ns.h).
bool in_first_pid_namespace() {
  struct stat ns {};
  return ::stat("/proc/self/ns/pid", &ns) == 0 && ns.st_ino == 0xEFFFFFFCU;
}

class Reader {
 public:
  explicit Reader(uint64_t since_us) : since_us_(since_us) {}

  void line(uint64_t at_us, std::string_view text) {
    if (at_us + kDriftUs < since_us_) {
      return;
    }
    auto event = kernel_event(text);
    if (!event) {
      return;
    }
    event->at_s = at_us > since_us_ ? static_cast<double>(at_us - since_us_) / 1e6 : 0;
    if (log_.events.events.size() == kMostEvents) {
      log_.events.events.erase(log_.events.events.begin());
    }
    log_.events.events.push_back(std::move(*event));
  }
  KernelLog finish() {
    log_.events.host_pids = in_first_pid_namespace();
    return std::move(log_);
  }

 private:
  uint64_t since_us_;
  KernelLog log_;
};

KernelLog no_kernel_log(EvidenceStatus status, std::string reason) {
  return {.status = status, .reason = std::move(reason), .events = {}};
}

// "<6>[   12.345678] text" per line. Used where /dev/kmsg cannot be opened, as in most containers.
KernelLog read_syslog(uint64_t since_us, int device_errno) {
  const int size = ::klogctl(kSizeBuffer, nullptr, 0);
  if (size <= 0) {
    const bool denied = errno == EPERM || device_errno == EPERM || device_errno == EACCES;
    const std::string_view reason =
        denied ? base::later("the kernel's log may not be read (kernel.dmesg_restrict)")
               : base::later("there is no kernel log");
    return no_kernel_log(denied ? EvidenceStatus::denied : EvidenceStatus::absent, std::string(reason));
  }
  std::vector<char> buffer(static_cast<size_t>(size));
  const int n = ::klogctl(kReadAll, buffer.data(), size);
  if (n < 0) {
    return no_kernel_log(EvidenceStatus::denied,
                         fmt::format("the kernel's log may not be read: {}", std::strerror(errno)));
  }
  Reader reader(since_us);
  for (const std::string_view line : base::split({buffer.data(), static_cast<size_t>(n)}, '\n')) {
    const size_t close = line.find("] ");
    const std::string_view stamp = base::trim(between(line, "[", "]"));
    const size_t dot = stamp.find('.');
    if (close == std::string_view::npos || dot == std::string_view::npos) {
      continue;
    }
    const auto seconds = base::parse_int(stamp.substr(0, dot));
    const auto micros = base::parse_int(stamp.substr(dot + 1));
    if (seconds && micros && *seconds >= 0 && *micros >= 0) {
      reader.line(static_cast<uint64_t>(*seconds) * 1'000'000 + static_cast<uint64_t>(*micros),
                  line.substr(close + 2));
    }
  }
  return reader.finish();
}

}  // namespace

std::optional<KernelEvent> kernel_event(std::string_view text) {
  KernelEvent e;
  if (!read_oom(text, e) && !read_xid(text, e) && !read_hung_task(text, e)) {
    return std::nullopt;
  }
  e.text = base::sanitize(text.substr(0, kLongestText));
  return e;
}

uint64_t on_log_clock(uint64_t monotonic_us) {
  const auto now_us = [](clockid_t clock) {
    timespec t{};
    ::clock_gettime(clock, &t);
    return static_cast<int64_t>(t.tv_sec) * 1'000'000 + t.tv_nsec / 1000;
  };
  // The difference of these two clocks is all that NTP has slewed since boot.
  const int64_t slewed_us = now_us(CLOCK_MONOTONIC) - now_us(CLOCK_MONOTONIC_RAW);
  return static_cast<uint64_t>(std::max<int64_t>(0, static_cast<int64_t>(monotonic_us) - slewed_us));
}

KernelLog read_kernel_log(uint64_t since_us, const std::string& device) {
  const base::UniqueFd fd(::open(device.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!fd) {
    return read_syslog(since_us, errno);
  }
  Reader reader(since_us);
  std::vector<char> record(kLongestRecord);
  for (size_t i = 0; i < kMostRecords; ++i) {
    const ssize_t n = ::read(fd.get(), record.data(), record.size());
    if (n < 0 && (errno == EPIPE || errno == EINTR)) {
      continue;  // the record was overwritten before it was read
    }
    if (n <= 0) {
      break;  // EAGAIN: no more records
    }
    // "6,1234,5678901,-;text\n continuation", see Documentation/ABI/testing/dev-kmsg
    const std::string_view whole(record.data(), static_cast<size_t>(n));
    const size_t semicolon = whole.find(';');
    const auto prefix = base::split(whole.substr(0, semicolon), ',');
    if (semicolon == std::string_view::npos || prefix.size() < 3) {
      continue;
    }
    const std::string_view rest = whole.substr(semicolon + 1);
    const auto at = base::parse_int(prefix[2]);
    if (at && *at >= 0) {
      reader.line(static_cast<uint64_t>(*at), rest.substr(0, rest.find('\n')));
    }
  }
  return reader.finish();
}

}  // namespace xpurun::launcher
