#include "launcher/capture/activity_file.h"

#include <algorithm>
#include <bit>

namespace xpurun::launcher {

namespace {

// Entries for kernels and calls, each with a name of its own, always find room.
constexpr size_t kMostSizedEntries = model::kMostEntries - 2 * model::kMostEntries / 16;

bool is_memory(wire::CapturedKind kind) {
  return kind == wire::CapturedKind::copy || kind == wire::CapturedKind::set;
}

wire::OpClass class_of(wire::CapturedKind kind) {
  if (kind == wire::CapturedKind::kernel) {
    return wire::OpClass::kernel;
  }
  return is_memory(kind) ? wire::OpClass::memory : wire::OpClass::host;
}

}  // namespace

ActivityFile::ActivityFile(Storage& storage, const std::string& directory, const std::string& name,
                           const model::EventFileHeader& header)
    : file_(storage, directory, name, model::EventEncoder::header(header)) {}

// All calls of an entry do equal work, so memory operations of different sizes are different entries; when
// there are too many, their size is left out.
uint32_t ActivityFile::op_of(const wire::CapturedRecord& record, const ActivityMemory& memory) {
  const auto kind = static_cast<wire::CapturedKind>(record.kind);
  uint64_t bytes = is_memory(kind) ? record.bytes : 0;
  Key key{record.kind, record.name, bytes};
  auto found = ops_.find(key);
  if (found == ops_.end() && ops_.size() >= kMostSizedEntries) {
    bytes = 0;
    key = {record.kind, record.name, 0};
    found = ops_.find(key);
  }
  if (found != ops_.end()) {
    return found->second;
  }
  if (ops_.size() >= model::kMostEntries) {
    return model::kMostEntries;
  }
  const auto op = static_cast<uint32_t>(ops_.size());
  model::EventKey entry;
  entry.api = wire::kApiCount;
  entry.op_class = static_cast<uint8_t>(class_of(kind));
  entry.comm = model::kNoCommunicator;
  entry.peer = -1;
  entry.copy = record.copy;
  entry.pinned = record.pinned;
  entry.k = bytes == 0 ? 0 : std::bit_width(bytes) - 1;
  encoder_.define(op, entry, bytes, memory.name(record.name));
  ops_.emplace(key, op);
  return op;
}

void ActivityFile::add(const wire::CapturedRecord& shared, const ActivityMemory& memory) {
  const wire::CapturedRecord record = shared;  // the rank may change it
  const auto kind = static_cast<wire::CapturedKind>(record.kind);
  const bool host = kind == wire::CapturedKind::runtime;
  const model::TimedEvent event{
      .begin_ns = record.begin_ns,
      .duration_ns = record.duration_ns,
      .op = op_of(record, memory),
      .sequence = record.correlation,
      .delay_us = host ? record.lane : 0,
      .stream = static_cast<uint16_t>(host ? 0 : std::min<uint32_t>(record.lane, UINT16_MAX)),
      .source = static_cast<uint8_t>(wire::Source::cupti)};
  if (event.op >= model::kMostEntries) {
    encoder_.lost(1);
    return;
  }
  encoder_.add(event);
  ++events_;
}

void ActivityFile::take(ActivityMemory& memory, size_t most) {
  for (const wire::CapturedRecord& record : memory.take(most)) {
    add(record, memory);
  }
  if (encoder_.pending() > 0) {
    file_.append(encoder_.take_block());
  }
}

void ActivityFile::lost(uint64_t count) {
  if (count > 0) {
    encoder_.lost(count);
    file_.append(encoder_.take_block());
  }
}

}  // namespace xpurun::launcher
