// Event files of small jobs for the tests of time lines.
#pragma once

#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "common/model/timing/event_encoder.h"
#include "common/model/timing/span_encoder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

namespace xpurun {

inline constexpr int64_t kWall = 1'795'230'915'000'000'000;  // of CLOCK_MONOTONIC 0

inline model::EventKey key_of(wire::Api api, uint32_t comm = wire::kNoComm) {
  model::EventKey key{};
  key.api = static_cast<uint16_t>(api);
  key.op_class = static_cast<uint8_t>(wire::kApis[key.api].op_class);
  key.comm = comm;
  key.peer = -1;
  key.m = 4096;
  key.n = 1024;
  key.k = 512;
  key.dtype[0] = static_cast<uint8_t>(key.op_class == static_cast<uint8_t>(wire::OpClass::matmul) ? 14 : 9);
  key.trans = 1;
  return key;
}

inline model::EventKey host_key(wire::Api api) {
  model::EventKey key = key_of(api);
  key.op_class = static_cast<uint8_t>(wire::OpClass::host);
  return key;
}

struct SampleRank {
  int rank = 0;
  std::string host = "node0";
  int64_t clock_error_ns = 0;  // wall clock of the host minus true time
  int64_t begin_ns = 1'000'000;
  int steps = 2;
  int world = 2;
};

// Each step: a matmul of 2 GFLOP in 10 us with its call on the host, a copy of 4096 bytes, and an all-reduce
// of 2 MiB that ends on all ranks at the same time.
inline std::string sample_events(const SampleRank& r) {
  model::EventEncoder encoder;
  encoder.define({.slot = 2, .identity = 0x11, .rank = r.rank, .nranks = r.world, .name = "dp\x1b[31m"});
  encoder.define(0, key_of(wire::Api::cublasGemmEx), 2'000'000'000);
  encoder.define(1, key_of(wire::Api::ncclAllReduce, 2), 2'097'152);
  encoder.define(2, key_of(wire::Api::cudaMemcpyAsync), 4096);
  encoder.define(3, host_key(wire::Api::cublasGemmEx), 0);
  for (int step = 0; step < r.steps; ++step) {
    const auto at = static_cast<uint64_t>(r.begin_ns + step * 1'000'000);
    const auto number = static_cast<uint32_t>(step);
    encoder.add({.begin_ns = at, .duration_ns = 5'000, .op = 3, .delay_us = 77, .source = 3});
    encoder.add({.begin_ns = at + 20'000,
                 .duration_ns = 10'000,
                 .op = 0,
                 .sequence = number,
                 .delay_us = 18,
                 .stream = 1,
                 .source = 1});
    encoder.add(
        {.begin_ns = at + 40'000, .duration_ns = 3'000, .op = 2, .delay_us = 1, .stream = 1, .source = 1});
    const auto late = static_cast<uint64_t>(r.rank) * 10'000;
    encoder.add({.begin_ns = at + 50'000 + late,
                 .duration_ns = 100'000 - late,
                 .op = 1,
                 .sequence = number + 1,
                 .delay_us = 4,
                 .stream = 2,
                 .source = 4,
                 .how = {2, 3, 16}});
  }
  return model::EventEncoder::header({.rank = r.rank,
                                      .local_rank = r.rank,
                                      .pid = 100 + r.rank,
                                      .host = r.host,
                                      .gpu = "H200",
                                      .mono_ns = 0,
                                      .wall_ns = kWall + r.clock_error_ns}) +
         encoder.take_block();
}

inline void put_file(const std::string& path, std::string_view bytes) {
  REQUIRE(base::make_dirs(path.substr(0, path.rfind('/'))));
  REQUIRE(base::write_file_atomic(path, bytes));
}

}  // namespace xpurun
