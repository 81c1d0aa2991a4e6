// EventWriter: writes one event file (common/model/event_file.h). Collects events in memory and appends them
// in blocks. Event loop's thread only.
#pragma once

#include "common/base/fd.h"
#include "common/base/result.h"
#include "common/model/event_file.h"

#include <string>

namespace xpurun::launcher {

class EventWriter {
 public:
  // The file must not exist; mode 0600.
  static base::Result<EventWriter> create(const std::string& path, const model::EventFileHeader& header);

  // `event.op` is an entry of `memory` that is ready.
  void add(const wire::Event& event, const wire::Segment& memory);
  void lost(uint64_t count) { encoder_.lost(count); }
  // Writes the collected events. After a failure the file ends with its last complete block and accepts no
  // more events.
  base::Status flush();

  // Size of the file, including events not written yet.
  uint64_t bytes() const { return written_ + encoder_.pending(); }
  size_t pending() const { return encoder_.pending(); }
  uint64_t events() const { return events_; }

 private:
  EventWriter(base::UniqueFd fd, base::MonoNs clocks_at) : fd_(std::move(fd)), clocks_at_(clocks_at) {}
  void define(uint32_t op, const wire::Segment& memory);

  base::UniqueFd fd_;
  model::EventEncoder encoder_;
  base::MonoNs clocks_at_;
  uint64_t written_ = 0;
  uint64_t events_ = 0;
};

}  // namespace xpurun::launcher
