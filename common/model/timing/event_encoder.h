// EventEncoder: writes event files (event_file.h).
#pragma once

#include "common/model/timing/event_file.h"

#include <map>
#include <string>
#include <vector>

namespace xpurun::model {

// Makes the bytes of an event file: header() first, then take_block() whenever records are pending. An entry
// must be defined before its events, a communicator before the first event of an entry that names it. Not
// thread-safe.
class EventEncoder {
 public:
  EventEncoder() : ops_(wire::kOpSlots) {}

  static std::string header(const EventFileHeader& h);

  bool knows(uint32_t op) const { return ops_[op].defined; }
  // `work`: FLOP or bytes of one call.
  void define(uint32_t op, const wire::OpKey& key, uint64_t work);
  // Does nothing if the slot is known to be just this.
  void define(const EventCommunicator& comm);
  // `count` events are missing at this place.
  void lost(uint64_t count);
  // The same moment by both clocks: wall time may be set while the job runs.
  void clocks(base::MonoNs mono_ns, int64_t wall_ns);
  // `event.op` is defined.
  void add(const wire::Event& event);

  // Bytes of the records that are not taken yet.
  size_t pending() const { return payload_.size(); }
  // The pending records as a block; empty if there are none.
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
  // Ends the record whose body is in body_.
  void put_record(uint8_t tag);

  std::string payload_;
  std::string body_;
};

}  // namespace xpurun::model
