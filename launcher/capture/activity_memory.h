// ActivityMemory: the supervisor's side of the memory in which one rank puts the activity of its GPU during a
// capture (common/wire/capture.h). Sealed, so that the rank cannot cause SIGBUS here; readable after the rank
// has died.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/result.h"
#include "common/wire/capture.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace xpurun::launcher {

class ActivityMemory {
 public:
  // Fails if the memfd cannot be created, sized, sealed or mapped.
  static base::Result<ActivityMemory> create(double seconds);

  // The descriptor to send to the rank.
  int fd() const { return fd_.get(); }
  // Closes the descriptor after it was sent. The mapping stays.
  void close_fd() { fd_.reset(); }
  void stop() { memory_->header.stop.store(1); }

  const wire::CaptureHeader& header() const { return memory_->header; }
  // At most `most` records since the last call. Valid until this object is destroyed.
  std::span<const wire::CapturedRecord> take(size_t most);
  // The same for the samples of hardware counters.
  std::span<const wire::ResourceSample> take_samples(size_t most);
  // Whether all present records and samples were taken.
  bool is_drained() const { return taken_ >= records() && samples_taken_ >= samples(); }
  bool has_samples() const { return samples() > 0; }
  bool has_resource(wire::Resource resource) const;
  // CUPTI's names of the metrics that are sampled for the resource; printable.
  std::string metric(wire::Resource resource) const;
  // Empty if the number is not valid.
  std::string_view name(uint32_t index) const;

 private:
  struct Unmap {
    void operator()(wire::CaptureSegment* memory) const;
  };
  ActivityMemory(base::UniqueFd fd, wire::CaptureSegment* memory) : fd_(std::move(fd)), memory_(memory) {}
  uint64_t records() const;
  uint64_t samples() const;

  base::UniqueFd fd_;
  std::unique_ptr<wire::CaptureSegment, Unmap> memory_;
  uint64_t taken_ = 0;
  uint64_t samples_taken_ = 0;
};

}  // namespace xpurun::launcher
