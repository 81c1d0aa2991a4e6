#include "common/model/timing/event_file.h"

#include "common/base/bytes.h"
#include "common/base/os/io.h"
#include "common/model/json_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace xpurun::model {

namespace {

// The first byte of a record. Below kNotAnEvent, an event:
constexpr uint8_t kSourceMask = 7;
constexpr uint8_t kHostBegin = 1 << 3;
constexpr uint8_t kSameStream = 1 << 4;    // as the entry's event before
constexpr uint8_t kNextSequence = 1 << 5;  // that of the entry's event before, plus one
constexpr uint8_t kNotAnEvent = 1 << 7;
constexpr uint8_t kOpRecord = 0x80;
constexpr uint8_t kCommRecord = 0x81;
constexpr uint8_t kLostRecord = 0x82;
constexpr uint8_t kClocksRecord = 0x83;
constexpr uint8_t kHowRecord = 0x84;

constexpr size_t kLongestHeader = 64 * 1024;
constexpr size_t kLargestFile = size_t{1} << 30;

// Ten bytes at most, seven bits each, lowest first.
void put_varint(std::string& out, uint64_t n) {
  for (; n >= 0x80; n >>= 7) {
    out += static_cast<char>(n | 0x80);
  }
  out += static_cast<char>(n);
}

bool take_varint(std::string_view& in, uint64_t& n) {
  n = 0;
  for (unsigned shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(in.front());
    in.remove_prefix(1);
    n |= uint64_t{byte & 0x7fu} << shift;
    if ((byte & 0x80) == 0) {
      return true;
    }
  }
  return false;
}

// Small numbers of either sign become small numbers.
uint64_t folded(uint64_t difference) {
  const auto n = static_cast<int64_t>(difference);
  return (difference << 1) ^ static_cast<uint64_t>(n >> 63);
}

uint64_t unfolded(uint64_t n) {
  return (n >> 1) ^ (0 - (n & 1));
}

// FNV-1a
uint32_t checksum(std::string_view bytes) {
  uint32_t hash = 2166136261U;
  for (const char c : bytes) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 16777619U;
  }
  return hash;
}

class Parser {
 public:
  explicit Parser(EventFile& out) : out_(out) {}

  // False: this is no block of ours; what came before it in the block stays.
  bool block(std::string_view payload) {
    while (!payload.empty()) {
      const auto tag = static_cast<uint8_t>(payload.front());
      payload.remove_prefix(1);
      const bool good = tag < kNotAnEvent      ? event(tag, payload)
                        : tag == kOpRecord     ? op(payload)
                        : tag == kCommRecord   ? communicator(payload)
                        : tag == kLostRecord   ? lost(payload)
                        : tag == kClocksRecord ? clocks(payload)
                        : tag == kHowRecord    ? how(payload)
                                               : false;
      if (!good) {
        return false;
      }
    }
    return true;
  }

 private:
  struct Last {
    uint16_t stream = 0;
    uint32_t sequence = 0;
    wire::CollectiveHow how{};
  };

  bool event(uint8_t tag, std::string_view& in) {
    uint64_t op = 0;
    uint64_t begin = 0;
    uint64_t duration = 0;
    uint64_t sequence = 0;
    uint64_t stream = 0;
    uint64_t delay = 0;
    const bool good = take_varint(in, op) && take_varint(in, begin) && take_varint(in, duration) &&
                      ((tag & kNextSequence) != 0 || take_varint(in, sequence)) &&
                      ((tag & kSameStream) != 0 || take_varint(in, stream)) && take_varint(in, delay);
    const auto known = out_.ops.find(static_cast<uint32_t>(op));
    if (!good || op >= wire::kOpSlots || known == out_.ops.end()) {
      return false;
    }
    Last& last = last_[known->first];
    last.sequence += (tag & kNextSequence) != 0 ? 1 : static_cast<uint32_t>(unfolded(sequence));
    last.stream = (tag & kSameStream) != 0 ? last.stream : static_cast<uint16_t>(stream);
    begin_ += unfolded(begin);
    EventFile::Entry entry{.event = {.begin_ns = begin_,
                                     .duration_ns = duration,
                                     .op = known->first,
                                     .sequence = last.sequence,
                                     .delay_us = static_cast<uint32_t>(delay),
                                     .stream = last.stream,
                                     .source = static_cast<uint8_t>(tag & kSourceMask)}};
    entry.event.how = last.how;
    if ((tag & kHostBegin) != 0) {
      entry.event.flags = wire::kEventHostBegin;
    }
    if (const auto comm = comm_at_.find(known->second.key.comm); comm != comm_at_.end()) {
      entry.communicator = comm->second;
    }
    out_.events.push_back(entry);
    return true;
  }

