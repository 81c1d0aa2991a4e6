// Event files, ranks/<rank>/events-<n>.xev: single timed calls of one process, about 14 bytes each.
// docs/events.md is the specification. The format does not depend on the layout of the shared segment:
// numbers are little-endian, functions are stored by name, and every record has a length, so that a reader
// can skip records and fields of later versions. Files are written in whole blocks; a truncated file is
// readable up to its last complete block.
#pragma once

#include "common/base/clock.h"
#include "common/base/result.h"
#include "common/model/timing/record_file.h"
#include "common/model/timing/timed_event.h"
#include "common/wire/segment.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

// First line of the file. The second line is a JSON object, EventFileHeader; blocks follow.
inline constexpr std::string_view kEventsSchema = "xpurun.events/2";
inline constexpr std::string_view kEventFileSuffix = ".xev";

struct EventCommunicator {
  uint32_t slot = 0;  // as in EventKey::comm
  uint64_t identity = 0;
  int rank = -1;
  int nranks = 0;
  std::string name;
  bool operator==(const EventCommunicator&) const = default;
};

struct EventFile {
  struct Op {
    EventKey key;          // `api` is kApiCount for a function unknown to this version
    std::string function;  // "ncclAllReduce"
    uint64_t work = 0;
  };
  struct Entry {
    TimedEvent event;
    int communicator = -1;  // index into communicators
  };
  struct Clocks {
    base::MonoNs mono_ns = 0;
    int64_t wall_ns = 0;
  };

  EventFileHeader header;
  std::map<uint32_t, Op> ops;
  std::vector<EventCommunicator> communicators;
  std::vector<Entry> events;
  std::vector<Clocks> clocks;  // the header's pair and others, in ascending order of mono_ns
  uint64_t lost = 0;
  uint64_t unknown = 0;  // number of skipped records of a later version
  // False if the end is missing or damaged. Everything before that is kept.
  bool complete = true;
};

// Index of the last pair that is not later, or of the first one. At least one pair, in ascending order.
size_t clocks_at(const std::vector<EventFile::Clocks>& clocks, base::MonoNs mono_ns);

// The bytes are untrusted.
base::Result<EventFile> parse_event_file(std::string_view bytes);
base::Result<EventFile> load_event_file(const std::string& path);

}  // namespace xpurun::model
