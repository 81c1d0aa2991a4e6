#include "common/model/timing/event_encoder.h"

namespace xpurun::model {

using records::put_signed;
using records::put_varint;

std::string EventEncoder::header(const EventFileHeader& h) {
  return records::header_lines(kEventsSchema, h);
}

void EventEncoder::put_record(uint8_t tag) {
  records::put_record(payload_, tag, body_);
  body_.clear();
}

void EventEncoder::define(uint32_t op, const EventKey& key, uint64_t work) {
  define(op, key, work, key.api < wire::kApiCount ? wire::kApis[key.api].name : "");
}

void EventEncoder::define(uint32_t op, const EventKey& key, uint64_t work, std::string_view function) {
  put_varint(body_, op);
  records::put_text(body_, function);
  put_varint(body_, key.op_class);
  put_varint(body_, key.flags);
  put_varint(body_, work);
  for (const uint8_t type : key.dtype) {
    put_varint(body_, type);
  }
  put_varint(body_, key.compute);
  put_varint(body_, key.trans);
  put_varint(body_, key.epilogue);
  put_varint(body_, key.batch);
  for (const int64_t size : {key.m, key.n, key.k}) {
    put_signed(body_, size);
  }
  put_varint(body_, key.comm < kMostCommunicators ? uint64_t{key.comm} + 1 : 0);
  put_signed(body_, key.peer);
  put_varint(body_, key.copy);
  put_varint(body_, key.pinned);
  put_record(records::kOp);
  ops_[op].defined = true;
}

void EventEncoder::define(const EventCommunicator& comm) {
  const auto [it, is_new] = comms_.try_emplace(comm.slot, comm);
  if (!is_new && it->second == comm) {
    return;
  }
  it->second = comm;
  put_varint(body_, comm.slot);
  records::put_fixed(body_, comm.identity, 8);
  put_signed(body_, comm.rank);
  put_signed(body_, comm.nranks);
  records::put_text(body_, comm.name);
  put_record(records::kCommunicator);
}

void EventEncoder::lost(uint64_t count) {
  put_varint(body_, count);
  put_record(records::kLost);
}

void EventEncoder::clocks(base::MonoNs mono_ns, int64_t wall_ns) {
  records::put_fixed(body_, static_cast<uint64_t>(mono_ns), 8);
  records::put_fixed(body_, static_cast<uint64_t>(wall_ns), 8);
  put_record(records::kClocks);
}

void EventEncoder::add(const TimedEvent& event) {
  Op& op = ops_[event.op];
  const EventHow& how = event.how;
  if (how != op.how) {
    for (const uint32_t n :
         {event.op, uint32_t{how.algorithm}, uint32_t{how.protocol}, uint32_t{how.channels}}) {
      put_varint(body_, n);
    }
    put_record(records::kHow);
    op.how = how;
  }
  const bool same_stream = event.stream == op.stream;
  const bool next = event.sequence == op.sequence + 1;
  put_varint(body_, event.op);
  put_signed(body_, static_cast<int64_t>(event.begin_ns - last_begin_));
  put_varint(body_, event.duration_ns);
  if (!next) {
    // 32-bit numbers wrap around.
    put_signed(body_, static_cast<int32_t>(event.sequence - op.sequence));
  }
  if (!same_stream) {
    put_varint(body_, event.stream);
  }
  put_varint(body_, event.delay_us);
  put_record(static_cast<uint8_t>((event.source & records::kSourceMask) |
                                  ((event.flags & wire::kEventHostBegin) != 0 ? records::kHostBegin : 0) |
                                  ((event.flags & wire::kEventFirstOfStep) != 0 ? records::kFirstOfStep : 0) |
                                  (same_stream ? records::kSameStream : 0) |
                                  (next ? records::kNextSequence : 0)));
  op.stream = event.stream;
  op.sequence = event.sequence;
  last_begin_ = event.begin_ns;
}

std::string EventEncoder::take_block() {
  std::string out = records::block_of(payload_);
  payload_.clear();
  return out;
}

}  // namespace xpurun::model
