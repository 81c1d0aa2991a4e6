#include "common/model/timing/event_records.h"
#include "common/model/timing/record_file.h"
#include "common/model/timing/span_encoder.h"
#include "common/model/timing/span_file.h"

#include <doctest/doctest.h>

#include <random>

using namespace xpurun::model;

namespace {

bool same(const Span& a, const Span& b) {
  return a.begin_ns == b.begin_ns && a.duration_ns == b.duration_ns && a.cpu_ns == b.cpu_ns &&
         a.stage == b.stage && a.name == b.name && a.place == b.place && a.thread == b.thread &&
         a.group == b.group && a.sequence == b.sequence && a.bytes == b.bytes;
}

bool same(const LoadSample& a, const LoadSample& b) {
  return a.at_ns == b.at_ns && a.cpu_ns == b.cpu_ns && a.run_delay_ns == b.run_delay_ns &&
         a.major_faults == b.major_faults && a.throttled_ns == b.throttled_ns && a.stolen_ns == b.stolen_ns &&
         a.resident_bytes == b.resident_bytes && a.private_bytes == b.private_bytes &&
         a.helpers_bytes == b.helpers_bytes && a.gpu.allocated_bytes == b.gpu.allocated_bytes &&
         a.gpu.reserved_bytes == b.gpu.reserved_bytes && a.gpu.peak_bytes == b.gpu.peak_bytes &&
         a.gpu.total_bytes == b.gpu.total_bytes;
}

const EventFileHeader kHeader{
    .rank = 3, .local_rank = 1, .pid = 77, .host = "a\"b", .mono_ns = 5, .wall_ns = 6};

// The stages of training steps of about 200 ms: every second one a collective.
struct Training {
  explicit Training(size_t count, size_t a_block) : bytes(SpanEncoder::header(kHeader)) {
    std::mt19937 random(7);
    const auto below = [&](uint64_t n) { return static_cast<int64_t>(random() % n); };
    SpanEncoder encoder;
    xpurun::base::MonoNs now = 86'400'000'000'000;
    uint64_t sequence = 0;
    while (spans.size() < count) {
      const bool collective = spans.size() % 2 == 0;
      now += 20'000'000 + below(40'000'000);
      Span span{.begin_ns = now - below(20'000'000), .stage = Stage::communication};
      span.duration_ns = now - span.begin_ns;
      span.name = encoder.name(collective ? "all_reduce" : "SGD.step");
      span.place = encoder.name("train.py:40 (train)");
      span.thread = 4711;
      if (collective) {
        span.group = encoder.name("1234567890abcdef.0");
        span.sequence = ++sequence;
        span.bytes = 4'194'304;
      } else {
        span.stage = static_cast<Stage>(below(kNames<Stage>.size()));
        span.cpu_ns = span.duration_ns / 2;
      }
      encoder.add(span);
      spans.push_back(span);
      if (spans.size() % a_block == 0) {
        bytes += encoder.take_block();
      }
    }
    bytes += encoder.take_block();
  }

  std::vector<Span> spans;
  std::string bytes;
};

std::string block_of(uint8_t tag, const std::string& body) {
  std::string payload;
  records::put_record(payload, tag, body);
  return records::block_of(payload);
}

}  // namespace

