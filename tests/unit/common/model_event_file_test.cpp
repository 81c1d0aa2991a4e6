#include "common/base/packing.h"
#include "common/model/timing/event_encoder.h"
#include "common/model/timing/event_records.h"

#include <doctest/doctest.h>

#include <random>

using namespace xpurun::model;
namespace wire = xpurun::wire;

namespace {

EventKey key_of(wire::OpClass op_class, uint32_t comm) {
  EventKey key{};
  key.op_class = static_cast<uint8_t>(op_class);
  key.comm = comm;
  return key;
}

bool same(const TimedEvent& a, const TimedEvent& b) {
  return a == b;
}

// Events like those of a training step: on average 300 us apart, some overlapping, on three streams.
std::vector<TimedEvent> training(size_t count) {
  std::mt19937 random(7);
  const auto below = [&](uint64_t n) { return random() % n; };
  std::vector<TimedEvent> out;
  std::vector<uint32_t> sequence(40);
  uint64_t now = 86'400'000'000'000;
  while (out.size() < count) {
    now += 100'000 + below(400'000);
    const auto op = static_cast<uint32_t>(below(40));
    out.push_back(
        {.begin_ns = now - below(500'000),
         .duration_ns = 20'000 + below(3'000'000),
         .op = op,
         .sequence = sequence[op] += 1 + static_cast<uint32_t>(below(3)) / 2,
         .delay_us = static_cast<uint32_t>(below(3'000)),
         .stream = static_cast<uint16_t>(op % 3),
         .source = static_cast<uint8_t>(1 + op % 4),
         .flags = static_cast<uint8_t>(op % 4),
         .how = {static_cast<uint8_t>(op % 3), static_cast<uint8_t>(op % 2 + below(200) / 199), 8}});
  }
  return out;
}

std::string file_of(const std::vector<TimedEvent>& events, size_t events_a_block) {
  EventEncoder encoder;
  std::string out = EventEncoder::header({.rank = 3,
                                          .local_rank = 1,
                                          .pid = 77,
                                          .host = "a\"b",
                                          .gpu = "H200",
                                          .gpu_uuid = "GPU-1",
                                          .mono_ns = 5,
                                          .wall_ns = 6});
  for (size_t i = 0; i < events.size(); ++i) {
    const uint32_t op = events[i].op;
    if (!encoder.knows(op)) {
      encoder.define(op, key_of(wire::OpClass::matmul, wire::kNoComm), 1000 + op);
    }
    encoder.add(events[i]);
    if (i % events_a_block == events_a_block - 1) {
      out += encoder.take_block();
    }
  }
  return out + encoder.take_block();
}

}  // namespace

TEST_CASE("events survive writing and reading, at about twelve bytes each") {
  const auto events = training(20'000);
  const std::string bytes = file_of(events, 100);
  CHECK(bytes.size() <= 16 * events.size());
  const auto file = parse_event_file(bytes);
  REQUIRE(file);
  CHECK(file->complete);
  CHECK(file->header.rank == 3);
  CHECK(file->header.host == "a\"b");
  REQUIRE(file->events.size() == events.size());
  size_t different = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    different += same(file->events[i].event, events[i]) ? 0 : 1;
  }
  CHECK(different == 0);
  CHECK(file->ops.at(39).work == 1039);
  CHECK(file->ops.at(39).key.op_class == static_cast<uint8_t>(wire::OpClass::matmul));
}

TEST_CASE("extreme numbers") {
  std::vector<TimedEvent> events = {
      {UINT64_MAX, UINT64_MAX, 1023, UINT32_MAX, UINT32_MAX, UINT16_MAX, 7, 1},
      {0, 0, 1023, 0, 0, 0, 0, 0},
      {1, 1, 0, 1, 1, 1, 1, 0},
      {uint64_t{1} << 63, 1, 0, uint32_t{1} << 31, 1, 1, 1, 0},
  };
  const auto file = parse_event_file(file_of(events, 1));
  REQUIRE(file);
  REQUIRE(file->events.size() == events.size());
  for (size_t i = 0; i < events.size(); ++i) {
    CHECK(same(file->events[i].event, events[i]));
  }
}

TEST_CASE("communicators, losses and clocks") {
  EventEncoder encoder;
  std::string bytes = EventEncoder::header({});
  const EventCommunicator first{.slot = 2, .identity = 11, .rank = 1, .nranks = 8, .name = "tp"};
  EventCommunicator second = first;
  second.identity = 12;
  encoder.define(first);
  const size_t one = encoder.pending();
  encoder.define(first);
  CHECK(encoder.pending() == one);
  encoder.define(9, key_of(wire::OpClass::collective, 2), 4096);
  encoder.add({.begin_ns = 1, .op = 9});
  encoder.define(second);
  encoder.add({.begin_ns = 2, .op = 9});
  encoder.lost(300);
  encoder.clocks(1000, -5);
  bytes += encoder.take_block();
  CHECK(encoder.take_block().empty());
  const auto file = parse_event_file(bytes);
  REQUIRE(file);
  REQUIRE(file->communicators.size() == 2);
  CHECK(file->communicators[1] == second);
  REQUIRE(file->events.size() == 2);
  CHECK(file->events[0].communicator == 0);
  CHECK(file->events[1].communicator == 1);
  CHECK(file->lost == 300);
  REQUIRE(file->clocks.size() == 2);
  CHECK(file->clocks[1].mono_ns == 1000);
  CHECK(file->clocks[1].wall_ns == -5);
}

TEST_CASE("clocks are in order, whatever the order in the file, and found by time") {
  std::string bytes = EventEncoder::header({.rank = 0, .mono_ns = 500, .wall_ns = 1});
  EventEncoder encoder;
  for (const base::MonoNs at : {9000, 1000, 3000}) {
    encoder.clocks(at, 2 * at);
  }
  const auto file = parse_event_file(bytes + encoder.take_block());
  REQUIRE(file);
  REQUIRE(file->clocks.size() == 4);
  const auto found = [&](base::MonoNs at) { return file->clocks[clocks_at(file->clocks, at)].mono_ns; };
  CHECK(found(0) == 500);
  CHECK(found(999) == 500);
  CHECK(found(1000) == 1000);
  CHECK(found(8999) == 3000);
  CHECK(found(INT64_MAX) == 9000);
}

TEST_CASE("a file truncated anywhere is readable up to that point") {
  const auto events = training(200);
  const std::string whole = file_of(events, 10);
  const size_t head = EventEncoder::header({.rank = 3,
                                            .local_rank = 1,
                                            .pid = 77,
                                            .host = "a\"b",
                                            .gpu = "H200",
                                            .gpu_uuid = "GPU-1",
                                            .mono_ns = 5,
                                            .wall_ns = 6})
                          .size();
  size_t most = 0;
  for (size_t size = head; size < whole.size(); ++size) {
    const auto file = parse_event_file(std::string_view(whole).substr(0, size));
    REQUIRE(file);
    REQUIRE(file->events.size() >= most);
    REQUIRE(file->events.size() % 10 == 0);
    most = file->events.size();
  }
  CHECK(most == 190);
}

TEST_CASE("reading stops safely at damaged data") {
  const std::string whole = file_of(training(200), 10);
  const size_t head = whole.find('\n', whole.find('\n') + 1) + 1;
  size_t unharmed = 0;
  for (size_t at = head; at < whole.size(); at += 3) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x55);
    const auto file = parse_event_file(bytes);
    REQUIRE(file);
    unharmed += file->complete ? 1 : 0;
  }
  CHECK(unharmed == 0);
  for (const char* bad : {"", "xpurun.events/1\n{}\n", "xpurun.events/3\n{}\n", "xpurun.events/2",
                          "xpurun.events/2\n{", "\xff\n"}) {
    CHECK_FALSE(parse_event_file(bad));
  }
  CHECK_FALSE(parse_event_file("xpurun.events/2\n{\"rank\":1e99}\n"));
  CHECK(parse_event_file(EventEncoder::header({})));
}

