// Copies pages of a stopped process with two threads. The second thread is created in advance and sleeps
// between jobs; if the second thread gets no processor in time, the first thread does all jobs. All calls
// come from the owner's thread.
#pragma once

#include "stackdump/memory/live_memory.h"

#include <atomic>
#include <cstddef>
#include <span>
#include <thread>
#include <vector>

namespace xpurun::stackdump {

// Consecutive ranges of the target into consecutive buffers of the same total length. At most
// LiveMemory::kMaxRanges of each.
struct CopyJob {
  std::vector<AddrRange> wanted;
  std::vector<std::span<std::byte>> buffers;
  std::vector<AddrRange> missing;  // out: ranges from the first unreadable page of each copied range on
};

// One job, by the calling thread.
void copy_pages(LiveMemory& live, CopyJob& job);

class PageCopier {
 public:
  explicit PageCopier(base::Pid pid);
  PageCopier(const PageCopier&) = delete;
  PageCopier& operator=(const PageCopier&) = delete;
  ~PageCopier();

  // Does all jobs, some of them through `live` in the calling thread. All jobs are done on return.
  void copy(LiveMemory& live, std::span<CopyJob> jobs);

 private:
  void help();
  void take_jobs(LiveMemory& live, std::span<CopyJob> jobs);

  LiveMemory live_;
  std::atomic<const std::span<CopyJob>*> jobs_ = nullptr;  // the jobs in progress
  std::atomic<size_t> next_ = 0;
  std::atomic<bool> helping_ = false;  // the second thread may use *jobs_
  std::atomic<uint32_t> calls_ = 0;    // wakes the second thread
  std::atomic<bool> closing_ = false;
  std::thread helper_;
};

}  // namespace xpurun::stackdump