  bool op(std::string_view& in) {
    uint64_t index = 0;
    EventFile::Op op;
    if (!take_varint(in, index) || index >= wire::kOpSlots || !base::take_bytes(in, op.key) ||
        !take_varint(in, op.work)) {
      return false;
    }
    out_.ops[static_cast<uint32_t>(index)] = op;
    return true;
  }

  bool how(std::string_view& in) {
    uint64_t index = 0;
    wire::CollectiveHow how{};
    if (!take_varint(in, index) || index >= wire::kOpSlots || !base::take_bytes(in, how)) {
      return false;
    }
    last_[static_cast<uint32_t>(index)].how = how;
    return true;
  }

  bool communicator(std::string_view& in) {
    uint64_t slot = 0;
    uint64_t rank = 0;
    uint64_t nranks = 0;
    uint64_t length = 0;
    EventCommunicator comm;
    if (!take_varint(in, slot) || slot >= wire::kCommSlots || !base::take_bytes(in, comm.identity) ||
        !take_varint(in, rank) || !take_varint(in, nranks) || !take_varint(in, length) ||
        length > in.size()) {
      return false;
    }
    comm.slot = static_cast<uint32_t>(slot);
    comm.rank = static_cast<int>(static_cast<int64_t>(unfolded(rank)));
    comm.nranks = static_cast<int>(static_cast<int64_t>(unfolded(nranks)));
    comm.name = in.substr(0, length);
    in.remove_prefix(length);
    comm_at_[comm.slot] = static_cast<int>(out_.communicators.size());
    out_.communicators.push_back(std::move(comm));
    return true;
  }

  bool lost(std::string_view& in) {
    uint64_t count = 0;
    if (!take_varint(in, count)) {
      return false;
    }
    out_.lost += count;
    return true;
  }

  bool clocks(std::string_view& in) {
    EventFile::Clocks both;
    if (!base::take_bytes(in, both.mono_ns) || !base::take_bytes(in, both.wall_ns)) {
      return false;
    }
    out_.clocks.push_back(both);
    return true;
  }

  EventFile& out_;
  std::map<uint32_t, Last> last_;
  std::map<uint32_t, int> comm_at_;  // slot: index of its newest definition
  uint64_t begin_ = 0;
};

EventFileHeader header_from(const nlohmann::json& j) {
  EventFileHeader h;
  h.rank = integer(j, "rank", base::kNoRank);
  h.local_rank = integer(j, "local_rank", -1);
  h.pid = integer(j, "pid", 0);
  h.host = j.value("host", "");
  h.gpu = j.value("gpu", "");
  h.gpu_uuid = j.value("gpu_uuid", "");
  h.mono_ns = integer(j, "mono_ns", int64_t{0});
  h.wall_ns = integer(j, "wall_ns", int64_t{0});
  return h;
}

// "first line", and what is behind it.
std::string_view take_line(std::string_view& in) {
  const size_t end = in.substr(0, kLongestHeader).find('\n');
  const std::string_view line = in.substr(0, end == std::string_view::npos ? 0 : end);
  in.remove_prefix(end == std::string_view::npos ? 0 : end + 1);
  return line;
}

}  // namespace

std::string EventEncoder::header(const EventFileHeader& h) {
  nlohmann::ordered_json j;
  j["segment_version"] = wire::kSegmentVersion;
  j["rank"] = rank_or_null(h.rank);
  j["local_rank"] = h.local_rank;
  j["pid"] = h.pid;
  j["host"] = h.host;
  j["gpu"] = h.gpu;
  j["gpu_uuid"] = h.gpu_uuid;
  j["mono_ns"] = h.mono_ns;
  j["wall_ns"] = h.wall_ns;
  return fmt::format("{}\n{}\n", kEventsSchema,
                     j.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace));
}

void EventEncoder::define(uint32_t op, const wire::OpKey& key, uint64_t work) {
  payload_ += static_cast<char>(kOpRecord);
  put_varint(payload_, op);
  base::append_bytes(payload_, key);
  put_varint(payload_, work);
  ops_[op].defined = true;
}

