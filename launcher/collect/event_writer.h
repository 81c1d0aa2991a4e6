// EventWriter: writes one event file (common/model/timing/event_file.h). Collects events in memory and passes
// them to the storage in blocks. Failures become known only when the storage has replied. Event loop's thread
// only.
#pragma once

#include "common/base/result.h"
#include "common/model/timing/event_encoder.h"
#include "launcher/storage/appended_file.h"

#include <string>

namespace xpurun::launcher {

class EventWriter {
 public:
  // Also creates the directory. The file must not exist; its mode is 0600. The storage must outlive the
  // writer.
  EventWriter(Storage& storage, const std::string& directory, const std::string& name,
              const model::EventFileHeader& header);

  // `event.op` must be a ready entry of `memory`.
  void add(const wire::Event& event, const wire::Segment& memory);
  void lost(uint64_t count) { encoder_.lost(count); }
  // Passes the collected events to the storage. After a failure the file ends with its last complete block
  // and accepts no more events.
  void flush();

  // Size of the file, including events not written yet.
  uint64_t bytes() const { return file_.bytes() + encoder_.pending(); }
  size_t pending() const { return encoder_.pending(); }
  uint64_t events() const { return events_; }
  const std::string& path() const { return file_.path(); }
  // The first failure that the storage has reported so far.
  const base::Status& status() const { return file_.status(); }

 private:
  void define(uint32_t op, const wire::Segment& memory);

  AppendedFile file_;
  model::EventEncoder encoder_;
  base::MonoNs clocks_at_;
  uint64_t events_ = 0;
};

}  // namespace xpurun::launcher
