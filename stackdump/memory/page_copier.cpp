#include "stackdump/memory/page_copier.h"

#include "stackdump/memory/urgency.h"

#include <algorithm>

namespace xpurun::stackdump {

void copy_pages(LiveMemory& live, CopyJob& job) {
  std::span<AddrRange> wanted(job.wanted);
  std::span<std::span<std::byte>> buffers(job.buffers);
  const auto skip_bytes = [&buffers](size_t n) {
    while (n > 0 && !buffers.empty()) {
      const size_t part = std::min(n, buffers.front().size());
      buffers.front() = buffers.front().subspan(part);
      n -= part;
      if (buffers.front().empty()) {
        buffers = buffers.subspan(1);
      }
    }
  };
  while (!wanted.empty()) {
    size_t got = live.read_ranges(wanted, buffers);
    skip_bytes(got);
    while (!wanted.empty() && got >= wanted.front().size()) {
      got -= wanted.front().size();
      wanted = wanted.subspan(1);
    }
    // The first range that was not copied completely has an unreadable page. The rest of that range is given
    // up, and copying goes on with the next range.
    if (!wanted.empty()) {
      const AddrRange rest{wanted.front().lo + got, wanted.front().hi};
      skip_bytes(rest.size());
      job.missing.push_back(rest);
      wanted = wanted.subspan(1);
    }
  }
}

PageCopier::PageCopier(base::Pid pid) : live_(pid), helper_([this] { help(); }) {}

PageCopier::~PageCopier() {
  closing_ = true;
  ++calls_;
  calls_.notify_one();
  helper_.join();
}

void PageCopier::take_jobs(LiveMemory& live, std::span<CopyJob> jobs) {
  for (size_t i = next_++; i < jobs.size(); i = next_++) {
    copy_pages(live, jobs[i]);
  }
}

void PageCopier::copy(LiveMemory& live, std::span<CopyJob> jobs) {
  next_ = 0;
  jobs_ = &jobs;
  if (jobs.size() > 1) {
    ++calls_;
    calls_.notify_one();
  }
  take_jobs(live, jobs);
  // A helper that starts now finds no job. A helper that is already copying is waited for.
  jobs_ = nullptr;
  helping_.wait(true);
}

void PageCopier::help() {
  // The process stays stopped until both threads have finished.
  become_urgent();
  for (uint32_t seen = 0;;) {
    calls_.wait(seen);
    seen = calls_;
    if (closing_) {
      return;
    }
    helping_ = true;
    if (const std::span<CopyJob>* jobs = jobs_) {
      take_jobs(live_, *jobs);
    }
    helping_ = false;
    helping_.notify_one();
  }
}

}  // namespace xpurun::stackdump
