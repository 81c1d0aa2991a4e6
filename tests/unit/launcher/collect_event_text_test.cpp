#include "common/model/timing/event_encoder.h"
#include "launcher/collect/event_text.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

model::EventKey key_of(wire::Api api, uint32_t comm = wire::kNoComm) {
  model::EventKey key{};
  key.api = static_cast<uint16_t>(api);
  key.op_class = static_cast<uint8_t>(wire::kApis[key.api].op_class);
  key.comm = comm;
  key.peer = -1;
  key.m = 4096;
  key.n = 1024;
  key.k = 512;
  return key;
}

// A matmul, a collective on a communicator with a hostile name, and a copy.
model::EventFile event_sample() {
  model::EventEncoder encoder;
  encoder.define({.slot = 2, .identity = 0x11, .rank = 3, .nranks = 8, .name = "tp\x1b[31m"});
  encoder.define(0, key_of(wire::Api::cublasGemmEx), 1000);
  encoder.define(1, key_of(wire::Api::ncclAllReduce, 2), 2048);
  encoder.define(2, key_of(wire::Api::cudaMemcpyAsync), 4096);
  encoder.add({.begin_ns = 2'000, .duration_ns = 1'500, .op = 0, .delay_us = 20, .stream = 1, .source = 1});
  encoder.clocks(3'000, 1'795'230'915'000'000'000);
  encoder.add({.begin_ns = 3'005, .duration_ns = 7, .op = 1, .sequence = 17, .how = {2, 2, 18}});
  encoder.add({.begin_ns = 1'000, .op = 2});
  encoder.lost(3);
  const std::string bytes =
      model::EventEncoder::header(
          {.rank = 5, .pid = 7, .host = "a", .gpu = "H200", .mono_ns = 1'000, .wall_ns = 1'000'000'000}) +
      encoder.take_block();
  auto file = model::parse_event_file(bytes + "cut");
  REQUIRE(file);
  return *file;
}

}  // namespace

TEST_CASE("events as lines for people") {
  const model::EventFile file = event_sample();
  REQUIRE(file.events.size() == 3);
  const std::string head = event_file_text(file, "x.xev");
  CHECK(head.find("x.xev: rank 5, pid 7, a, H200; 3 events, 3 lost, the end is missing or damaged\n") == 0);
  CHECK(event_text(file, 0) ==
        " 1970-01-01T00:00:01.000001000Z          1.500      1 cublasGemmEx 4096x1024x512 fp32\n");
  const std::string collective = event_text(file, 1);
  CHECK(collective.find("2026-11-21T") != std::string::npos);  // by the later reading of the clocks
  CHECK(collective.find("ncclAllReduce 512 int8 tp?[31m rank 3/8 #17 ring LL128 18 channels\n") !=
        std::string::npos);
  CHECK(event_text(file, 2).find("cudaMemcpyAsync 4.0 KiB H2H\n") != std::string::npos);
}

TEST_CASE("events as JSON") {
  const model::EventFile file = event_sample();
  const auto head = nlohmann::json::parse(event_file_json(file, "x.xev"));
  CHECK(head["schema"] == "xpurun.events/2");
  CHECK(head["complete"] == false);
  CHECK(head["communicators"][0]["identity"] == "0000000000000011");
  const auto matmul = nlohmann::json::parse(event_json(file, 0));
  CHECK(matmul["function"] == "cublasGemmEx");
  CHECK(matmul["class"] == "matmul");
  CHECK(matmul["m"] == 4096);
  CHECK(matmul["delay_us"] == 20);
  CHECK(matmul["wall_ns"] == 1'000'001'000);
  const auto collective = nlohmann::json::parse(event_json(file, 1));
  CHECK(collective["communicator"] == 0);
  CHECK(collective["wall_ns"] == 1'795'230'915'000'000'005);
  CHECK(collective["algorithm"] == "ring");
  CHECK(nlohmann::json::parse(event_json(file, 2))["direction"] == "H2H");
}
