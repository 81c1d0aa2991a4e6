// SharedSegment: the supervisor's side of the memory in which one rank writes its timing
// (common/wire/segment.h). The memfd is sealed against shrinking, so the rank cannot cause SIGBUS here. The
// memory stays readable after the rank has died.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/result.h"
#include "common/wire/segment.h"

#include <vector>

namespace xpurun::launcher {

// Whether the host time of each hooked call also becomes an event.
enum class HostEvents : uint32_t { no, yes };

class SharedSegment {
 public:
  // Fails if the memfd cannot be created, sized, sealed or mapped. `budget_ppm`: ToRank::budget_ppm.
  static base::Result<SharedSegment> create(wire::Level level, uint32_t budget_ppm);
  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&&) = delete;
  SharedSegment(const SharedSegment&) = delete;
  ~SharedSegment();

  // The descriptor to send to the rank.
  int fd() const { return fd_.get(); }
  // Closes the descriptor after it was sent. The mapping stays.
  void close_fd() { fd_.reset(); }

  // The rank's poller follows in its next round.
  void set_level(wire::Level level);
  void set_host_events(HostEvents wanted);
  void set_every(wire::Every every);
  // The rank takes part in the capture of that number (ToRank::capture).
  void request_capture(uint32_t number);
  const wire::Segment& memory() const { return *memory_; }
  // Returns the events since the last call, at most the size of the ring, and frees their slots.
  std::vector<wire::Event> drain();

 private:
  SharedSegment(base::UniqueFd fd, wire::Segment* memory) : fd_(std::move(fd)), memory_(memory) {}

  base::UniqueFd fd_;
  wire::Segment* memory_;
};

}  // namespace xpurun::launcher