namespace {

void put_record(std::string& to, uint8_t tag, const std::string& body) {
  to += static_cast<char>(tag);
  records::put_text(to, body);
}

std::string block_of(const std::string& payload) {
  std::string out;
  records::put_fixed(out, payload.size(), 4);
  records::put_fixed(out, base::crc32(payload), 4);
  return out + payload;
}

}  // namespace

TEST_CASE("the bytes match the specification in any byte order of the machine") {
  EventEncoder encoder;
  encoder.define({.slot = 2, .identity = 0x0102030405060708, .rank = -1, .nranks = 300, .name = "tp"});
  CHECK(encoder.take_block() ==
        std::string("\x11\0\0\0", 4) + std::string("\xcd\xcf\xb4\x33", 4) +
            std::string("\x81\x0f\x02\x08\x07\x06\x05\x04\x03\x02\x01\x01\xd8\x04\x02tp", 17));
}

TEST_CASE("an entry keeps all of its fields") {
  EventKey key{};
  key.api = static_cast<uint16_t>(wire::Api::ncclAllReduce);
  key.op_class = static_cast<uint8_t>(wire::OpClass::collective);
  key.flags = 5;
  for (uint8_t i = 0; i < 4; ++i) {
    key.dtype[i] = static_cast<uint8_t>(200 + i);
  }
  key.compute = 6;
  key.trans = 0x21;
  key.epilogue = 40000;
  key.batch = 70000;
  key.m = -1;
  key.n = INT64_MIN;
  key.k = INT64_MAX;
  key.comm = 127;
  key.peer = -1;
  key.copy = 3;
  key.pinned = 2;
  EventEncoder encoder;
  encoder.define(7, key, UINT64_MAX);
  const auto file = parse_event_file(EventEncoder::header({}) + encoder.take_block());
  REQUIRE(file);
  const EventFile::Op& op = file->ops.at(7);
  CHECK(op.key == key);
  CHECK(op.function == "ncclAllReduce");
  CHECK(op.work == UINT64_MAX);
}

TEST_CASE("records and fields of a later version are skipped, missing fields are zero") {
  EventEncoder encoder;
  encoder.define(1, key_of(wire::OpClass::matmul, wire::kNoComm), 9);
  encoder.add({.begin_ns = 5, .duration_ns = 6, .op = 1});
  std::string bytes = EventEncoder::header({}) + encoder.take_block();
  std::string payload;
  put_record(payload, 0xf0, "anything");
  // A function of a later version, with a field that this version does not know.
  const std::string op("\x02\nncclFuture\x01\x00\x07", 15);
  put_record(payload, records::kOp, op + std::string(40, '\1'));
  // An event whose delay is missing, and one with a field too many.
  const std::string event("\x02\x02\x03\x02", 4);
  put_record(payload, records::kSameStream, event);
  put_record(payload, records::kSameStream, event + "\x08\x63");
  const auto file = parse_event_file(bytes + block_of(payload));
  REQUIRE(file);
  CHECK(file->complete);
  CHECK(file->unknown == 1);
  CHECK(file->ops.at(2).function == "ncclFuture");
  CHECK(file->ops.at(2).key.api == wire::kApiCount);
  REQUIRE(file->events.size() == 3);
  CHECK(file->events[1].event.begin_ns == 6);
  CHECK(file->events[1].event.delay_us == 0);
  CHECK(file->events[2].event.delay_us == 8);
}
