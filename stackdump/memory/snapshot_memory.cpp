#include "stackdump/memory/snapshot_memory.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMissing = ~size_t{0};
constexpr size_t kFirstBlock = 16;     // pages
constexpr size_t kLargestBlock = 256;  // pages
constexpr size_t kJobPages = 64;       // pages copied in one piece by one of the two threads
static_assert(kJobPages <= LiveMemory::kMaxRanges);

Addr page_of(Addr a) {
  return a & ~Addr{SnapshotMemory::kPageSize - 1};
}

}  // namespace

void SnapshotMemory::Unmap::operator()(std::byte* block) const {
  ::munmap(block, size);
}

void SnapshotMemory::add_block(size_t pages) {
  const size_t size = pages * kPageSize;
  // MAP_POPULATE takes all page faults now, so that none occur during the copy.
  void* block =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (block == MAP_FAILED) {
    return;
  }
  auto* data = static_cast<std::byte*>(block);
  blocks_.emplace_back(data, Unmap{size});
  for (size_t i = 0; i < pages; ++i) {
    pool_.emplace_back(data + i * kPageSize);
  }
}

void SnapshotMemory::reserve(size_t pages) {
  pages = std::min(pages, max_pages_);
  if (pages > pool_.size()) {
    add_block(pages - pool_.size());
  }
  index_.reserve(pages);
}

std::byte* SnapshotMemory::new_page(Addr page_addr) {
  if (used_ == max_pages_) {
    return nullptr;
  }
  if (used_ == pool_.size()) {
    add_block(std::min(std::clamp(pool_.size(), kFirstBlock, kLargestBlock), max_pages_ - used_));
    if (used_ == pool_.size()) {
      return nullptr;
    }
  }
  index_[page_addr] = used_;
  return pool_[used_++].get();
}

const std::byte* SnapshotMemory::page(Addr page_addr) {
  if (last_data_ != nullptr && last_page_ == page_addr) {
    return last_data_;
  }
  const auto it = index_.find(page_addr);
  if (it != index_.end()) {
    if (it->second == kMissing) {
      return nullptr;
    }
    last_page_ = page_addr;
    last_data_ = pool_[it->second].get();
    return last_data_;
  }
  if (source_ == nullptr) {
    return nullptr;
  }
  std::byte* data = new_page(page_addr);
  if (data == nullptr) {
    return nullptr;
  }
  if (!source_->read(page_addr, {data, kPageSize})) {
    // The failure is remembered, so that the page is not requested again.
    index_[page_addr] = kMissing;
    --used_;
    return nullptr;
  }
  return data;
}

bool SnapshotMemory::read(Addr addr, std::span<std::byte> into) {
  if (addr + into.size() < addr) {
    return false;
  }
  while (!into.empty()) {
    const std::byte* data = page(page_of(addr));
    if (data == nullptr) {
      return false;
    }
    const size_t at = addr % kPageSize;
    const size_t n = std::min(kPageSize - at, into.size());
    std::memcpy(into.data(), data + at, n);
    addr += n;
    into = into.subspan(n);
  }
  return true;
}

void SnapshotMemory::prefetch(const std::vector<AddrRange>& ranges) {
  if (live_ == nullptr) {
    return;
  }
  // Pages not yet copied, and their destinations: adjacent pages of the target stay adjacent in the copy.
  std::vector<CopyJob> jobs;
  size_t job_pages = kJobPages;  // of the last job
  for (const AddrRange& r : ranges) {
    if (r.size() == 0 || r.size() > max_pages_ * kPageSize) {
      continue;
    }
    bool apart = true;  // not adjacent to the previous range, whose page may be missing
    for (Addr a = page_of(r.lo); a < r.hi; a += kPageSize) {
      if (index_.contains(a)) {
        continue;
      }
      std::byte* data = new_page(a);
      if (data == nullptr) {
        copy(jobs);
        return;
      }
      if (job_pages == kJobPages) {
        jobs.emplace_back();
        job_pages = 0;
      }
      ++job_pages;
      auto& [wanted, buffers, missing] = jobs.back();
      if (!apart && !wanted.empty() && wanted.back().hi == a) {
        wanted.back().hi += kPageSize;
      } else {
        wanted.push_back({a, a + kPageSize});
      }
      apart = false;
      if (!buffers.empty() && buffers.back().data() + buffers.back().size() == data) {
        buffers.back() = {buffers.back().data(), buffers.back().size() + kPageSize};
      } else {
        buffers.emplace_back(data, kPageSize);
      }
    }
  }
  copy(jobs);
}

void SnapshotMemory::copy(std::span<CopyJob> jobs) {
  if (copier_ != nullptr) {
    copier_->copy(*live_, jobs);
  } else {
    for (CopyJob& job : jobs) {
      copy_pages(*live_, job);
    }
  }
  for (const CopyJob& job : jobs) {
    for (const AddrRange& r : job.missing) {
      for (Addr a = page_of(r.lo); a < r.hi; a += kPageSize) {
        index_[a] = kMissing;
      }
    }
  }
}

std::vector<AddrRange> SnapshotMemory::ranges() const {
  std::vector<Addr> pages;
  for (const auto& [a, position] : index_) {
    if (position != kMissing) {
      pages.push_back(a);
    }
  }
  std::sort(pages.begin(), pages.end());
  std::vector<AddrRange> out;
  for (Addr a : pages) {
    if (!out.empty() && out.back().hi == a) {
      out.back().hi += kPageSize;
    } else {
      out.push_back({a, a + kPageSize});
    }
  }
  return out;
}

void SnapshotMemory::put(Addr page_addr, std::span<const std::byte> content) {
  if (page_addr % kPageSize != 0 || content.size() != kPageSize) {
    return;
  }
  const auto it = index_.find(page_addr);
  std::byte* data =
      it != index_.end() && it->second != kMissing ? pool_[it->second].get() : new_page(page_addr);
  if (data != nullptr) {
    std::memcpy(data, content.data(), kPageSize);
  }
}

void SnapshotMemory::for_each_page(const std::function<void(Addr, std::span<const std::byte>)>& visit) const {
  for (const auto& [a, position] : index_) {
    if (position != kMissing) {
      visit(a, {pool_[position].get(), kPageSize});
    }
  }
}

void SnapshotMemory::clear() {
  constexpr size_t kKeptPages = 64;
  index_.clear();
  last_data_ = nullptr;
  // A small pool is kept for the next snapshot; the memory of a large one is given back.
  used_ = 0;
  if (pool_.size() > kKeptPages) {
    pool_.clear();
    blocks_.clear();
  }
}

}  // namespace xpurun::stackdump
