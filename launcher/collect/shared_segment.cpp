#include "launcher/collect/shared_segment.h"

#include <algorithm>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace xpurun::launcher {

base::Result<SharedSegment> SharedSegment::create(wire::Level level, uint32_t budget_ppm) {
  base::UniqueFd fd(::memfd_create("xpurun-segment", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ::ftruncate(fd.get(), sizeof(wire::Segment)) != 0) {
    return base::fail_errno("cannot create memory to share with a rank");
  }
  // A rank that shrinks the memfd would kill the supervisor with SIGBUS.
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return base::fail_errno("cannot seal the memory shared with a rank");
  }
  void* mapped = ::mmap(nullptr, sizeof(wire::Segment), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) {
    return base::fail_errno("cannot map the memory shared with a rank");
  }
  // A new memfd has zero pages, which is the initial state of a segment.
  auto* memory = static_cast<wire::Segment*>(mapped);
  memory->header.magic = wire::kSegmentMagic;
  memory->header.version = wire::kSegmentVersion;
  memory->header.bytes = sizeof(wire::Segment);
  memory->header.to_rank.level.store(static_cast<uint32_t>(level));
  memory->header.to_rank.budget_ppm.store(budget_ppm);
  memory->header.device.store(-1);
  return SharedSegment(std::move(fd), memory);
}

SharedSegment::SharedSegment(SharedSegment&& other) noexcept
    : fd_(std::move(other.fd_)), memory_(std::exchange(other.memory_, nullptr)) {}

SharedSegment::~SharedSegment() {
  if (memory_ != nullptr) {
    ::munmap(memory_, sizeof(wire::Segment));
  }
}

void SharedSegment::set_level(wire::Level level) {
  memory_->header.to_rank.level.store(static_cast<uint32_t>(level));
}

void SharedSegment::set_host_events(HostEvents wanted) {
  memory_->header.to_rank.host_events.store(static_cast<uint32_t>(wanted));
}

void SharedSegment::set_every(wire::Every every) {
  memory_->header.to_rank.every.store(static_cast<uint32_t>(every));
}

void SharedSegment::request_capture(uint32_t number) {
  memory_->header.to_rank.capture.store(number);
}

std::vector<wire::Event> SharedSegment::drain() {
  wire::SegmentHeader& header = memory_->header;
  const uint64_t head = header.ring_head.load(std::memory_order_acquire);
  const uint64_t tail = header.ring_tail.load(std::memory_order_relaxed);
  // The rank owns `head`. An invalid value is bounded here, not repaired.
  const uint64_t count = std::min<uint64_t>(head - tail, wire::kRingSlots);
  std::vector<wire::Event> events;
  events.reserve(count);
  for (uint64_t at = head - count; at != head; ++at) {
    events.push_back(memory_->ring[at % wire::kRingSlots]);
  }
  header.ring_tail.store(head, std::memory_order_release);
  return events;
}

}  // namespace xpurun::launcher
