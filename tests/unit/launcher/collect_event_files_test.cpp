#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "common/model/speed/trace_manifest.h"
#include "launcher/collect/event_files.h"
#include "launcher/collect/trace.h"
#include "launcher/storage/direct_storage.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

using namespace xpurun::launcher;
namespace base = xpurun::base;
namespace model = xpurun::model;
namespace wire = xpurun::wire;

namespace {

DirectStorage disk;

// A rank's segment with a matmul as entry 0, a collective on communicator 3 as entry 1, a copy as entry 2.
std::unique_ptr<wire::Segment> segment() {
  auto memory = std::make_unique<wire::Segment>();
  memory->ops[0].key.op_class = static_cast<uint8_t>(wire::OpClass::matmul);
  memory->ops[0].key.comm = wire::kNoComm;
  memory->ops[0].calls = 10;
  memory->ops[0].work = 1000;
  memory->ops[1].key.op_class = static_cast<uint8_t>(wire::OpClass::collective);
  memory->ops[1].key.comm = 3;
  memory->ops[2].key.op_class = static_cast<uint8_t>(wire::OpClass::memory);
  memory->ops[2].key.comm = wire::kNoComm;
  memory->comms[3].identity = 99;
  memory->comms[3].nranks = 8;
  std::copy_n("tensor", 7, memory->comms[3].name);
  return memory;
}

std::vector<wire::Event> events(uint32_t first, uint32_t count) {
  std::vector<wire::Event> out;
  for (uint32_t i = first; i < first + count; ++i) {
    out.push_back(
        {.begin_ns = 1'000'000 + i * uint64_t{200'000},
         .duration_ns = 50'000 + i % 7,
         .op = i % 3,
         .sequence = i,
         .delay_us = 20,
         .stream = 1,
         .source = static_cast<uint8_t>(i % 3 == 2 ? wire::Source::host_call : wire::Source::events)});
  }
  return out;
}

std::vector<std::string> files_in(const std::string& dir) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    out.push_back(entry.path().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string make_dir() {
  auto dir = base::TemporaryDirectory::create("event-files");
  REQUIRE(dir);
  static std::vector<base::TemporaryDirectory> kept;
  kept.push_back(std::move(*dir));
  return kept.back().path();
}

}  // namespace

TEST_CASE("events reach the rank's file, with their table entries") {
  const std::string dir = make_dir();
  const auto memory = segment();
  EventFiles files(disk, dir, 1 << 20);
  const EventFiles::Source who{
      .pid = 7, .rank = 5, .local_rank = 1, .host = "a", .gpu = "NVIDIA H200", .gpu_uuid = "GPU-1"};
  files.add(who, events(0, 9), *memory, 0);
  files.add(who, events(9, 3), *memory, 40);
  files.add({.pid = 8}, events(0, 9), *memory, 0);  // not a rank
  files.flush_all();
  const auto file = model::load_event_file(dir + "/5/events-1.xev");
  REQUIRE(file);
  CHECK(file->complete);
  CHECK(file->events.size() == 12);
  CHECK(file->lost == 40);
  CHECK(file->header.gpu == "NVIDIA H200");
  CHECK(file->header.pid == 7);
  CHECK(file->ops.at(0).work == 100);
  REQUIRE(file->events[1].communicator == 0);
  CHECK(file->communicators[0].identity == 99);
  CHECK(file->communicators[0].name == "tensor");
  CHECK(file->events[0].communicator == -1);
  CHECK(files_in(dir).size() == 1);

  // A restarted rank has a new file and counts losses from zero.
  files.add({.pid = 9, .rank = 5}, events(0, 3), *memory, 2);
  files.flush_all();
  const auto again = model::load_event_file(dir + "/5/events-2.xev");
  REQUIRE(again);
  CHECK(again->events.size() == 3);
  CHECK(again->lost == 2);
}

TEST_CASE("a rank's files stay within their limit and keep the newest events") {
  constexpr uint64_t kMost = 1 << 20;
  const std::string dir = make_dir();
  const auto memory = segment();
  EventFiles files(disk, dir, kMost);
  uint64_t largest = 0;
  uint32_t written = 0;
  for (int round = 0; round < 200; ++round) {
    files.add({.pid = 7, .rank = 0}, events(written, 2000), *memory, 0);
    written += 2000;
    if (round % 20 == 19) {
      uint64_t bytes = 0;
      for (const std::string& path : files_in(dir + "/0")) {
        bytes += std::filesystem::file_size(path);
      }
      largest = std::max(largest, bytes);
    }
  }
  files.flush_all();
  CHECK(largest <= kMost);
  CHECK(largest > kMost / 2);
  uint64_t kept = 0;
  uint64_t bytes = 0;
  uint32_t newest = 0;
  for (const std::string& path : files_in(dir + "/0")) {
    const auto file = model::load_event_file(path);
    REQUIRE(file);
    CHECK(file->complete);
    kept += file->events.size();
    bytes += std::filesystem::file_size(path);
    for (const auto& entry : file->events) {
      newest = std::max(newest, entry.event.sequence);
    }
  }
  CHECK(newest == written - 1);
  CHECK(kept < written);
  CHECK(bytes <= 16 * kept);
}

TEST_CASE("events that cannot be written are counted") {
  const std::string dir = make_dir();
  REQUIRE(base::write_file_atomic(dir + "/0", "in the way"));
  const auto memory = segment();
  EventFiles files(disk, dir, 1 << 20);
  files.add({.pid = 7, .rank = 0}, events(0, 5), *memory, 0);
  files.add({.pid = 7, .rank = 0}, events(5, 5), *memory, 0);
  CHECK(files.failed(0) == 10);
  CHECK(files.failed(1) == 0);
  EventFiles none(disk, dir, 0);
  none.add({.pid = 7, .rank = 3}, events(0, 5), *memory, 0);
  CHECK_FALSE(base::file_exists(dir + "/3"));
}

TEST_CASE("a trace records the requested events") {
  const std::string dir = make_dir();
  const auto memory = segment();
  // Every third event is a matmul; events from number 10 on begin after the start of the trace.
  Trace trace(disk, {.count = 5, .kinds = kTraceMatmul | kTraceHost}, dir, 1'000'000 + 10 * 200'000);
  trace.expect(0);
  trace.expect(1);
  trace.expect(2);
  CHECK_FALSE(trace.complete({0, 1, 2}));
  trace.add({.pid = 7, .rank = 0}, events(0, 100), *memory);
  trace.add({.pid = 8, .rank = 1}, events(0, 13), *memory);
  CHECK_FALSE(trace.complete({0, 1}));
  CHECK(trace.complete({0, 2}) == false);
  CHECK(trace.complete({0}));
  trace.flush();
  trace.finish("timeout");
  const auto file = model::load_event_file(dir + "/rank-0.xev");
  REQUIRE(file);
  REQUIRE(file->events.size() == 5);
  CHECK(file->events[0].event.sequence == 11);
  for (const auto& entry : file->events) {
    CHECK(entry.event.op != 1);
  }
  const auto json = nlohmann::json::parse(*base::read_file(dir + "/trace.json"));
  CHECK(json["ended"] == "timeout");
  CHECK(json["kinds"] == nlohmann::json({"matmul", "host"}));
  CHECK(json["ranks"][1]["events"] == 2);
  CHECK(json["ranks"][2]["events"] == 0);
  CHECK_FALSE(json["ranks"][2].contains("file"));
  // What is missing.
  CHECK_FALSE(json["ranks"][0].contains("problem"));
  CHECK(json["ranks"][1]["problem"] == "2 of 5 calls in 60 s");
  CHECK(json["ranks"][2]["problem"] == "0 of 5 calls in 60 s");
}

TEST_CASE("a trace of chosen steps says which ranks had more calls than it holds") {
  const std::string dir = make_dir();
  const auto memory = segment();
  const auto problem_of = [&](size_t rank) {
    const auto trace = model::load_trace_manifest(dir + "/trace.json");
    REQUIRE(trace);
    return trace->ranks.at(rank).problem;
  };
  Trace trace(disk, {.count = 20, .timeline = "steps:3-900", .count_is_limit = true}, dir, 0);
  trace.expect(0);
  trace.expect(1);
  trace.expect(2);
  trace.add({.pid = 7, .rank = 0}, events(0, 19), *memory);
  trace.add({.pid = 8, .rank = 1}, events(0, 40), *memory);
  trace.flush();
  trace.finish(kTraceComplete);
  CHECK(problem_of(0).empty());
  CHECK(problem_of(1) == "only the first 20 calls are there: later ones found no room");
  CHECK(problem_of(2) == "no call was timed");
}

TEST_CASE("a trace has host calls on request, and kernels if all GPU kinds are requested") {
  const auto memory = segment();
  memory->ops[0].key.op_class = static_cast<uint8_t>(wire::OpClass::host);
  memory->ops[2].key.op_class = static_cast<uint8_t>(wire::OpClass::kernel);
  std::vector<wire::Event> some = events(0, 30);
  for (wire::Event& event : some) {
    event.source = static_cast<uint8_t>(event.op == 0 ? wire::Source::host_call : wire::Source::events);
    event.delay_us = event.op == 0 ? 4711 : 20;
  }
  const auto ops_in = [&](uint32_t kinds) {
    const std::string dir = make_dir();
    Trace trace(disk, {.kinds = kinds}, dir, 0);
    trace.add({.pid = 7, .rank = 0}, some, *memory);
    trace.flush();
    trace.finish("timeout");
    std::set<uint32_t> out;
    if (const auto file = model::load_event_file(dir + "/rank-0.xev")) {
      for (const auto& entry : file->events) {
        out.insert(entry.event.op);
        CHECK(entry.event.delay_us == (entry.event.op == 0 ? 4711 : 20));
      }
    }
    return out;
  };
  CHECK(ops_in(kTraceHost) == std::set<uint32_t>{0});
  CHECK(ops_in(TraceRequest().kinds) == std::set<uint32_t>{1, 2});
  CHECK(ops_in(kTraceCollective | kTraceHost) == std::set<uint32_t>{0, 1});
  CHECK(ops_in(kTraceMatmul | kTraceMemory).empty());
}

TEST_CASE("a restart of a rank ends its part of a trace") {
  const std::string dir = make_dir();
  const auto memory = segment();
  Trace trace(disk, {.count = 500}, dir, 0);
  trace.expect(0);
  trace.add({.pid = 7, .rank = 0}, events(0, 3), *memory);
  trace.add({.pid = 9, .rank = 0}, events(0, 3), *memory);
  CHECK(trace.complete({0}));
  trace.flush();
  trace.finish("complete");
  CHECK(model::load_event_file(dir + "/rank-0.xev")->events.size() == 3);
}
