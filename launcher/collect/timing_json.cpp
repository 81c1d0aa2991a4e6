#include "launcher/collect/timing_json.h"

#include "common/model/json/json_text.h"
#include "common/model/timing/op_names.h"
#include "common/model/timing/timing_schema.h"
#include "launcher/collect/gpu_time.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace xpurun::launcher {

namespace {

using nlohmann::ordered_json;

template <size_t kSize>
std::string_view name_at(const std::array<std::string_view, kSize>& names, size_t index) {
  return index < kSize ? names[index] : "unknown";
}

constexpr std::array<std::string_view, 3> kLevels = {"off", "light", "full"};
constexpr std::array<std::string_view, 4> kStates = {"none", "attached", "timing", "off"};
constexpr std::array<std::string_view, 5> kReasons = {"", "no_runtime", "no_thread", "cuda_errors",
                                                      "process_end"};
constexpr std::array<std::string_view, 8> kCommStates = {"free",      "claimed", "initialising", "live",
                                                         "finalized", "aborted", "destroyed",    "failed"};
constexpr std::array<std::string_view, 6> kProfilerStates = {"none",      "ready",     "no_times",
                                                             "known_bad", "no_memory", "silent"};
constexpr std::array<std::string_view, 4> kChainStates = {"none", "forwarded", "other_version", "not_found"};

ordered_json op_json(const OpTotals& op) {
  const auto op_class = static_cast<wire::OpClass>(op.key.op_class);
  ordered_json j;
  j["class"] = model::class_name(op.key.op_class);
  j["api"] = model::api_name(op.key);
  if (op_class == wire::OpClass::matmul) {
    j["dtype"] = model::cuda_type_name(op.key.dtype[0]);
    j["dtypes"] = {model::cuda_type_name(op.key.dtype[0]), model::cuda_type_name(op.key.dtype[1]),
                   model::cuda_type_name(op.key.dtype[2]), model::cuda_type_name(op.key.dtype[3])};
    j["compute"] = op.key.compute;
    j["trans"] = fmt::format("{}{}", "NTC?"[op.key.trans & 3], "NTC?"[op.key.trans >> 4 & 3]);
    j["m"] = op.key.m;
    j["n"] = op.key.n;
    j["batch"] = op.key.batch;
    j["epilogue"] = op.key.epilogue;
    j["flags"] = op.key.flags;
  } else if (op_class == wire::OpClass::collective) {
    j["dtype"] = model::nccl_type_name(op.key.dtype[0]);
    j["communicator"] = op.key.comm;
    j["peer"] = op.key.peer;
    j["algorithm"] = model::algorithm_name(op.how.algorithm);
    j["protocol"] = model::protocol_name(op.how.protocol);
    j["channels"] = op.how.channels;
  } else if (op_class == wire::OpClass::memory) {
    j["direction"] = model::copy_direction(op.key);
    j["pinned"] = op.key.pinned;
  }
  j["k"] = op.key.k;
  j["calls"] = op.calls;
  j["work"] = op.work;
  j["captured"] = op.captured;
  j["timed"] = op.timed;
  j["timed_ns"] = op.timed_ns;
  j["timed_work"] = op.timed_work;
  return j;
}

ordered_json comm_json(const CommTotals& comm, size_t index, base::MonoNs now) {
  ordered_json j;
  j["index"] = index;
  j["identity"] = fmt::format("{:016x}", comm.identity);
  j["name"] = comm.name;
  j["state"] = name_at(kCommStates, comm.state);
  j["comparable"] = comm.flags == 0;
  j["rank"] = comm.rank;
  j["size"] = comm.nranks;
  j["called"] = comm.called;
  j["launched"] = comm.launched;
  j["started"] = comm.started;
  j["done"] = comm.done;
  j["marked"] = comm.marked;
  j["sends"] = comm.sends;
  j["receives"] = comm.receives;
  j["unchanged_s"] = base::ns_to_s(now - static_cast<base::MonoNs>(comm.last_change_ns));
  auto& last = j["last"] = ordered_json::array();
  constexpr size_t kMost = 8;
  for (size_t i = comm.last.size() - std::min(comm.last.size(), kMost); i < comm.last.size(); ++i) {
    const CollectiveSignature& s = comm.last[i];
    wire::OpKey key{};
    key.api = s.api;
    last.push_back({{"sequence", s.sequence},
                    {"operation", model::collective_name(key)},
                    {"dtype", model::nccl_type_name(s.type)},
                    {"op", s.op},
                    {"root", s.root},
                    {"count", s.count}});
  }
  return j;
}

// null: no call of this kind was timed.
ordered_json gpu_time_json(const GpuTime& time) {
  ordered_json j;
  for (const KindOfWork& kind : time.kinds) {
    const ordered_json seconds = kind.samples > 0 ? ordered_json(kind.seconds) : ordered_json();
    j[std::string(kind.name)] = {{"calls", kind.calls}, {"samples", kind.samples}, {"estimated_s", seconds}};
  }
  const double share = time.untraced_share();
  j["untraced_share"] = share >= 0 ? ordered_json(share) : ordered_json();
  return j;
}

ordered_json rank_json(const RankTiming& t, base::MonoNs now) {
  ordered_json j;
  j["rank"] = t.rank == base::kNoRank ? ordered_json() : ordered_json(t.rank);
  j["local_rank"] = t.local_rank;
  j["pid"] = t.pid;
  j["state"] = name_at(kStates, static_cast<size_t>(t.state));
  j["off_reason"] = name_at(kReasons, static_cast<size_t>(t.off_reason));
  j["level"] = name_at(kLevels, static_cast<size_t>(t.level));
  j["period"] = t.period;
  j["gpu"] = t.device_name;
  j["gpu_uuid"] = t.device_uuid;
  j["pci_bus_id"] = t.pci_bus_id;
  j["nccl_version"] = t.nccl_version;
  j["event_overhead_ns"] = t.event_overhead_ns;
  j["event_overhead_is_off"] = t.event_overhead_is_off;
  j["nccl_profiler"] = {{"state", name_at(kProfilerStates, static_cast<size_t>(t.profiler))},
                        {"version", t.profiler_version},
                        {"users_plugin", name_at(kChainStates, static_cast<size_t>(t.profiler_chain))}};
  auto& ways = j["collectives_timed"] = ordered_json::array();
  for (const auto& [way, totals] : t.collective_ways) {
    ways.push_back({{"source", model::source_name(way.source)},
                    {"algorithm", model::algorithm_name(way.algorithm)},
                    {"protocol", model::protocol_name(way.protocol)},
                    {"calls", totals.calls},
                    {"channels", totals.channels}});
  }
  auto& health = j["health"] = ordered_json::object();
  for (const HealthField& field : kHealthFields) {
    health[std::string(field.name)] = t.health.*field.value;
  }
  j["gpu_time"] = gpu_time_json(estimate_gpu_time(t.ops));
  auto& ops = j["ops"] = ordered_json::array();
  for (const OpTotals& op : t.ops) {
    ops.push_back(op_json(op));
  }
  auto& comms = j["communicators"] = ordered_json::array();
  for (size_t i = 0; i < t.comms.size(); ++i) {
    if (t.comms[i].state != static_cast<uint32_t>(wire::CommState::free)) {
      comms.push_back(comm_json(t.comms[i], i, now));
    }
  }
  return j;
}

}  // namespace

std::string timing_json(const std::vector<RankTiming>& ranks, base::MonoNs now) {
  ordered_json j;
  j["schema"] = model::kTimingSchema;
  auto& all = j["ranks"] = ordered_json::array();
  for (const RankTiming& rank : ranks) {
    all.push_back(rank_json(rank, now));
  }
  return model::json_text(j, 1);
}

}  // namespace xpurun::launcher
