#include "stackdump/memory/snapshot_memory.h"

#include "stackdump/memory/live_memory.h"

#include <algorithm>
#include <cstring>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMissing = ~size_t{0};

Addr page_of(Addr a) {
  return a & ~Addr{SnapshotMemory::kPageSize - 1};
}

}  // namespace

std::byte* SnapshotMemory::new_page(Addr page_addr) {
  if (used_ == max_pages_) {
    return nullptr;
  }
  if (used_ == pool_.size()) {
    pool_.push_back(std::make_unique_for_overwrite<std::byte[]>(kPageSize));
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
  std::vector<AddrRange> wanted;
  for (const AddrRange& r : ranges) {
    if (r.size() == 0 || r.size() > max_pages_ * kPageSize) {
      continue;
    }
    for (Addr a = page_of(r.lo); a < r.hi; a += kPageSize) {
      if (!index_.contains(a)) {
        if (!wanted.empty() && wanted.back().hi == a) {
          wanted.back().hi += kPageSize;
        } else {
          wanted.push_back({a, a + kPageSize});
        }
      }
    }
  }
  const auto copies = live_->read_batch(wanted);
  for (size_t i = 0; i < wanted.size(); ++i) {
    for (size_t at = 0; at + kPageSize <= copies[i].size(); at += kPageSize) {
      const Addr a = wanted[i].lo + at;
      if (index_.contains(a)) {
        continue;
      }
      if (std::byte* data = new_page(a)) {
        std::memcpy(data, copies[i].data() + at, kPageSize);
      }
    }
  }
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
    pool_.resize(kKeptPages);
  }
}

}  // namespace xpurun::stackdump
