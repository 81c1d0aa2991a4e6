// Timed calls of made ranks. Tests of report/operations and report/compare only.
#pragma once

#include "report/events/rank_record.h"

#include <string>
#include <vector>

namespace xpurun::tests {

inline constexpr uint32_t kMatmul = 0;
inline constexpr uint32_t kAllReduce = 1;
inline constexpr uint32_t kCopy = 2;
inline constexpr uint32_t kKernel = 3;
inline constexpr uint32_t kSend = 4;

inline model::EventKey wire_key(wire::Api api) {
  model::EventKey key{};
  key.api = static_cast<uint16_t>(api);
  key.op_class = static_cast<uint8_t>(wire::kApis[key.api].op_class);
  key.comm = wire::kNoComm;
  key.peer = -1;
  return key;
}

// One file with the five kinds of calls above on a communicator of all ranks; no event yet.
inline report::RankRecord made_rank(base::Rank rank, int world, const std::string& host = "a") {
  report::RankRecord out{.rank = rank, .host = host, .gpu = "NVIDIA H200"};
  model::EventFile& file = out.events.emplace_back();
  file.header = {.rank = rank, .pid = 100 + rank, .host = host, .gpu = "NVIDIA H200"};
  file.communicators.push_back({.slot = 0, .identity = 0x77, .rank = rank, .nranks = world, .name = "dp"});
  const auto add = [&file](uint32_t op, wire::Api api, uint64_t work, uint8_t type) {
    model::EventFile::Op& to = file.ops[op];
    to.key = wire_key(api);
    to.function = wire::kApis[to.key.api].name;
    to.work = work;
    for (uint8_t& one : to.key.dtype) {
      one = type;
    }
  };
  add(kMatmul, wire::Api::cublasGemmEx, 2'000'000'000, 14);
  file.ops[kMatmul].key.m = 1000;
  file.ops[kMatmul].key.n = 1000;
  file.ops[kMatmul].key.k = 1000;
  file.ops[kMatmul].key.compute = 68;
  file.ops[kMatmul].key.trans = 1;
  add(kAllReduce, wire::Api::ncclAllReduce, 1'000'000, 9);
  add(kCopy, wire::Api::cudaMemcpyAsync, 4096, 0);
  file.ops[kCopy].key.copy = 1;
  file.ops[kCopy].key.pinned = 2;
  add(kKernel, wire::Api::cudaLaunchKernel, 0, 0);
  add(kSend, wire::Api::ncclSend, 1'000'000, 9);
  return out;
}

// A timed call; times are microseconds.
inline model::TimedEvent& add_call(report::RankRecord& rank, uint32_t op, double begin_us, double duration_us,
                                   uint32_t number, wire::Source source = wire::Source::events) {
  const bool on_communicator = op == kAllReduce || op == kSend;
  rank.events.back().events.push_back({.event = {.begin_ns = static_cast<uint64_t>(begin_us * 1e3),
                                                 .duration_ns = static_cast<uint64_t>(duration_us * 1e3),
                                                 .op = op,
                                                 .sequence = number,
                                                 .source = static_cast<uint8_t>(source)},
                                       .communicator = on_communicator ? 0 : -1});
  return rank.events.back().events.back().event;
}

}  // namespace xpurun::tests
