// Event files, ranks/<rank>/events-<n>.xev: single calls of one process whose duration is known, about a
// dozen bytes each. docs/events.md is the specification. Written from the front, whole blocks at a time, so
// that a file whose writer was killed is readable up to its last block. Host byte order.
#pragma once

#include "common/base/clock.h"
#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/wire/segment.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

// First line of the file. The second is a JSON object, EventFileHeader; then blocks.
inline constexpr std::string_view kEventsSchema = "xpurun.events/1";

struct EventFileHeader {
  base::Rank rank = base::kNoRank;
  int local_rank = -1;
  base::Pid pid = 0;
  std::string host;
  std::string gpu;
  std::string gpu_uuid;
  base::MonoNs mono_ns = 0;  // the same moment by both clocks
  int64_t wall_ns = 0;
};

struct EventCommunicator {
  uint32_t slot = 0;  // as in OpKey::comm
  uint64_t identity = 0;
  int rank = -1;
  int nranks = 0;
  std::string name;
  bool operator==(const EventCommunicator&) const = default;
};

// Makes a file's bytes: header() first, then take_block() whenever something has gathered. An event's entry
// must be defined before it, a communicator before the first event of an entry that names it.
class EventEncoder {
 public:
  EventEncoder() : ops_(wire::kOpSlots) {}

  static std::string header(const EventFileHeader& h);

  bool knows(uint32_t op) const { return ops_[op].defined; }
  // `work`: FLOP or bytes of one call.
  void define(uint32_t op, const wire::OpKey& key, uint64_t work);
  // Does nothing if the slot is known to be just this.
  void define(const EventCommunicator& comm);
  // So many events are missing here.
  void lost(uint64_t count);
  // The same moment by both clocks: wall time may be set while the job runs.
  void clocks(base::MonoNs mono_ns, int64_t wall_ns);
  // `event.op` is defined.
  void add(const wire::Event& event);

  size_t pending() const { return payload_.size(); }
  // What has gathered, framed; empty if nothing has.
  std::string take_block();

 private:
  struct Op {
    bool defined = false;
    uint16_t stream = 0;
    uint32_t sequence = 0;
    wire::CollectiveHow how{};
  };

  std::vector<Op> ops_;
  std::map<uint32_t, EventCommunicator> comms_;
  uint64_t last_begin_ = 0;
  std::string payload_;
};

struct EventFile {
  struct Op {
    wire::OpKey key{};
    uint64_t work = 0;
  };
  struct Entry {
    wire::Event event{};
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
  std::vector<Clocks> clocks;  // the header's first
  uint64_t lost = 0;
  bool complete = true;  // false: the end is torn off or damaged; everything before it is here
};

// The file's bytes may be anything.
base::Result<EventFile> parse_event_file(std::string_view bytes);
base::Result<EventFile> load_event_file(const std::string& path);

}  // namespace xpurun::model
