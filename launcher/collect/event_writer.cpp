#include "launcher/collect/event_writer.h"

#include "common/base/clock.h"
#include "launcher/collect/event_from_wire.h"

#include <cstring>

namespace xpurun::launcher {

namespace {
// Interval between two records of the clocks. NTP slews wall time by less than a microsecond in that time.
constexpr double kClocksS = 60;
}  // namespace

EventWriter::EventWriter(Storage& storage, const std::string& directory, const std::string& name,
                         const model::EventFileHeader& header)
    : file_(storage, directory, name, model::EventEncoder::header(header)), clocks_at_(header.mono_ns) {}

void EventWriter::define(uint32_t op, const wire::Segment& memory) {
  const wire::OpEntry& entry = memory.ops[op];
  const wire::OpSums sums = wire::totals_of(memory, op);
  // All calls of one entry do equal work.
  encoder_.define(op, key_from(entry.key), sums.calls == 0 ? 0 : sums.work / sums.calls);
}

void EventWriter::add(const wire::Event& event, const wire::Segment& memory) {
  const uint32_t slot = memory.ops[event.op].key.comm;
  if (slot < wire::kCommSlots) {
    const wire::CommEntry& comm = memory.comms[slot];
    encoder_.define({.slot = slot,
                     .identity = comm.identity,
                     .rank = comm.rank,
                     .nranks = comm.nranks,
                     .name = std::string(comm.name, ::strnlen(comm.name, sizeof comm.name))});
  }
  if (!encoder_.knows(event.op)) {
    define(event.op, memory);
  }
  encoder_.add(event_from(event));
  ++events_;
}

void EventWriter::flush() {
  if (encoder_.pending() == 0) {
    return;
  }
  const base::MonoNs now = base::mono_ns();
  if (base::ns_to_s(now - clocks_at_) > kClocksS) {
    clocks_at_ = now;
    encoder_.clocks(now, base::wall_ns());
  }
  file_.append(encoder_.take_block());
}

}  // namespace xpurun::launcher
