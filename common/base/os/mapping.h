// Mapping: a read-only private mmap of a whole file. Move-only; unmaps in the destructor. If another process
// truncates the mapped file, access raises SIGBUS: only helper processes may map files that they do not own.
#pragma once

#include "common/base/result.h"

#include <cstddef>
#include <span>
#include <string>

namespace xpurun::base {

class Mapping {
 public:
  Mapping() = default;
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  static Result<Mapping> open_file(const std::string& path);

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }
  size_t size() const { return size_; }
  // Lets the kernel drop the resident pages; reading faults them in again.
  void forget_pages() const;

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace xpurun::base
