#include "report/events/foreign/execution_trace.h"

#include "report/events/files/record_files.h"
#include "report/events/foreign/foreign_record.h"
#include "report/timeline/timeline.h"
#include "tests/unit/report/timeline/samples.h"

#include <protozero/pbf_writer.hpp>
#include <sstream>

using namespace xpurun;
using namespace xpurun::report;

namespace {

struct Node {
  uint64_t id = 0;
  std::string name;
  int type = 4;
  std::vector<uint64_t> after;
  uint64_t start_us = 0;
  uint64_t duration_us = 0;
  bool cpu = false;
  int stream = 0;
  int comm_type = -1;
};

void put_attribute(protozero::pbf_writer& w, const char* name, int field, int64_t value) {
  protozero::pbf_writer a(w, 10);
  a.add_string(1, name);
  a.add_int64(static_cast<protozero::pbf_tag_type>(field), value);
}

// A trace in Chakra's form: the length of each message before it.
std::string chakra(const std::vector<Node>& nodes) {
  std::string out;
  const auto put = [&out](const std::string& message) {
    protozero::write_varint(std::back_inserter(out), message.size());
    out += message;
  };
  std::string about;
  protozero::pbf_writer(about).add_string(1, "0.0.4");
  put(about);
  for (const Node& n : nodes) {
    std::string message;
    protozero::pbf_writer w(message);
    w.add_uint64(1, n.id);
    w.add_string(2, n.name);
    w.add_int32(3, n.type);
    w.add_packed_uint64(5, n.after.begin(), n.after.end());
    if (n.start_us > 0) {
      w.add_uint64(6, n.start_us);
    }
    w.add_uint64(7, n.duration_us);
    put_attribute(w, "is_cpu_op", 27, n.cpu ? 1 : 0);
    put_attribute(w, n.cpu ? "tid" : "stream", 9, n.stream);
    if (n.comm_type >= 0) {
      put_attribute(w, "comm_type", 9, n.comm_type);
      put_attribute(w, "comm_size", 9, 4096);
    }
    put(message);
  }
  return out;
}

constexpr std::string_view kTorchTrace = R"json({
  "schema": "1.1.1-chakra.0.0.4", "pid": 77, "time": "2024-03-21 18:54:23", "start_ts": 35,
  "nodes": [
    {"id": 2, "name": "[pytorch|profiler|execution_trace|thread]", "ctrl_deps": 1, "inputs": {"values": []},
     "attrs": [{"name": "tid", "type": "uint64", "value": 1}]},
    {"id": 3, "name": "aten::mm", "ctrl_deps": 2, "ts": 100.5, "inclusive_dur": 20, "exclusive_dur": 20,
     "attrs": [{"name": "tid", "type": "uint64", "value": 9}]},
    {"id": 4, "name": "gemm", "ctrl_deps": 3, "cat": "kernel", "ts": 110, "inclusive_dur": 30, "stream": 7,
     "attrs": []},
    {"id": 5, "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "cat": "kernel", "ts": 150,
     "inclusive_dur": 5, "stream": 20, "pg_name": "0"},
    {"id": 6, "name": "damaged", "ts": 1e300, "inclusive_dur": 5},
    {"id": 8, "name": "endless", "ts": 160, "inclusive_dur": Infinity},
    7
  ], "finish_ts": 99})json";

}  // namespace

