// ActivityMemory: the supervisor's side of the memory in which one rank puts the activity of its GPU during a
// capture (common/wire/capture.h). Sealed, so that the rank cannot cause SIGBUS here; readable after the rank
// has died.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/result.h"
#include "common/wire/capture.h"

#include <memory>
#include <span>
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
  // Whether take() has returned all records that are there.
  bool is_drained() const { return taken_ >= records(); }
  // Empty if the number is not valid.
  std::string_view name(uint32_t index) const;

 private:
  struct Unmap {
    void operator()(wire::CaptureSegment* memory) const;
  };
  ActivityMemory(base::UniqueFd fd, wire::CaptureSegment* memory) : fd_(std::move(fd)), memory_(memory) {}
  uint64_t records() const;

  base::UniqueFd fd_;
  std::unique_ptr<wire::CaptureSegment, Unmap> memory_;
  uint64_t taken_ = 0;
};

}  // namespace xpurun::launcher
