#include "stackdump/memory/live_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <sys/uio.h>

namespace xpurun::stackdump {

namespace {

iovec remote_iovec(Addr addr, size_t n) {
  return {reinterpret_cast<void*>(addr), n};  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

size_t LiveMemory::read_mem_file(Addr addr, std::span<std::byte> into) {
  if (!mem_file_) {
    mem_file_.reset(::open(fmt::format("/proc/{}/mem", pid_).c_str(), O_RDONLY | O_CLOEXEC));
  }
  const ssize_t n = ::pread(mem_file_.get(), into.data(), into.size(), static_cast<off_t>(addr));
  if (n < 0) {
    last_errno_ = errno;
    return 0;
  }
  return static_cast<size_t>(n);
}

size_t LiveMemory::read_some(Addr addr, std::span<std::byte> into) {
  if (use_mem_file_) {
    return read_mem_file(addr, into);
  }
  const iovec local{into.data(), into.size()};
  const iovec remote = remote_iovec(addr, into.size());
  const ssize_t n = ::process_vm_readv(pid_, &local, 1, &remote, 1, 0);
  if (n >= 0) {
    return static_cast<size_t>(n);
  }
  last_errno_ = errno;
  if (errno == ENOSYS || errno == EPERM) {
    // Seccomp profiles of containers forbid process_vm_readv but allow /proc/PID/mem. ESRCH and EFAULT are
    // real results and need no second attempt.
    const size_t got = read_mem_file(addr, into);
    use_mem_file_ = got > 0;
    return got;
  }
  return 0;
}

bool LiveMemory::read(Addr addr, std::span<std::byte> into) {
  // process_vm_readv may stop at a page boundary, so a short read is continued.
  while (!into.empty()) {
    const size_t n = read_some(addr, into);
    if (n == 0) {
      return false;
    }
    addr += n;
    into = into.subspan(n);
  }
  return true;
}

size_t LiveMemory::read_ranges(std::span<const AddrRange> ranges,
                               std::span<const std::span<std::byte>> buffers) {
  if (!use_mem_file_ && ranges.size() <= kMaxRanges && buffers.size() <= kMaxRanges) {
    std::array<iovec, kMaxRanges> local;
    std::array<iovec, kMaxRanges> remote;
    std::transform(buffers.begin(), buffers.end(), local.begin(), [](std::span<std::byte> b) {
      return iovec{b.data(), b.size()};
    });
    std::transform(ranges.begin(), ranges.end(), remote.begin(),
                   [](const AddrRange& r) { return remote_iovec(r.lo, r.size()); });
    const ssize_t n = ::process_vm_readv(pid_, local.data(), buffers.size(), remote.data(), ranges.size(), 0);
    if (n >= 0) {
      return static_cast<size_t>(n);
    }
    last_errno_ = errno;
    if (errno != ENOSYS && errno != EPERM) {
      return 0;
    }
  }
  // One range at a time, with the method that works for read_some().
  size_t done = 0;
  size_t buffer = 0;
  size_t at = 0;  // in buffers[buffer]
  for (const AddrRange& r : ranges) {
    for (Addr a = r.lo; a < r.hi;) {
      while (buffer < buffers.size() && at == buffers[buffer].size()) {
        ++buffer;
        at = 0;
      }
      if (buffer == buffers.size()) {
        return done;
      }
      const size_t wanted = std::min<size_t>(r.hi - a, buffers[buffer].size() - at);
      const size_t n = read_some(a, buffers[buffer].subspan(at, wanted));
      if (n == 0) {
        return done;
      }
      a += n;
      at += n;
      done += n;
    }
  }
  return done;
}

}  // namespace xpurun::stackdump
