// One GPU of this machine through CUDA's driver: memory, a stream, pairs of timing events. Single-threaded.
#pragma once

#include "commands/replay/vendor.h"
#include "common/base/result.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace xpurun::launcher {

struct GpuFacts {
  int index = 0;
  std::string name;
  std::string uuid;    // "GPU-8d1f..."
  std::string bus_id;  // "0000:1B:00.0"
  std::string driver;  // "13.0": newest CUDA version that it supports
  size_t memory_bytes = 0;
  size_t l2_bytes = 0;
  int compute_major = 0;
};

// Memory of a GPU; freed with the object, which must not outlive the Gpu.
class GpuBuffer {
 public:
  GpuBuffer() = default;
  GpuBuffer(const vendor::Driver& driver, vendor::Address address, size_t bytes)
      : driver_(&driver), address_(address), bytes_(bytes) {}
  ~GpuBuffer();
  GpuBuffer(GpuBuffer&& other) noexcept { swap(other); }
  GpuBuffer& operator=(GpuBuffer&& other) noexcept {
    swap(other);
    return *this;
  }

  void* pointer(size_t offset = 0) const;
  vendor::Address address() const { return address_; }
  size_t bytes() const { return bytes_; }

 private:
  void swap(GpuBuffer& other) {
    std::swap(driver_, other.driver_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
  }

  const vendor::Driver* driver_ = nullptr;
  vendor::Address address_ = 0;
  size_t bytes_ = 0;
};

class Gpu {
 public:
  // `driver` must stay alive. E-NO-GPU if there is none with this index.
  static base::Result<std::unique_ptr<Gpu>> open(const vendor::Driver& driver, int index);
  // The GPUs of this machine, by the driver. E-NO-GPU if there are none.
  static base::Result<int> count(const vendor::Driver& driver);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const GpuFacts& facts() const { return facts_; }
  const vendor::Driver& driver() const { return driver_; }
  void* context() const { return context_; }
  void* stream() const { return stream_; }
  // Call before functions of other libraries that use this GPU.
  void make_current();

  // The error is a reason for people: "needs 12 GiB, 3 GiB are free".
  base::Result<GpuBuffer> allocate(size_t bytes);
  // Copies of `block` from the beginning to the end.
  base::Status fill(const GpuBuffer& buffer, const std::vector<std::byte>& block);

  // Overwrites twice the size of the L2 cache, as other kernels of a step do, and keeps the GPU busy while
  // the host launches the next call. Allocates on first use.
  base::Status overwrite_cache(int times);
  // Duration of one overwrite, ns.
  double overwrite_ns() const { return overwrite_ns_; }
  // Duration of a pair of events with nothing between them, ns.
  double empty_pair_ns() const { return empty_pair_ns_; }

  // Pair `i` of timing events; made on first use.
  base::Status begin(size_t i);
  base::Status end(size_t i);
  base::Status wait();
  // After wait().
  base::Result<double> elapsed_ns(size_t i);

  std::string words(int error) const;

 private:
  explicit Gpu(const vendor::Driver& driver) : driver_(driver) {}
  base::Status set_up(int index);
  base::Status check(int error, const char* doing) const;
  base::Status record(size_t i, bool is_end);
  base::Status measure_overwrite();

  const vendor::Driver& driver_;
  GpuFacts facts_;
  int device_ = 0;
  void* context_ = nullptr;
  void* stream_ = nullptr;
  std::vector<std::pair<void*, void*>> events_;
  GpuBuffer cache_;
  double overwrite_ns_ = 0;
  double empty_pair_ns_ = 0;
};

}  // namespace xpurun::launcher
