#include "launcher/collect/event_text.h"

#include "common/base/strings.h"
#include "common/model/json/json_text.h"
#include "common/model/timing/op_names.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace xpurun::launcher {

namespace {

using nlohmann::ordered_json;
using Entry = model::EventFile::Entry;

// Converts CLOCK_MONOTONIC to wall time by the last pair of clock readings that is not later.
int64_t wall_of(const model::EventFile& file, uint64_t mono_ns) {
  const model::EventFile::Clocks& pair =
      file.clocks[model::clocks_at(file.clocks, static_cast<base::MonoNs>(mono_ns))];
  // Unsigned, because a damaged file may hold any number.
  return static_cast<int64_t>(static_cast<uint64_t>(pair.wall_ns) + mono_ns -
                              static_cast<uint64_t>(pair.mono_ns));
}

const model::EventFile::Op& op_of(const model::EventFile& file, const Entry& entry) {
  return file.ops.at(entry.event.op);
}

std::string name_of_function(const model::EventFile::Op& op) {
  return (op.key.flags & wire::kOpOther) != 0 ? "other" : op.function;
}

std::string matmul_text(const model::EventKey& key) {
  const std::string batch = key.batch > 1 ? fmt::format("{} x ", key.batch) : "";
  return fmt::format("{}{}x{}x{} {}", batch, key.m, key.n, key.k, model::cuda_type_name(key.dtype[0]));
}

std::string collective_text(const model::EventFile& file, const Entry& entry, const model::EventKey& key) {
  std::string out = fmt::format("{} {}", key.k, model::nccl_type_name(key.dtype[0]));
  if (entry.communicator >= 0) {
    const auto& comm = file.communicators[static_cast<size_t>(entry.communicator)];
    out +=
        fmt::format(" {} rank {}/{}", comm.name.empty() ? fmt::format("{:016x}", comm.identity) : comm.name,
                    comm.rank, comm.nranks);
  }
  out += fmt::format(" #{}", entry.event.sequence);
  if (entry.event.how.algorithm != 0) {
    out += fmt::format(" {} {} {} channels", model::algorithm_name(entry.event.how.algorithm),
                       model::protocol_name(entry.event.how.protocol), entry.event.how.channels);
  }
  return out;
}

std::string details(const model::EventFile& file, const Entry& entry) {
  const model::EventFile::Op& op = op_of(file, entry);
  switch (static_cast<wire::OpClass>(op.key.op_class)) {
    case wire::OpClass::matmul:
      return matmul_text(op.key);
    case wire::OpClass::collective:
      return collective_text(file, entry, op.key);
    case wire::OpClass::memory:
      return fmt::format("{} {}", base::human_size(op.work), model::copy_direction(op.key));
    default:
      return {};
  }
}

std::string dump(const ordered_json& j) {
  return model::json_text(j) + "\n";
}

}  // namespace

std::string event_file_text(const model::EventFile& file, std::string_view path) {
  const model::EventFileHeader& h = file.header;
  std::string out = fmt::format("{}: rank {}, pid {}, {}, {}; {} events", base::sanitize(path), h.rank, h.pid,
                                base::sanitize(h.host), base::sanitize(h.gpu), file.events.size());
  if (file.lost > 0) {
    out += fmt::format(", {} lost", file.lost);
  }
  if (file.unknown > 0) {
    out += fmt::format(", {} records of a later version skipped", file.unknown);
  }
  if (!file.complete) {
    out += ", the end is missing or damaged";
  }
  return out + fmt::format("\n{:>30} {:>14} {:>6} call\n", "begin (UTC)", "duration (us)", "stream");
}

std::string event_text(const model::EventFile& file, size_t index) {
  const Entry& entry = file.events[index];
  const int64_t wall = wall_of(file, entry.event.begin_ns);
  const std::string second = base::utc_iso8601(wall);
  return fmt::format("{:>20}.{:09}{} {:>14.3f} {:>6} {}\n", second.substr(0, second.size() - 1),
                     (wall % 1'000'000'000 + 1'000'000'000) % 1'000'000'000, "Z",
                     static_cast<double>(entry.event.duration_ns) / 1e3, entry.event.stream,
                     base::sanitize(base::trim(
                         fmt::format("{} {}", name_of_function(op_of(file, entry)), details(file, entry)))));
}

std::string event_file_json(const model::EventFile& file, std::string_view path) {
  const model::EventFileHeader& h = file.header;
  ordered_json j;
  j["schema"] = model::kEventsSchema;
  j["file"] = path;
  j["rank"] = h.rank == base::kNoRank ? ordered_json() : ordered_json(h.rank);
  j["local_rank"] = h.local_rank;
  j["pid"] = h.pid;
  j["host"] = h.host;
  j["gpu"] = h.gpu;
  j["gpu_uuid"] = h.gpu_uuid;
  j["events"] = file.events.size();
  j["lost"] = file.lost;
  j["unknown_records"] = file.unknown;
  j["complete"] = file.complete;
  auto& list = j["communicators"] = ordered_json::array();
  for (const model::EventCommunicator& comm : file.communicators) {
    list.push_back({{"identity", fmt::format("{:016x}", comm.identity)},
                    {"name", comm.name},
                    {"rank", comm.rank},
                    {"nranks", comm.nranks}});
  }
  return dump(j);
}

std::string event_json(const model::EventFile& file, size_t index) {
  const Entry& entry = file.events[index];
  const model::TimedEvent& e = entry.event;
  const model::EventFile::Op& op = op_of(file, entry);
  const model::EventKey& key = op.key;
  const auto op_class = static_cast<wire::OpClass>(key.op_class);
  ordered_json j;
  j["rank"] = file.header.rank == base::kNoRank ? ordered_json() : ordered_json(file.header.rank);
  j["begin_ns"] = e.begin_ns;
  j["wall_ns"] = wall_of(file, e.begin_ns);
  j["duration_ns"] = e.duration_ns;
  j["function"] = name_of_function(op);
  j["class"] = model::class_name(key.op_class);
  j["source"] = model::source_name(e.source);
  j["begin_is_host"] = (e.flags & wire::kEventHostBegin) != 0;
  j["stream"] = e.stream;
  j["sequence"] = e.sequence;
  j[op_class == wire::OpClass::host ? "thread" : "delay_us"] = e.delay_us;
  j["work"] = op.work;
  if (op_class == wire::OpClass::matmul) {
    j["dtype"] = model::cuda_type_name(key.dtype[0]);
    j["batch"] = key.batch;
    j["m"] = key.m;
    j["n"] = key.n;
    j["k"] = key.k;
  } else if (op_class == wire::OpClass::collective) {
    j["dtype"] = model::nccl_type_name(key.dtype[0]);
    j["count"] = key.k;
    j["peer"] = key.peer;
    j["communicator"] = entry.communicator < 0 ? ordered_json() : ordered_json(entry.communicator);
    j["algorithm"] = model::algorithm_name(e.how.algorithm);
    j["protocol"] = model::protocol_name(e.how.protocol);
    j["channels"] = e.how.channels;
  } else if (op_class == wire::OpClass::memory) {
    j["direction"] = model::copy_direction(key);
  }
  return dump(j);
}

}  // namespace xpurun::launcher
