#include "stackdump/memory/snapshot_memory.h"

#include "stackdump/memory/live_memory.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMissing = ~size_t{0};
constexpr size_t kFirstBlock = 16;     // pages
constexpr size_t kLargestBlock = 256;  // pages

Addr page_of(Addr a) {
  return a & ~Addr{SnapshotMemory::kPageSize - 1};
}

}  // namespace

void SnapshotMemory::Unmap::operator()(std::byte* block) const {
  ::munmap(block, size);
}

void SnapshotMemory::add_block(size_t pages) {
  const size_t size = pages * kPageSize;
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
  const auto it = index_.find(page_addr);
  if (it != index_.end()) {
    return it->second == kMissing ? nullptr : pool_[it->second].get();
  }
  if (live_ == nullptr) {
    return nullptr;
  }
  std::byte* data = new_page(page_addr);
  if (data == nullptr) {
    return nullptr;
  }
  if (!live_->read(page_addr, {data, kPageSize})) {
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
  // Pages that are not here yet, and where they go: neighbours in the target are neighbours here.
  std::vector<AddrRange> wanted;
  std::vector<std::span<std::byte>> buffers;
  const auto flush = [&] {
    fetch(wanted, buffers);
    wanted.clear();
    buffers.clear();
  };
  for (const AddrRange& r : ranges) {
    if (r.size() == 0 || r.size() > max_pages_ * kPageSize) {
      continue;
    }
    const size_t others = wanted.size();  // those of other ranges stay apart: one may be missing
    for (Addr a = page_of(r.lo); a < r.hi; a += kPageSize) {
      if (index_.contains(a)) {
        continue;
      }
      std::byte* data = new_page(a);
      if (data == nullptr) {
        flush();
        return;
      }
      if (wanted.size() > others && wanted.back().hi == a) {
        wanted.back().hi += kPageSize;
      } else {
        wanted.push_back({a, a + kPageSize});
      }
      if (!buffers.empty() && buffers.back().data() + buffers.back().size() == data) {
        buffers.back() = {buffers.back().data(), buffers.back().size() + kPageSize};
      } else {
        buffers.emplace_back(data, kPageSize);
      }
    }
    if (wanted.size() >= LiveMemory::kMaxRanges - 1) {
      flush();
    }
  }
  flush();
}

// The ranges into the buffers. Where a page is missing, the rest of its range is given up.
void SnapshotMemory::fetch(std::span<AddrRange> wanted, std::span<std::span<std::byte>> buffers) {
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
    size_t got = live_->read_ranges(wanted, buffers);
    skip_bytes(got);
    while (!wanted.empty() && got >= wanted.front().size()) {
      got -= wanted.front().size();
      wanted = wanted.subspan(1);
    }
    if (!wanted.empty()) {
      const Addr missing = page_of(wanted.front().lo + got);
      skip_bytes(wanted.front().hi - (wanted.front().lo + got));
      for (Addr a = missing; a < wanted.front().hi; a += kPageSize) {
        index_[a] = kMissing;
      }
      wanted = wanted.subspan(1);
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
  used_ = 0;
  if (pool_.size() > kKeptPages) {
    pool_.clear();
    blocks_.clear();
  }
}

}  // namespace xpurun::stackdump