TEST_CASE("Chakra's trace: nodes with times, and collectives with their sizes") {
  Activity a;
  REQUIRE(parse_chakra_trace(
      a, chakra({{.id = 1, .name = "meta", .type = 1, .start_us = 1},
                 {.id = 2, .name = "aten::mm", .start_us = 5, .duration_us = 10, .cpu = true, .stream = 3},
                 {.id = 3, .name = "gemm", .after = {2}, .start_us = 9, .duration_us = 20, .stream = 7},
                 {.id = 4,
                  .name = "nccl",
                  .type = 7,
                  .after = {3},
                  .start_us = 30,
                  .duration_us = 4,
                  .stream = 20,
                  .comm_type = 7}})));
  REQUIRE(a.slices.size() == 3);
  CHECK_FALSE(a.placed);
  CHECK(a.slices[0].begin_ns == 5'000);
  CHECK(a.tracks[a.slices[0].track].kind == TrackKind::host);
  CHECK(a.tracks[a.slices[1].track].number == 7);
  const Call& collective = a.calls[a.slices[2].call];
  CHECK(collective.category == Category::collective);
  CHECK(collective.key.api == static_cast<uint16_t>(wire::Api::ncclReduceScatter));
  CHECK(collective.work == 4096);
}

TEST_CASE(
    "Chakra's nodes without a begin follow those on which they depend, and are no measure of idle time") {
  Activity a;
  REQUIRE(parse_chakra_trace(a, chakra({{.id = 1, .name = "a", .duration_us = 10, .stream = 1},
                                        {.id = 2, .name = "b", .after = {1}, .duration_us = 5, .stream = 2},
                                        {.id = 3, .name = "c", .duration_us = 7, .stream = 2},
                                        {.id = 4, .name = "d", .after = {99}, .duration_us = 1}})));
  REQUIRE(a.slices.size() == 4);
  CHECK(a.placed);
  CHECK(a.slices[1].begin_ns == 10'000);
  CHECK(a.slices[2].begin_ns == 15'000);
  CHECK(a.slices[3].begin_ns == 0);
  CHECK(a.calls[a.slices[1].call].arguments.at(0).name == "begin");
  RankRecord record;
  add_foreign(record, a);
  CHECK_FALSE(record.whole);
}

TEST_CASE("Chakra's trace, cut off anywhere") {
  const std::string whole = chakra(
      {{.id = 1, .name = "a", .duration_us = 10}, {.id = 2, .name = "b", .after = {1}, .duration_us = 5}});
  for (size_t size = 0; size < whole.size(); ++size) {
    Activity a;
    const auto parsed = parse_chakra_trace(a, std::string_view(whole).substr(0, size));
    CHECK((!parsed || !a.complete || a.slices.size() == 1));
  }
}

TEST_CASE("PyTorch's execution trace that has times") {
  CHECK(begins_execution_trace(kTorchTrace));
  Activity a;
  std::istringstream text{std::string(kTorchTrace)};
  REQUIRE(parse_execution_trace(a, text));
  REQUIRE(a.slices.size() == 3);
  CHECK(damage_of(a) == "3 events are left out: damaged, endless, 7");
  CHECK(a.pid == 77);
  CHECK(a.slices[0].begin_ns == 100'500);
  CHECK(a.tracks[a.slices[0].track].number == 9);
  CHECK(a.calls[a.slices[1].call].category == Category::kernel);
  CHECK(a.calls[a.slices[2].call].category == Category::collective);
}

TEST_CASE("PyTorch's execution trace without times says what gives it times") {
  std::string plain(kTorchTrace);
  for (size_t at = plain.find("\"ts\""); at != std::string::npos; at = plain.find("\"ts\"")) {
    plain.replace(at, 4, "\"no\"");
  }
  Activity a;
  std::istringstream text(plain);
  const auto parsed = parse_execution_trace(a, text);
  REQUIRE_FALSE(parsed);
  CHECK(parsed.error().what.find("chakra_trace_link") != std::string::npos);
}

TEST_CASE("execution traces are found by their names and their first bytes") {
  const auto dir = *base::TemporaryDirectory::create("xpurun-execution-trace-test-");
  put_file(dir.path() + "/in/chakra.1.et", chakra({{.id = 1, .name = "gemm", .duration_us = 10}}));
  put_file(dir.path() + "/et_0.json", kTorchTrace);
  const auto made =
      make_timeline({dir.path() + "/in", dir.path() + "/et_0.json"}, {.out = dir.path() + "/out"});
  REQUIRE(made);
  CHECK(made->processes == 2);
  CHECK(made->counts.slices == 4);
  CHECK(made->problems.size() == 1);
  const auto owners = owners_of(record_files(dir.path() + "/in").files.at(0));
  REQUIRE(owners);
  CHECK(owners->at(0).rank == 1);
}