void EventEncoder::define(const EventCommunicator& comm) {
  const auto [it, is_new] = comms_.try_emplace(comm.slot, comm);
  if (!is_new && it->second == comm) {
    return;
  }
  it->second = comm;
  payload_ += static_cast<char>(kCommRecord);
  put_varint(payload_, comm.slot);
  base::append_bytes(payload_, comm.identity);
  put_varint(payload_, folded(static_cast<uint64_t>(comm.rank)));
  put_varint(payload_, folded(static_cast<uint64_t>(comm.nranks)));
  put_varint(payload_, comm.name.size());
  payload_ += comm.name;
}

void EventEncoder::lost(uint64_t count) {
  payload_ += static_cast<char>(kLostRecord);
  put_varint(payload_, count);
}

void EventEncoder::clocks(base::MonoNs mono_ns, int64_t wall_ns) {
  payload_ += static_cast<char>(kClocksRecord);
  base::append_bytes(payload_, mono_ns);
  base::append_bytes(payload_, wall_ns);
}

void EventEncoder::add(const wire::Event& event) {
  Op& op = ops_[event.op];
  const wire::CollectiveHow& how = event.how;
  if (how.algorithm != op.how.algorithm || how.protocol != op.how.protocol ||
      how.channels != op.how.channels) {
    payload_ += static_cast<char>(kHowRecord);
    put_varint(payload_, event.op);
    base::append_bytes(payload_, how);
    op.how = how;
  }
  const bool same_stream = event.stream == op.stream;
  const bool next = event.sequence == op.sequence + 1;
  payload_ += static_cast<char>((event.source & kSourceMask) |
                                ((event.flags & wire::kEventHostBegin) != 0 ? kHostBegin : 0) |
                                (same_stream ? kSameStream : 0) | (next ? kNextSequence : 0));
  put_varint(payload_, event.op);
  put_varint(payload_, folded(event.begin_ns - last_begin_));
  put_varint(payload_, event.duration_ns);
  if (!next) {
    // 32 bits wrap around.
    const auto difference = static_cast<int32_t>(event.sequence - op.sequence);
    put_varint(payload_, folded(static_cast<uint64_t>(int64_t{difference})));
  }
  if (!same_stream) {
    put_varint(payload_, event.stream);
  }
  put_varint(payload_, event.delay_us);
  op.stream = event.stream;
  op.sequence = event.sequence;
  last_begin_ = event.begin_ns;
}

std::string EventEncoder::take_block() {
  if (payload_.empty()) {
    return "";
  }
  std::string out;
  out.reserve(payload_.size() + 8);
  base::append_bytes(out, static_cast<uint32_t>(payload_.size()));
  base::append_bytes(out, checksum(payload_));
  out += payload_;
  payload_.clear();
  return out;
}

base::Result<EventFile> parse_event_file(std::string_view bytes) {
  if (take_line(bytes) != kEventsSchema) {
    return base::fail(fmt::format("it is not an event file of version {}", kEventsSchema));
  }
  EventFile out;
  try {
    const auto header = parse_json(take_line(bytes));
    const auto version = integer(header, "segment_version", uint32_t{0});
    if (version < wire::kEntriesSinceVersion || version > wire::kSegmentVersion) {
      return base::fail("the entries in the event file are those of another version of xpurun");
    }
    out.header = header_from(header);
  } catch (const nlohmann::json::exception&) {
    return base::fail("the second line of the event file cannot be read");
  }
  out.clocks.push_back({out.header.mono_ns, out.header.wall_ns});
  Parser parser(out);
  while (!bytes.empty()) {
    uint32_t size = 0;
    uint32_t sum = 0;
    const bool framed = base::take_bytes(bytes, size) && base::take_bytes(bytes, sum) && size <= bytes.size();
    if (!framed || checksum(bytes.substr(0, size)) != sum || !parser.block(bytes.substr(0, size))) {
      out.complete = false;
      break;
    }
    bytes.remove_prefix(size);
  }
  return out;
}

base::Result<EventFile> load_event_file(const std::string& path) {
  XPURUN_TRY_ASSIGN(const std::string bytes, base::read_regular_file(path, kLargestFile));
  auto parsed = parse_event_file(bytes);
  if (!parsed) {
    return base::fail(base::Error(parsed.error()).context(path));
  }
  return parsed;
}

}  // namespace xpurun::model
