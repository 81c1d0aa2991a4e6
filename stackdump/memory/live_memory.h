// LiveMemory: process_vm_readv on a process of this host, or /proc/PID/mem if the call is missing or
// forbidden. Neither method stops the process or waits for the process. Owns at most one file descriptor.
#pragma once

#include "common/base/ids.h"
#include "common/base/os/fd.h"
#include "stackdump/memory/remote_memory.h"

namespace xpurun::stackdump {

class LiveMemory : public RemoteMemory {
 public:
  explicit LiveMemory(base::Pid pid) : pid_(pid) {}

  bool read(Addr addr, std::span<std::byte> into) override;

  // Reads consecutive ranges into consecutive buffers of the same total length, with one system call for at
  // most kMaxRanges ranges. Returns the number of bytes read; reading ends before the first missing page.
  static constexpr size_t kMaxRanges = 1024;  // IOV_MAX
  size_t read_ranges(std::span<const AddrRange> ranges, std::span<const std::span<std::byte>> buffers);

  // errno of the last failed read: ESRCH if the process is gone, EPERM without permission.
  int last_errno() const { return last_errno_; }

 private:
  size_t read_some(Addr addr, std::span<std::byte> into);
  size_t read_mem_file(Addr addr, std::span<std::byte> into);

  base::Pid pid_;
  base::UniqueFd mem_file_;
  bool use_mem_file_ = false;
  int last_errno_ = 0;
};

}  // namespace xpurun::stackdump
