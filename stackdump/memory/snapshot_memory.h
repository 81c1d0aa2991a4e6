// SnapshotMemory: pages and stack ranges of a process as they were while it was stopped. Until freeze() a
// missing page is fetched from the live process and kept, so walking a structure copies it; afterwards only
// copied pages can be read. The source may also be a core file, whose pages are fetched in the same way.
// Bounded: never holds more than `max_pages` fetched pages.
#pragma once

#include "stackdump/memory/page_copier.h"
#include "stackdump/memory/remote_memory.h"

#include <functional>
#include <memory>
#include <unordered_map>

namespace xpurun::stackdump {

class SnapshotMemory : public RemoteMemory {
 public:
  static constexpr size_t kPageSize = 4096;
  static constexpr size_t kMaxPages = 32768;  // 128 MiB

  // `live` must outlive this object, or freeze() must be called before `live` is destroyed.
  explicit SnapshotMemory(LiveMemory& live, size_t max_pages = kMaxPages)
      : source_(&live), live_(&live), max_pages_(max_pages) {}
  // Memory that does not change, for instance that of a core file; prefetch() does nothing.
  explicit SnapshotMemory(RemoteMemory& source, size_t max_pages = kMaxPages)
      : source_(&source), max_pages_(max_pages) {}

  bool read(Addr addr, std::span<std::byte> into) override;

  // Copies the whole pages of these ranges in one pass; unreadable pages are left out.
  void prefetch(const std::vector<AddrRange>& ranges);
  // Allocates and touches memory for this number of pages in advance, so that copying causes no page faults
  // in this process.
  void reserve(size_t pages);
  // Makes prefetch() share its work with this copier from now on. The copier must outlive this object, or
  // freeze() must release it first.
  void share_work(PageCopier& copier) { copier_ = &copier; }
  // The copied memory as ranges of whole pages in ascending order.
  std::vector<AddrRange> ranges() const;
  void freeze() {
    source_ = nullptr;
    live_ = nullptr;
    copier_ = nullptr;
  }
  // Adds a page that was copied earlier. If an address is given twice, the later page counts. Pages beyond
  // the limit are dropped.
  void put(Addr page_addr, std::span<const std::byte> content);
  void for_each_page(const std::function<void(Addr, std::span<const std::byte>)>& visit) const;
  // Discards all copied pages; a few buffers are kept for the next round.
  void clear();
  // Includes the pages of unreadable ranges, which hold no data.
  size_t page_count() const { return used_; }

 private:
  // A page of one of the blocks.
  class Page {
   public:
    explicit Page(std::byte* data) : data_(data) {}
    std::byte* get() const { return data_; }

   private:
    std::byte* data_;
  };
  struct Unmap {
    size_t size = 0;
    void operator()(std::byte* block) const;
  };
  using Block = std::unique_ptr<std::byte, Unmap>;

  void add_block(size_t pages);
  const std::byte* page(Addr page_addr);
  std::byte* new_page(Addr page_addr);
  void copy(std::span<CopyJob> jobs);

  RemoteMemory* source_;
  LiveMemory* live_ = nullptr;  // the source, if it is a live process
  PageCopier* copier_ = nullptr;
  size_t max_pages_;
  std::unordered_map<Addr, size_t> index_;  // page address -> position in pool_; kMissing if unreadable
  std::vector<Block> blocks_;  // of anonymous memory: malloc would fault and lock while the target is stopped
  std::vector<Page> pool_;     // all pages of all blocks
  size_t used_ = 0;
  Addr last_page_ = 0;  // the page read last: most reads are neighbours
  std::byte* last_data_ = nullptr;
};

}  // namespace xpurun::stackdump
