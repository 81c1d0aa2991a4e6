#include "common/model/timing/event_file.h"

#include "common/base/os/io.h"
#include "common/model/timing/op_names.h"

#include <algorithm>

namespace xpurun::model {

namespace {

using records::Fields;

constexpr size_t kUsualEvent = 11;  // bytes
constexpr size_t kMostReserved = size_t{1} << 20;

class EventFileParser {
 public:
  explicit EventFileParser(EventFile& out) : out_(out) {}

  // False if the record is damaged.
  bool record(uint8_t tag, Fields in) {
    if (tag < records::kNotAnEvent) {
      return event(tag, in);
    }
    switch (tag) {
      case records::kOp:
        return op(in);
      case records::kCommunicator:
        return communicator(in);
      case records::kLost:
        out_.lost += in.varint();
        return in.ok();
      case records::kClocks:
        return clocks(in);
      case records::kHow:
        return how(in);
      default:
        ++out_.unknown;
        return true;
    }
  }

 private:
  struct Last {
    uint16_t stream = 0;
    uint32_t sequence = 0;
    EventHow how;
    bool is_defined = false;  // the entry
    uint32_t slot = 0;        // of its communicator
  };

  bool event(uint8_t tag, Fields in) {
    const auto op = static_cast<uint32_t>(in.below(kMostEntries));
    const auto begin = static_cast<uint64_t>(in.signed_varint());
    const uint64_t duration = in.varint();
    if (op >= kMostEntries || !last_[op].is_defined) {
      return false;
    }
    Last& last = last_[op];
    const uint32_t sequence =
        last.sequence + ((tag & records::kNextSequence) != 0 ? 1 : static_cast<uint32_t>(in.signed_varint()));
    const uint16_t stream =
        (tag & records::kSameStream) == 0 ? static_cast<uint16_t>(in.varint()) : last.stream;
    const auto delay = static_cast<uint32_t>(in.varint());
    if (!in.ok()) {
      return false;
    }
    last.sequence = sequence;
    last.stream = stream;
    begin_ += begin;
    // Filled in its place: an entry that is put together from bytes and then copied makes the processor wait.
    EventFile::Entry& entry = out_.events.emplace_back();
    TimedEvent& e = entry.event;
    e.begin_ns = begin_;
    e.duration_ns = duration;
    e.op = op;
    e.sequence = sequence;
    e.delay_us = delay;
    e.stream = stream;
    e.source = static_cast<uint8_t>(tag & records::kSourceMask);
    e.how = last.how;
    if ((tag & records::kHostBegin) != 0) {
      e.flags = wire::kEventHostBegin;
    }
    if ((tag & records::kFirstOfStep) != 0) {
      e.flags |= wire::kEventFirstOfStep;
    }
    if (last.slot < kMostCommunicators) {
      entry.communicator = comm_at_[last.slot];
    }
    return true;
  }

  bool op(Fields in) {
    const auto index = static_cast<uint32_t>(in.below(kMostEntries));
    EventFile::Op op;
    EventKey& key = op.key;
    const auto byte = [&in] { return static_cast<uint8_t>(in.varint()); };
    op.function = in.text();
    key.api = api_number(op.function);
    key.op_class = byte();
    key.flags = byte();
    op.work = in.varint();
    for (uint8_t& type : key.dtype) {
      type = byte();
    }
    key.compute = byte();
    key.trans = byte();
    key.epilogue = static_cast<uint16_t>(in.varint());
    key.batch = static_cast<uint32_t>(in.varint());
    for (int64_t* size : {&key.m, &key.n, &key.k}) {
      *size = in.signed_varint();
    }
    // 0 means no communicator.
    key.comm = static_cast<uint32_t>(in.below(kMostCommunicators + 1)) - 1;
    key.peer = static_cast<int32_t>(in.signed_varint());
    key.copy = byte();
    key.pinned = byte();
    if (in.ok()) {
      last_[index].is_defined = true;
      last_[index].slot = key.comm;
      out_.ops[index] = std::move(op);
    }
    return in.ok();
  }

  bool how(Fields in) {
    const auto index = static_cast<uint32_t>(in.below(kMostEntries));
    const EventHow how{static_cast<uint8_t>(in.varint()), static_cast<uint8_t>(in.varint()),
                       static_cast<uint8_t>(in.varint())};
    if (in.ok()) {
      last_[index].how = how;
    }
    return in.ok();
  }

  bool communicator(Fields in) {
    EventCommunicator comm;
    comm.slot = static_cast<uint32_t>(in.below(kMostCommunicators));
    comm.identity = in.fixed(8);
    comm.rank = static_cast<int>(in.signed_varint());
    comm.nranks = static_cast<int>(in.signed_varint());
    comm.name = in.text();
    if (in.ok()) {
      comm_at_[comm.slot] = static_cast<int>(out_.communicators.size());
      out_.communicators.push_back(std::move(comm));
    }
    return in.ok();
  }

  bool clocks(Fields in) {
    EventFile::Clocks both;
    both.mono_ns = static_cast<base::MonoNs>(in.fixed(8));
    both.wall_ns = static_cast<int64_t>(in.fixed(8));
    if (in.ok()) {
      out_.clocks.push_back(both);
    }
    return in.ok();
  }

  EventFile& out_;
  // By number of the entry.
  std::vector<Last> last_ = std::vector<Last>(kMostEntries);
  // From slot to the index of its newest definition; -1: none.
  std::vector<int> comm_at_ = std::vector<int>(kMostCommunicators, -1);
  uint64_t begin_ = 0;
};

}  // namespace

size_t clocks_at(const std::vector<EventFile::Clocks>& clocks, base::MonoNs mono_ns) {
  const auto after =
      std::upper_bound(clocks.begin(), clocks.end(), mono_ns,
                       [](base::MonoNs at, const EventFile::Clocks& pair) { return at < pair.mono_ns; });
  return after == clocks.begin() ? 0 : static_cast<size_t>(after - clocks.begin()) - 1;
}

base::Result<EventFile> parse_event_file(std::string_view bytes) {
  EventFile out;
  XPURUN_TRY_ASSIGN(out.header, records::take_header(bytes, kEventsSchema));
  out.clocks.push_back({out.header.mono_ns, out.header.wall_ns});
  out.events.reserve(std::min(bytes.size() / kUsualEvent, kMostReserved));
  EventFileParser parser(out);
  out.complete =
      records::each_record(bytes, [&](uint8_t tag, Fields body) { return parser.record(tag, body); });
  std::stable_sort(out.clocks.begin(), out.clocks.end(),
                   [](const auto& a, const auto& b) { return a.mono_ns < b.mono_ns; });
  return out;
}

base::Result<EventFile> load_event_file(const std::string& path) {
  XPURUN_TRY_ASSIGN(const std::string bytes, base::read_regular_file(path, records::kLargestFile));
  auto parsed = parse_event_file(bytes);
  if (!parsed) {
    return base::fail(base::Error(parsed.error()).context(path));
  }
  return parsed;
}

}  // namespace xpurun::model
