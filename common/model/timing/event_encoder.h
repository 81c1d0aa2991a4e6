// EventEncoder: writes event files (event_file.h).
#pragma once

#include "common/model/timing/event_file.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

// Builds the bytes of an event file: header() first, then take_block() whenever records are pending. Define
// an entry before its events, and a communicator before the first event of an entry that refers to it. Not
// thread-safe.
class EventEncoder {
 public:
  EventEncoder() : ops_(kMostEntries) {}

  static std::string header(const EventFileHeader& h);

  bool knows(uint32_t op) const { return ops_[op].defined; }
  // `work`: FLOP or bytes per call.
  void define(uint32_t op, const EventKey& key, uint64_t work);
  // `function` takes the place of the name that belongs to EventKey::api.
  void define(uint32_t op, const EventKey& key, uint64_t work, std::string_view function);
  // Does nothing if the slot already has this definition.
  void define(const EventCommunicator& comm);
  // Records that `count` events are missing here.
  void lost(uint64_t count);
  // One moment by both clocks, because wall time may be changed while the job runs.
  void clocks(base::MonoNs mono_ns, int64_t wall_ns);
  // `event.op` must be defined.
  void add(const TimedEvent& event);

  // Bytes of the records not yet taken.
  size_t pending() const { return payload_.size(); }
  // The pending records as a block; empty if there are none.
  std::string take_block();

 private:
  struct Op {
    bool defined = false;
    uint16_t stream = 0;
    uint32_t sequence = 0;
    EventHow how;
  };

  std::vector<Op> ops_;
  std::map<uint32_t, EventCommunicator> comms_;
  uint64_t last_begin_ = 0;
  // Finishes the record whose body is in body_.
  void put_record(uint8_t tag);

  std::string payload_;
  std::string body_;
};

}  // namespace xpurun::model
