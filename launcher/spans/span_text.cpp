#include "launcher/spans/span_text.h"

#include "common/base/strings.h"
#include "common/model/json/json_text.h"
#include "common/model/timing/span_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace xpurun::launcher {

namespace {

using nlohmann::ordered_json;

// Unsigned, because a damaged file may hold any number.
int64_t wall_of(const model::SpanFile& file, base::MonoNs at) {
  return static_cast<int64_t>(static_cast<uint64_t>(file.header.wall_ns) + static_cast<uint64_t>(at) -
                              static_cast<uint64_t>(file.header.mono_ns));
}

ordered_json rank_of(const model::SpanFile& file) {
  return file.header.rank == base::kNoRank ? ordered_json() : ordered_json(file.header.rank);
}

std::string dump_line(const ordered_json& j) {
  return model::json_text(j) + "\n";
}

std::string details(const model::SpanFile& file, const model::Span& span) {
  std::string out = file.names[span.name];
  if (span.sequence != 0) {
    out += fmt::format(" #{}", span.sequence);
  }
  if (span.bytes != 0) {
    out += " " + base::human_size(span.bytes);
  }
  if (span.place != 0) {
    out += " at " + file.names[span.place];
  }
  return base::sanitize(out);
}

}  // namespace

std::string span_file_text(const model::SpanFile& file, std::string_view path) {
  const model::EventFileHeader& h = file.header;
  std::string out = fmt::format("{}: rank {}, pid {}, {}; {} spans", base::sanitize(path), h.rank, h.pid,
                                base::sanitize(h.host), file.spans.size());
  if (file.lost > 0) {
    out += fmt::format(", {} lost", file.lost);
  }
  if (!file.complete) {
    out += ", the end is missing or damaged";
  }
  return out + fmt::format("\n{:>30} {:>14} {:>14} {:>13} call\n", "begin (UTC)", "duration (us)", "CPU (us)",
                           "stage");
}

std::string span_text(const model::SpanFile& file, size_t index) {
  const model::Span& span = file.spans[index];
  const int64_t wall = wall_of(file, span.begin_ns);
  const std::string second = base::utc_iso8601(wall);
  const std::string cpu =
      span.cpu_ns < 0 ? std::string("-") : fmt::format("{:.3f}", static_cast<double>(span.cpu_ns) / 1e3);
  return fmt::format("{:>20}.{:09}Z {:>14.3f} {:>14} {:>13} {}\n", second.substr(0, second.size() - 1),
                     (wall % 1'000'000'000 + 1'000'000'000) % 1'000'000'000,
                     static_cast<double>(span.duration_ns) / 1e3, cpu, model::name_of(span.stage),
                     details(file, span));
}

std::string span_file_json(const model::SpanFile& file, std::string_view path) {
  const model::EventFileHeader& h = file.header;
  ordered_json j;
  j["schema"] = model::kSpansSchema;
  j["file"] = path;
  j["rank"] = rank_of(file);
  j["local_rank"] = h.local_rank;
  j["pid"] = h.pid;
  j["host"] = h.host;
  j["spans"] = file.spans.size();
  j["loads"] = file.loads.size();
  j["short_calls"] = file.short_calls.size();
  j["lost"] = file.lost;
  j["complete"] = file.complete;
  return dump_line(j);
}

std::string span_json(const model::SpanFile& file, size_t index) {
  const model::Span& span = file.spans[index];
  ordered_json j;
  j["rank"] = rank_of(file);
  j["begin_ns"] = span.begin_ns;
  j["wall_ns"] = wall_of(file, span.begin_ns);
  j["duration_ns"] = span.duration_ns;
  j["cpu_ns"] = span.cpu_ns < 0 ? ordered_json() : ordered_json(span.cpu_ns);
  j["stage"] = model::name_of(span.stage);
  j["name"] = file.names[span.name];
  j["place"] = file.names[span.place];
  j["thread"] = span.thread;
  if (span.inferred) {
    j["inferred"] = true;
  }
  if (span.stage == model::Stage::communication) {
    j["group"] = file.names[span.group];
    j["sequence"] = span.sequence;
    j["bytes"] = span.bytes;
  }
  return dump_line(j);
}

std::string short_calls_text(const model::SpanFile& file, size_t index) {
  const model::ShortCalls& calls = file.short_calls[index];
  const int64_t wall = wall_of(file, calls.begin_ns);
  const std::string second = base::utc_iso8601(wall);
  return fmt::format(
      "{:>20}.{:09}Z {:>14.3f} {:>14} {:>13} {} short calls of {}\n", second.substr(0, second.size() - 1),
      (wall % 1'000'000'000 + 1'000'000'000) % 1'000'000'000, static_cast<double>(calls.total_ns) / 1e3, "-",
      model::name_of(model::Stage::function), calls.calls, base::sanitize(file.names[calls.name]));
}

std::string short_calls_json(const model::SpanFile& file, size_t index) {
  const model::ShortCalls& calls = file.short_calls[index];
  ordered_json j;
  j["rank"] = rank_of(file);
  j["begin_ns"] = calls.begin_ns;
  j["wall_ns"] = wall_of(file, calls.begin_ns);
  j["duration_ns"] = calls.duration_ns;
  j["name"] = file.names[calls.name];
  j["thread"] = calls.thread;
  j["short_calls"] = calls.calls;
  j["total_ns"] = calls.total_ns;
  return dump_line(j);
}

std::string load_json(const model::SpanFile& file, size_t index) {
  const model::LoadSample& load = file.loads[index];
  ordered_json j;
  j["rank"] = rank_of(file);
  j["at_ns"] = load.at_ns;
  j["wall_ns"] = wall_of(file, load.at_ns);
  j["cpu_ns"] = load.cpu_ns;
  const auto known = [](int64_t value) { return value < 0 ? ordered_json() : ordered_json(value); };
  j["run_delay_ns"] = known(load.run_delay_ns);
  j["major_faults"] = load.major_faults;
  j["throttled_ns"] = known(load.throttled_ns);
  j["stolen_ns"] = known(load.stolen_ns);
  j["resident_bytes"] = known(load.resident_bytes);
  j["private_bytes"] = known(load.private_bytes);
  j["helpers_bytes"] = known(load.helpers_bytes);
  if (load.gpu.known()) {
    j["gpu_allocated_bytes"] = load.gpu.allocated_bytes;
    j["gpu_reserved_bytes"] = load.gpu.reserved_bytes;
    j["gpu_peak_bytes"] = load.gpu.peak_bytes;
    j["gpu_total_bytes"] = load.gpu.total_bytes;
  }
  return dump_line(j);
}

}  // namespace xpurun::launcher
