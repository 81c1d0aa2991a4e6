// ActivityFile: writes the activity of one rank's GPU as an event file (docs/events.md). Event loop's thread
// only.
#pragma once

#include "common/model/timing/event_encoder.h"
#include "launcher/capture/activity_memory.h"
#include "launcher/storage/appended_file.h"

#include <map>
#include <string>
#include <tuple>

namespace xpurun::launcher {

class ActivityFile {
 public:
  // Also creates the directory. The file must not exist; its mode is 0600. The storage must outlive this
  // object.
  ActivityFile(Storage& storage, const std::string& directory, const std::string& name,
               const model::EventFileHeader& header);

  // Takes at most `most` records of the memory and passes them to the storage.
  void take(ActivityMemory& memory, size_t most);
  // Records that are missing.
  void lost(uint64_t count);

  uint64_t events() const { return events_; }
  // The first failure that the storage has reported so far.
  const base::Status& status() const { return file_.status(); }

 private:
  // Kind, index of the name, bytes.
  using Key = std::tuple<uint8_t, uint32_t, uint64_t>;

  void add(const wire::CapturedRecord& record, const ActivityMemory& memory);
  uint32_t op_of(const wire::CapturedRecord& record, const ActivityMemory& memory);

  AppendedFile file_;
  model::EventEncoder encoder_;
  std::map<Key, uint32_t> ops_;
  uint64_t events_ = 0;
};

}  // namespace xpurun::launcher
