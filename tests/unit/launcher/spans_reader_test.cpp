// Spans in the memory shared with Python: those of the bootstrap, and any bytes.
#include "launcher/spans/process_load.h"
#include "launcher/spans/span_reader.h"

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <random>
#include <unistd.h>

using namespace xpurun;
using launcher::SpanReader;

namespace {

class Python {
 public:
  Python() : memory_(std::make_unique<wire::PythonSegment>()) {
    std::memset(memory_.get(), 0, sizeof *memory_);
  }

  wire::PythonSegment& memory() { return *memory_; }

  uint32_t text(std::string_view value) {
    const uint32_t ref = used_;
    const auto length = static_cast<uint32_t>(value.size());
    std::memcpy(memory_->text + ref, &length, sizeof length);
    std::memcpy(memory_->text + ref + sizeof length, value.data(), value.size());
    used_ += sizeof length + ((length + 3) & ~3U);
    return ref;
  }

  void write(wire::PythonSpan span) {
    span.number = ++written_;
    memory_->spans[(span.number - 1) % wire::kPythonSpans] = span;
  }

 private:
  std::unique_ptr<wire::PythonSegment> memory_;
  uint32_t used_ = 4;
  uint64_t written_ = 0;
};

}  // namespace

TEST_CASE("a span keeps all of its fields") {
  Python python;
  python.memory().group[2].id = python.text("abc.0");
  python.write({.begin_ns = 100,
                .duration_ns = 50,
                .cpu_ns = -1,
                .sequence = 7,
                .bytes = 4096,
                .name = python.text("all_reduce"),
                .place = python.text("train.py:40 (train)"),
                .thread = 4711,
                .group = 3,
                .stage = static_cast<uint8_t>(model::Stage::communication)});
  SpanReader reader;
  const auto spans = reader.read(python.memory());
  REQUIRE(spans.size() == 1);
  const model::Span& s = spans[0];
  CHECK(s.begin_ns == 100);
  CHECK(s.duration_ns == 50);
  CHECK(s.cpu_ns == -1);
  CHECK(s.stage == model::Stage::communication);
  CHECK(reader.names()[s.name] == "all_reduce");
  CHECK(reader.names()[s.place] == "train.py:40 (train)");
  CHECK(reader.names()[s.group] == "abc.0");
  CHECK_FALSE(s.inferred);
  python.write({.begin_ns = 1, .name = python.text("forward"), .flags = wire::kInferred});
  CHECK(reader.read(python.memory()).at(0).inferred);
  CHECK(s.sequence == 7);
  CHECK(s.bytes == 4096);
  CHECK(s.thread == 4711);
  CHECK(reader.read(python.memory()).empty());
  CHECK(reader.lost() == 0);
}

TEST_CASE("a send and its recv are of one group with one number on both ranks") {
  // Rank 1 of the group sends to rank 2 for the fifth time.
  const auto span_of = [](int32_t rank, uint8_t flags, uint64_t peer) {
    Python python;
    python.memory().group[0].id = python.text("abc.0");
    python.memory().group[0].rank = rank;
    python.write({.begin_ns = 100,
                  .duration_ns = 50,
                  .sequence = 5 | peer << wire::kPeerShift,
                  .name = python.text("send"),
                  .group = 1,
                  .stage = static_cast<uint8_t>(model::Stage::communication),
                  .flags = flags});
    SpanReader reader;
    const auto spans = reader.read(python.memory());
    REQUIRE(spans.size() == 1);
    CHECK(spans[0].sequence == 5);
    return reader.names()[spans[0].group];
  };
  CHECK(span_of(1, wire::kSends, 2) == "abc.0 1>2");
  CHECK(span_of(2, wire::kReceives, 1) == "abc.0 1>2");
  CHECK(span_of(1, wire::kReceives, 2) == "abc.0 2>1");
  CHECK(span_of(1, wire::kSends | wire::kObjects, 2) == "abc.0 1>2 objects");
}

