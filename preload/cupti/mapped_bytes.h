// MappedBytes: zeroed memory of its own mapping. The object must not use the program's allocator.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

namespace xpurun::preload::cupti {

class MappedBytes {
 public:
  MappedBytes() = default;
  ~MappedBytes() { drop(); }
  MappedBytes(const MappedBytes&) = delete;
  MappedBytes& operator=(const MappedBytes&) = delete;

  // Keeps the present memory if it is large enough. False without memory.
  bool make(size_t bytes) {
    if (bytes == 0 || bytes <= bytes_) {
      return bytes != 0;
    }
    drop();
    void* mapped =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
      return false;
    }
    at_ = static_cast<uint8_t*>(mapped);
    bytes_ = bytes;
    return true;
  }
  uint8_t* at() const { return at_; }
  size_t bytes() const { return bytes_; }

 private:
  void drop() {
    if (at_ != nullptr) {
      munmap(at_, bytes_);
    }
    at_ = nullptr;
    bytes_ = 0;
  }

  uint8_t* at_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace xpurun::preload::cupti
