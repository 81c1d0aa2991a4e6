// ResourceWriter: writes the samples of one rank's hardware counters as a resource file (docs/speed.md).
// Event loop's thread only.
#pragma once

#include "common/model/resources/resource_file.h"
#include "common/model/speed/resource_use.h"
#include "launcher/capture/activity_memory.h"
#include "launcher/storage/appended_file.h"

#include <string>

namespace xpurun::launcher {

class ResourceWriter {
 public:
  // Also creates the directory. The file must not exist; its mode is 0600. The storage must outlive this
  // object.
  ResourceWriter(Storage& storage, const std::string& directory, const std::string& name,
                 const model::EventFileHeader& header);

  // Takes at most `most` samples of the memory and passes them to the storage.
  void take(ActivityMemory& memory, size_t most);

  // The facts that are known at the end.
  model::ResourceSampling result(const ActivityMemory& memory) const;

 private:
  std::string name_;
  AppendedFile file_;
  model::ResourceEncoder encoder_;
  uint64_t samples_ = 0;
  uint64_t first_begin_ = 0;
  uint64_t last_end_ = 0;
  uint64_t total_ns_ = 0;
};

// The contents of the header of a rank's memory: problem, metrics and cost.
model::ResourceSampling sampling_of(const ActivityMemory& memory);

}  // namespace xpurun::launcher
