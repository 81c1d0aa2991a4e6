// SharedSegment: our end of the memory that one rank writes its timing to (common/wire/segment.h). Made here,
// sealed in size, so that nothing the rank does to it can hurt us; it stays readable when the rank is gone.
#pragma once

#include "common/base/fd.h"
#include "common/base/result.h"
#include "common/wire/segment.h"

#include <vector>

namespace xpurun::launcher {

// Whether what each hooked call takes on the host is to be an event too.
enum class HostEvents : uint32_t { no, yes };

class SharedSegment {
 public:
  static base::Result<SharedSegment> create(wire::Level level, uint32_t budget_ppm);
  SharedSegment(SharedSegment&& other) noexcept;
  SharedSegment& operator=(SharedSegment&&) = delete;
  SharedSegment(const SharedSegment&) = delete;
  ~SharedSegment();

  // To be sent to the rank.
  int fd() const { return fd_.get(); }
  // Enough once it was sent: the mapping stays.
  void close_fd() { fd_.reset(); }

  void set_level(wire::Level level);
  void set_host_events(HostEvents wanted);
  const wire::Segment& memory() const { return *memory_; }
  // Events since the last call, at most as many as the ring holds; frees their places.
  std::vector<wire::Event> drain();

 private:
  SharedSegment(base::UniqueFd fd, wire::Segment* memory) : fd_(std::move(fd)), memory_(memory) {}

  base::UniqueFd fd_;
  wire::Segment* memory_;
};

}  // namespace xpurun::launcher