TEST_CASE("spans survive writing and reading, at about sixteen bytes each") {
  const Training training(20'000, 100);
  CHECK(training.bytes.size() <= 20 * training.spans.size());
  const auto file = parse_span_file(training.bytes);
  REQUIRE(file);
  CHECK(file->complete);
  CHECK(file->header.rank == 3);
  CHECK(file->header.host == "a\"b");
  REQUIRE(file->spans.size() == training.spans.size());
  size_t different = 0;
  for (size_t i = 0; i < training.spans.size(); ++i) {
    different += same(file->spans[i], training.spans[i]) ? 0 : 1;
  }
  CHECK(different == 0);
  CHECK(file->names[file->spans[0].name] == "all_reduce");
  CHECK(file->names[file->spans[0].group] == "1234567890abcdef.0");
  CHECK(file->names[0].empty());
}

TEST_CASE("load samples, losses and equal names") {
  SpanEncoder encoder;
  CHECK(encoder.name("") == 0);
  CHECK(encoder.name("a") == 1);
  CHECK(encoder.name("b") == 2);
  const size_t pending = encoder.pending();
  CHECK(encoder.name("a") == 1);
  CHECK(encoder.pending() == pending);
  const LoadSample first{.at_ns = 1'000'000'000, .cpu_ns = 7, .run_delay_ns = -1, .major_faults = 3};
  const LoadSample second{
      .at_ns = 2'000'000'000, .cpu_ns = 900'000'007, .run_delay_ns = 5, .major_faults = 3};
  // Lost CPU time that becomes unknown, and known again.
  LoadSample third = second;
  third.throttled_ns = 310'000'000;
  LoadSample fourth = second;
  fourth.throttled_ns = 320'000'000;
  fourth.stolen_ns = 12;
  // Memory that becomes known, unknown, and known again.
  third.resident_bytes = 9'000;
  third.private_bytes = 4'000;
  fourth.resident_bytes = 8'000;
  fourth.private_bytes = 5'000;
  fourth.helpers_bytes = 1;
  third.gpu = {.allocated_bytes = 0, .reserved_bytes = 5, .peak_bytes = 7, .total_bytes = 85'899'345'920};
  fourth.gpu = {.allocated_bytes = 3, .reserved_bytes = 4, .peak_bytes = 7, .total_bytes = 85'899'345'920};
  encoder.add(first);
  encoder.add(second);
  for (const LoadSample& one : {third, second, fourth}) {
    encoder.add(one);
  }
  encoder.lost(300);
  encoder.lost(1);
  const auto file = parse_span_file(SpanEncoder::header({}) + encoder.take_block());
  CHECK(encoder.take_block().empty());
  REQUIRE(file);
  REQUIRE(file->loads.size() == 5);
  CHECK(same(file->loads[0], first));
  CHECK(same(file->loads[1], second));
  CHECK(same(file->loads[2], third));
  CHECK(same(file->loads[3], second));
  CHECK(same(file->loads[4], fourth));
  CHECK(file->lost == 301);
  CHECK(file->complete);
}

TEST_CASE("times outside of the range are moved into it") {
  SpanEncoder encoder;
  encoder.add(Span{.begin_ns = -5, .duration_ns = INT64_MIN, .cpu_ns = INT64_MAX});
  encoder.add(
      Span{.begin_ns = INT64_MAX, .duration_ns = INT64_MAX, .sequence = UINT64_MAX, .bytes = UINT64_MAX});
  encoder.add(Span{.begin_ns = 0, .duration_ns = INT64_MAX, .thread = UINT32_MAX});
  encoder.add(
      LoadSample{.at_ns = INT64_MIN, .cpu_ns = INT64_MAX, .run_delay_ns = INT64_MIN, .major_faults = -1});
  const auto file = parse_span_file(SpanEncoder::header({}) + encoder.take_block());
  REQUIRE(file);
  CHECK(file->complete);
  REQUIRE(file->spans.size() == 3);
  CHECK(file->spans[0].begin_ns == 0);
  CHECK(file->spans[0].duration_ns == 0);
  CHECK(file->spans[1].duration_ns == 0);
  CHECK(file->spans[1].sequence == UINT64_MAX);
  CHECK(file->spans[2].duration_ns == (int64_t{1} << 62) - 1);
  CHECK(file->spans[2].thread == UINT32_MAX);
  REQUIRE(file->loads.size() == 1);
  CHECK(same(file->loads[0], {0, (int64_t{1} << 62) - 1, -1, 0}));
}

TEST_CASE("a span file truncated anywhere is readable up to that point") {
  const Training training(200, 10);
  size_t most = 0;
  for (size_t size = SpanEncoder::header(kHeader).size(); size < training.bytes.size(); ++size) {
    const auto file = parse_span_file(std::string_view(training.bytes).substr(0, size));
    REQUIRE(file);
    REQUIRE(file->spans.size() >= most);
    REQUIRE(file->spans.size() % 10 == 0);
    most = file->spans.size();
  }
  CHECK(most == 190);
}

TEST_CASE("reading of span files stops safely at damaged data") {
  const Training training(200, 10);
  size_t unharmed = 0;
  for (size_t at = SpanEncoder::header(kHeader).size(); at < training.bytes.size(); at += 3) {
    std::string bytes = training.bytes;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x55);
    const auto file = parse_span_file(bytes);
    REQUIRE(file);
    unharmed += file->complete ? 1 : 0;
  }
  CHECK(unharmed == 0);
  for (const char* bad : {"", "xpurun.events/2\n{}\n", "xpurun.spans/2\n{}\n", "xpurun.spans/1",
                          "xpurun.spans/1\n{", "\xff\n", "xpurun.spans/1\n{\"rank\":1e99}\n"}) {
    CHECK_FALSE(parse_span_file(bad));
  }
}

TEST_CASE("a span with an unknown name, or that ends before time 0, is damage") {
  const std::string head = SpanEncoder::header({});
  for (const std::string& body : {std::string("\x10\x02\x01\x00\x05", 5),     // no name 1
                                  std::string("\x10\x02\x00\x01\x05", 5),     // no place 1
                                  std::string("\x02\x02\x00\x00\x05", 5),     // longer than since time 0
                                  std::string("\x01\x00\x00\x00\x05", 5),     // ends at -1
                                  std::string("\x10\x02\x00\x00\x80", 5)}) {  // ends inside of a number
    const auto file = parse_span_file(head + block_of(0, body));
    REQUIRE(file);
    CHECK_FALSE(file->complete);
    CHECK(file->spans.empty());
  }
  CHECK_FALSE(parse_span_file(head + block_of(0x81, "\x01"))->complete);
  CHECK_FALSE(parse_span_file(head + block_of(0x88, "\x05"))->complete);  // a backend without a name
}

TEST_CASE("the bytes of a span match the specification, and later versions are skipped") {
  SpanEncoder encoder;
  const uint32_t name = encoder.name("tp");
  encoder.add(Span{.begin_ns = 6,
                   .duration_ns = 2,
                   .cpu_ns = 1,
                   .stage = Stage::communication,
                   .place = name,
                   .thread = 300,
                   .group = name,
                   .sequence = 4,
                   .bytes = 200});
  const std::string payload("\x80\x03\x02tp\x65\x0b\x10\x02\x00\x01\xac\x02\x01\x01\x08\xc8\x01", 18);
  CHECK(encoder.take_block() == records::block_of(payload));
  // A record and a stage of a later version, a span with a field too many, and one without its last fields.
  const std::string later = block_of(0xf0, "anything") +
                            block_of(0x1f, std::string("\x10\x02\x00\x00\x63", 5)) +
                            block_of(0x41, std::string("\x02\x02\x00\x00\x07", 5));
  const auto file = parse_span_file(SpanEncoder::header({}) + later);
  REQUIRE(file);
  CHECK(file->complete);
  REQUIRE(file->spans.size() == 2);
  CHECK(file->spans[0].stage == Stage::other);
  CHECK(file->spans[1].stage == Stage::data);
  CHECK(file->spans[1].begin_ns == 7);
  CHECK(file->spans[1].thread == 7);
  CHECK(file->spans[1].bytes == 0);
}

TEST_CASE("sums of short calls keep all of their fields, between spans") {
  SpanEncoder encoder;
  std::string bytes = SpanEncoder::header(kHeader);
  Span span{.begin_ns = 1'000, .duration_ns = 500, .stage = Stage::function, .name = encoder.name("m:f")};
  encoder.add(span);
  encoder.add(ShortCalls{.begin_ns = 700,
                         .duration_ns = 90'000,
                         .total_ns = 4'000,
                         .calls = 1ULL << 40,
                         .name = encoder.name("m:g"),
                         .thread = 8});
  span.begin_ns = 200'000;
  encoder.add(span);
  bytes += encoder.take_block();
  const auto file = parse_span_file(bytes);
  REQUIRE(file);
  CHECK(file->complete);
  REQUIRE(file->short_calls.size() == 1);
  const ShortCalls& calls = file->short_calls.front();
  CHECK(calls.begin_ns == 700);
  CHECK(calls.duration_ns == 90'000);
  CHECK(calls.total_ns == 4'000);
  CHECK(calls.calls == 1ULL << 40);
  CHECK(file->names[calls.name] == "m:g");
  CHECK(calls.thread == 8);
  REQUIRE(file->spans.size() == 2);
  CHECK(file->spans[1].begin_ns == 200'000);
}

TEST_CASE("a file says which spans were inferred, and a name proves nothing") {
  SpanEncoder encoder;
  std::string bytes = SpanEncoder::header(kHeader);
  Span span{.begin_ns = 10, .duration_ns = 5, .stage = Stage::forward, .name = encoder.name("forward")};
  span.inferred = true;
  encoder.add(span);
  encoder.add(span);
  span.name = encoder.name("load (inferred)");
  span.inferred = false;
  encoder.add(span);
  bytes += encoder.take_block();
  const auto file = parse_span_file(bytes);
  REQUIRE(file);
  CHECK(file->complete);
  REQUIRE(file->spans.size() == 3);
  CHECK(file->spans[0].inferred);
  CHECK(file->spans[1].inferred);
  CHECK_FALSE(file->spans[2].inferred);
}

TEST_CASE("a sum of short calls with an impossible time or name is damage") {
  for (const ShortCalls& bad :
       {ShortCalls{.begin_ns = 1, .name = 5}, ShortCalls{.begin_ns = 1, .name = UINT32_MAX}}) {
    SpanEncoder encoder;
    encoder.add(bad);
    const auto file = parse_span_file(SpanEncoder::header(kHeader) + encoder.take_block());
    REQUIRE(file);
    CHECK_FALSE(file->complete);
    CHECK(file->short_calls.empty());
  }
}
