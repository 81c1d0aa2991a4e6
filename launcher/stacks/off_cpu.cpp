#include "launcher/stacks/off_cpu.h"

#include "common/base/os/system_call.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace xpurun::launcher {

namespace {

// The kernel adds up the time on a CPU at its ticks, 1 to 10 ms apart.
constexpr base::MonoNs kTickNs = 10'000'000;

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Calls that wait for a disk or the server of a file system, whatever their descriptor is.
bool is_file_call(std::string_view call) {
  return is_one_of(
      call, {"fsync",    "fdatasync",  "sync",      "syncfs",    "sync_file_range", "msync",  "open",
             "openat",   "openat2",    "stat",      "lstat",     "newfstatat",      "statx",  "fstat",
             "getdents", "getdents64", "rename",    "renameat",  "renameat2",       "unlink", "unlinkat",
             "mkdir",    "mkdirat",    "ftruncate", "fallocate", "statfs",          "fstatfs"});
}

bool is_plain_file(std::string_view file) {
  return file.starts_with('/') && !file.starts_with("/dev/");
}

// Without the permission to read the system call.
std::string reason_by_function(const stackdump::KernelView& view) {
  if (has(view.wchan, "futex")) {
    return "futex";
  }
  if (has(view.wchan, "nanosleep")) {
    return "sleep";
  }
  return view.wchan.empty() ? (view.state == 'D' ? "io" : "wait") : fmt::format("wait: {}", view.wchan);
}

}  // namespace

std::string off_cpu_reason(const stackdump::KernelView& view) {
  if (view.state == 'T' || view.state == 't') {
    return "stopped";
  }
  if (view.state != 'S' && view.state != 'D') {
    return {};
  }
  if (view.syscall_text.empty()) {
    return reason_by_function(view);
  }
  if (view.syscall.empty()) {
    // In the kernel, but in no call: the access to a page brought the thread there.
    return view.state == 'D' || has(view.wchan, "fault") || has(view.wchan, "folio") ||
                   has(view.wchan, "fuse") || has(view.wchan, "request_wait")
               ? "page fault"
               : reason_by_function(view);
  }
  if (has(view.wchan, "fault")) {
    return "page fault";
  }
  if (is_one_of(view.syscall, {"futex", "futex_waitv", "futex_wait"})) {
    return "futex";
  }
  const base::CallKind kind = base::kind_of_name(view.syscall);
  if (kind == base::CallKind::sleep || kind == base::CallKind::restarted) {
    return "sleep";
  }
  if (view.state == 'D' || is_file_call(view.syscall) || is_plain_file(view.syscall_file)) {
    return fmt::format("io: {}", view.syscall);
  }
  return fmt::format("wait: {}", view.syscall);
}

void ReadySamples::skip(base::MonoNs now, uint64_t cpu_ns, uint64_t queue_ns) {
  changed_ = !known_ || cpu_ns != cpu_ns_ || queue_ns != queue_ns_ ? now : changed_;
  known_ = true;
  cpu_ns_ = cpu_ns;
  queue_ns_ = queue_ns;
}

bool ReadySamples::waits(base::MonoNs now, uint64_t cpu_ns, uint64_t queue_ns) {
  const bool known = known_;
  const auto ran = static_cast<double>(cpu_ns > cpu_ns_ ? cpu_ns - cpu_ns_ : 0);
  const auto waited = static_cast<double>(queue_ns > queue_ns_ ? queue_ns - queue_ns_ : 0);
  skip(now, cpu_ns, queue_ns);
  if (!known) {
    return false;
  }
  if (ran + waited <= 0) {
    return now - changed_ >= kTickNs;  // a wait is counted when it ends
  }
  carry_ += waited / (ran + waited);
  const bool waits = carry_ >= 1;
  carry_ -= waits ? 1 : 0;
  return waits;
}

std::string OffCpu::reason(base::Tid tid, base::MonoNs now) {
  if (tid <= 0) {
    return "unknown";
  }
  const stackdump::KernelView view = stackdump::read_kernel_view(pid_, tid, proc_);
  const std::string line = proc_.text(pid_, fmt::format("task/{}/schedstat", tid));
  const auto fields = base::split(line, ' ');
  const auto number = [&](size_t i) {
    return i < fields.size()
               ? static_cast<uint64_t>(std::max<int64_t>(base::parse_int(fields[i]).value_or(0), 0))
               : 0;
  };
  ReadySamples& thread = threads_[tid];
  if (std::string why = off_cpu_reason(view); !why.empty()) {
    thread.skip(now, number(0), number(1));
    return why;
  }
  if (!thread.waits(now, number(0), number(1))) {
    return {};
  }
  const int64_t throttled = throttled_.sample(now);
  const bool limited = throttled > throttled_ns_;
  throttled_ns_ = std::max(throttled, throttled_ns_);
  return limited ? "throttled" : "run queue";
}

}  // namespace xpurun::launcher
