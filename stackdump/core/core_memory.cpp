#include "stackdump/core/core_memory.h"

#include <algorithm>
#include <cstring>

namespace xpurun::stackdump {

namespace {

constexpr uint64_t kCorePage = 4096;

// Number of bytes from `addr` on that are in the core file, at most `limit`.
uint64_t dumped_from(const CoreSegment* segment, Addr addr, uint64_t limit) {
  if (segment == nullptr) {
    return 0;
  }
  const uint64_t at = addr - segment->range.lo;
  return at < segment->dumped ? std::min(segment->dumped - at, limit) : 0;
}

}  // namespace

bool DumpedMemory::read(Addr addr, std::span<std::byte> into) {
  while (!into.empty()) {
    const CoreSegment* segment = core_.find(addr);
    const uint64_t n = dumped_from(segment, addr, into.size());
    if (n == 0 || !core_.read(segment->offset + (addr - segment->range.lo), into.first(n))) {
      return false;
    }
    addr += n;
    into = into.subspan(n);
  }
  return true;
}

// `into` lies inside one page.
bool CoreMemory::read_file_page(Addr addr, std::span<std::byte> into) {
  const Mapping* mapping = modules_ == nullptr ? nullptr : modules_->maps().find(addr);
  if (mapping == nullptr || !mapping->is_file()) {
    return false;
  }
  const CoreSegment* segment = core_.find(addr);
  if (segment != nullptr && segment->writable && segment->wanted > 0) {
    return false;  // cut off: the process may have changed the page
  }
  const Module* module = modules_->find(addr);
  if (module == nullptr || module->image == nullptr) {
    return false;
  }
  const auto file = module->image->file();
  const uint64_t offset = mapping->offset + (addr - mapping->lo);
  if (offset - offset % kCorePage >= file.size()) {
    return false;
  }
  // The rest of a file's last page is zero in memory.
  const uint64_t n = offset < file.size() ? std::min<uint64_t>(file.size() - offset, into.size()) : 0;
  if (n > 0) {
    std::memcpy(into.data(), file.data() + offset, n);
  }
  std::fill(into.begin() + static_cast<ptrdiff_t>(n), into.end(), std::byte{0});
  return true;
}

bool CoreMemory::read(Addr addr, std::span<std::byte> into) {
  if (addr + into.size() < addr) {
    return false;
  }
  while (!into.empty()) {
    const CoreSegment* segment = core_.find(addr);
    uint64_t n = dumped_from(segment, addr, into.size());
    // Pages that the writer left out are mostly unchanged pages of files, which are read from the file
    // itself.
    if (n > 0) {
      if (!core_.read(segment->offset + (addr - segment->range.lo), into.first(n))) {
        return false;
      }
    } else {
      n = std::min<uint64_t>(kCorePage - addr % kCorePage, into.size());
      if (!read_file_page(addr, into.first(n))) {
        return false;
      }
    }
    addr += n;
    into = into.subspan(n);
  }
  return true;
}

}  // namespace xpurun::stackdump
