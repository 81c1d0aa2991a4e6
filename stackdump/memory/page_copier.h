// Copies pages of a process that stands still with two threads: the second one is there beforehand and sleeps
// in between; where it gets no processor in time, the first one does it all. All calls come from one thread,
// the owner's.
#pragma once

#include "stackdump/memory/live_memory.h"

#include <atomic>
#include <cstddef>
#include <span>
#include <thread>
#include <vector>

namespace xpurun::stackdump {

// Ranges of the target, one behind the other, into buffers, one behind the other and as long together. At
// most LiveMemory::kMaxRanges of each.
struct CopyJob {
  std::vector<AddrRange> wanted;
  std::vector<std::span<std::byte>> buffers;
  std::vector<AddrRange> missing;  // out: where a page could not be read, the rest of its range from there
};

// One job, by the calling thread.
void copy_pages(LiveMemory& live, CopyJob& job);

class PageCopier {
 public:
  explicit PageCopier(base::Pid pid);
  PageCopier(const PageCopier&) = delete;
  PageCopier& operator=(const PageCopier&) = delete;
  ~PageCopier();

  // Does all jobs, some of them through `live` in the calling thread; they are done when it returns.
  void copy(LiveMemory& live, std::span<CopyJob> jobs);

 private:
  void help();
  void take_jobs(LiveMemory& live, std::span<CopyJob> jobs);

  LiveMemory live_;
  std::atomic<const std::span<CopyJob>*> jobs_ = nullptr;  // being done
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> helping_ = false;  // the second thread may look at *jobs_
  std::atomic<uint32_t> calls_ = 0;    // wakes it
  std::atomic<bool> closing_ = false;
  std::thread helper_;
};

}  // namespace xpurun::stackdump
