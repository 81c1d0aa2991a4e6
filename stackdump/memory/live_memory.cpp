#include "stackdump/memory/live_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/uio.h>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxVectors = 1024;  // IOV_MAX

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
    // Seccomp profiles of containers forbid the call but allow the file. ESRCH and EFAULT are answers.
    const size_t got = read_mem_file(addr, into);
    use_mem_file_ = got > 0;
    return got;
  }
  return 0;
}

bool LiveMemory::read(Addr addr, std::span<std::byte> into) {
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

std::vector<std::vector<std::byte>> LiveMemory::read_batch(const std::vector<AddrRange>& ranges) {
  std::vector<std::vector<std::byte>> out(ranges.size());
  for (size_t i = 0; i < ranges.size(); ++i) {
    out[i].resize(ranges[i].size());
  }
  size_t next = 0;
  std::vector<iovec> local;
  std::vector<iovec> remote;
  while (next < ranges.size()) {
    local.clear();
    remote.clear();
    const size_t end = std::min(ranges.size(), next + kMaxVectors);
    for (size_t i = next; i < end; ++i) {
      local.push_back({out[i].data(), out[i].size()});
      remote.push_back(remote_iovec(ranges[i].lo, out[i].size()));
    }
    ssize_t n = -1;
    if (!use_mem_file_) {
      n = ::process_vm_readv(pid_, local.data(), local.size(), remote.data(), remote.size(), 0);
    }
    size_t got = n < 0 ? 0 : static_cast<size_t>(n);
    while (next < end && got >= out[next].size()) {
      got -= out[next].size();
      ++next;
    }
    if (next < end) {
      // This one stops at a missing page (or the whole call failed): read it alone, then go on behind it.
      size_t have = 0;
      while (have < out[next].size()) {
        const size_t part = read_some(ranges[next].lo + have, std::span(out[next]).subspan(have));
        if (part == 0) {
          break;
        }
        have += part;
      }
      out[next].resize(have);
      ++next;
    }
  }
  return out;
}

}  // namespace xpurun::stackdump