TEST_CASE("a reader that is late counts the spans that were overwritten") {
  Python python;
  SpanReader reader;
  for (uint64_t i = 0; i < 100; ++i) {
    python.write({.begin_ns = i});
  }
  CHECK(reader.read(python.memory()).size() == 100);
  for (uint64_t i = 100; i < 100 + wire::kPythonSpans + 30; ++i) {
    python.write({.begin_ns = i});
  }
  const auto spans = reader.read(python.memory());
  CHECK(spans.size() == wire::kPythonSpans);
  CHECK(spans.front().begin_ns == 130);
  CHECK(reader.lost() == 30);
}

TEST_CASE("a span that is being written waits for the next read") {
  Python python;
  SpanReader reader;
  python.write({.begin_ns = 1});
  python.write({.begin_ns = 2});
  python.write({.begin_ns = 3});
  python.memory().spans[1].number = 0;
  CHECK(reader.read(python.memory()).size() == 1);
  python.memory().spans[1].number = 2;
  const auto spans = reader.read(python.memory());
  REQUIRE(spans.size() == 2);
  CHECK(spans[1].begin_ns == 3);
}

TEST_CASE("impossible times, stages, groups and texts") {
  Python python;
  python.write({.begin_ns = UINT64_MAX, .duration_ns = 1});
  python.write({.begin_ns = 1, .duration_ns = INT64_MAX});
  python.write({.begin_ns = 1, .cpu_ns = INT64_MIN, .name = 2'000'000, .place = 3, .group = 65, .stage = 99});
  SpanReader reader;
  const auto spans = reader.read(python.memory());
  REQUIRE(spans.size() == 1);
  CHECK(spans[0].stage == model::Stage::other);
  CHECK(spans[0].cpu_ns == -1);
  CHECK(spans[0].name == 0);
  CHECK(spans[0].group == 0);
  CHECK(reader.lost() == 2);
}

TEST_CASE("any bytes become spans that can be used, in bounded time") {
  std::mt19937 random(1);
  Python python;
  auto* bytes = reinterpret_cast<unsigned char*>(&python.memory());
  for (size_t i = offsetof(wire::PythonSegment, group); i < sizeof(wire::PythonSegment); ++i) {
    bytes[i] = static_cast<unsigned char>(random());
  }
  SpanReader reader;
  for (uint64_t round = 0; round < 50; ++round) {
    // Numbers that run ahead, jump back and repeat.
    for (uint64_t i = 0; i < wire::kPythonSpans; ++i) {
      python.memory().spans[i].number = i + 1 + wire::kPythonSpans * (random() % 3 + round) + random() % 2;
    }
    for (const model::Span& span : reader.read(python.memory())) {
      REQUIRE(span.name < reader.names().size());
      REQUIRE(span.place < reader.names().size());
      REQUIRE(span.group < reader.names().size());
      REQUIRE(span.begin_ns >= 0);
      REQUIRE(span.begin_ns + span.duration_ns >= span.begin_ns);
    }
  }
  CHECK(reader.names().size() <= 20'000);
}

TEST_CASE("the load of a process grows, and an ended process has none") {
  launcher::ProcessLoad load(::getpid());
  const auto before = load.sample(1);
  REQUIRE(before);
  CHECK(before->cpu_ns > 0);
  volatile uint64_t sum = 0;
  for (uint64_t i = 0; i < 5'000'000; ++i) {
    sum = sum + i;
  }
  const auto after = load.sample(2);
  REQUIRE(after);
  CHECK(after->at_ns == 2);
  CHECK(after->cpu_ns > before->cpu_ns);
  CHECK(after->run_delay_ns >= before->run_delay_ns);
  CHECK(after->major_faults >= before->major_faults);
  CHECK_FALSE(launcher::ProcessLoad(0x7ffffff0).sample(1));
}
