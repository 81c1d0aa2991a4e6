#include "preload/attach.h"

#include "preload/process/crash_handler.h"
#include "preload/process/shared_memory.h"

#include <sys/mman.h>

namespace xpurun::preload {

wire::Segment* attach_segment(const sockaddr_un& socket) {
  void* memory = request_memory(socket, make_notice(wire::NoticeKind::attach), sizeof(wire::Segment));
  if (memory == nullptr) {
    return nullptr;
  }
  auto* segment = static_cast<wire::Segment*>(memory);
  const wire::SegmentHeader& header = segment->header;
  // Library and supervisor may come from different installations, for example through an inherited
  // LD_PRELOAD. A segment of another layout must not be written.
  if (header.magic != wire::kSegmentMagic || header.version != wire::kSegmentVersion ||
      header.bytes != sizeof(wire::Segment)) {
    munmap(memory, sizeof(wire::Segment));
    return nullptr;
  }
  return segment;
}

}  // namespace xpurun::preload
