// Pinned memory of the host: copies to and from a GPU run at the speed of the link. Freed with the object.
#pragma once

#include "commands/replay/gpu.h"

#include <cstddef>
#include <span>
#include <utility>

namespace xpurun::launcher {

class HostBuffer {
 public:
  HostBuffer() = default;
  ~HostBuffer() {
    if (memory_ != nullptr) {
      driver_->host_release(memory_);
    }
  }
  HostBuffer(HostBuffer&& other) noexcept { swap(other); }
  HostBuffer& operator=(HostBuffer&& other) noexcept {
    swap(other);
    return *this;
  }

  // The GPU must be current.
  static base::Result<HostBuffer> allocate(const Gpu& gpu, size_t bytes) {
    HostBuffer out;
    if (const int error = gpu.driver().host_allocate(&out.memory_, bytes); error != 0) {
      return base::fail("allocating pinned memory: " + gpu.words(error));
    }
    out.driver_ = &gpu.driver();
    out.bytes_ = bytes;
    return out;
  }

  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(memory_), bytes_}; }

 private:
  void swap(HostBuffer& other) {
    std::swap(driver_, other.driver_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
  }

  const vendor::Driver* driver_ = nullptr;
  void* memory_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace xpurun::launcher
