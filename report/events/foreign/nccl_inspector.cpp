#include "report/events/foreign/nccl_inspector.h"

#include "common/base/strings.h"
#include "common/model/json_fields.h"
#include "common/model/timing/op_names.h"
#include "report/events/foreign/left_out.h"
#include "report/events/foreign/operation_names.h"
#include "report/events/foreign/trace_text.h"
#include "report/events/op_facts.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

namespace xpurun::report {

namespace {

using nlohmann::json;

constexpr size_t kLargestLog = size_t{1} << 30;
constexpr size_t kFirstLines = size_t{256} << 10;
constexpr int64_t kMostRanks = base::kHighestRank;

struct Line {
  uint64_t communicator = 0;
  int64_t rank = 0;  // in the communicator
  int64_t ranks = 0;
  std::string host;
  int64_t pid = 0;
  std::string communicator_name;
  std::string operation;
  int64_t peer = -1;  // of a send or receive
  int64_t number = 0;
  int64_t bytes = 0;
  int64_t begin_us = 0;
  int64_t duration_us = 0;
};

int64_t number_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

std::string text_of(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? base::sanitize(found->get<std::string>()) : "";
}

// The earliest begin of a kernel on a channel, else that of the call; 0: the line does not say.
int64_t begin_of(const json& operation, const std::string& kind) {
  const auto trace = operation.find("event_trace_ts");
  if (trace == operation.end() || !trace->is_object()) {
    return 0;
  }
  int64_t out = 0;
  if (const auto kernels = trace->find("kernel_events"); kernels != trace->end() && kernels->is_array()) {
    for (const json& kernel : *kernels) {
      const int64_t begin = kernel.is_object() ? number_of(kernel, "kernel_start_ts") : 0;
      out = begin > 0 && (out == 0 || begin < out) ? begin : out;
    }
  }
  return out > 0 ? out : number_of(*trace, (kind + "_start_ts").c_str());
}

std::optional<Line> line_of(std::string_view text) {
  const json j = model::parse_json(text);
  const auto part = [&](const char* name) -> const json* {
    const auto found = j.is_object() ? j.find(name) : j.end();
    return found != j.end() && found->is_object() ? &*found : nullptr;
  };
  const json* header = part("header");
  const json* about = part("metadata");
  const json* message = part("p2p_perf");
  const json* operation = message != nullptr ? message : part("coll_perf");
  const std::string kind = message != nullptr ? "p2p" : "coll";
  if (header == nullptr || about == nullptr || operation == nullptr) {
    return std::nullopt;
  }
  const auto number = [&](const char* name) { return number_of(*operation, (kind + name).c_str()); };
  const std::string id = text_of(*header, "id");
  Line out{.communicator = base::parse_hex(id.starts_with("0x") ? id.substr(2) : id).value_or(0),
           .rank = number_of(*header, "rank"),
           .ranks = number_of(*header, "n_ranks"),
           .host = text_of(*about, "hostname"),
           .pid = number_of(*about, "pid"),
           .communicator_name = text_of(*header, "comm_name"),
           .operation = text_of(*operation, kind.c_str()),
           .peer = message != nullptr ? number("_peer") : -1,
           .number = number("_sn"),
           .bytes = number("_msg_size_bytes"),
           .begin_us = begin_of(*operation, kind),
           .duration_us = number("_exec_time_us")};
  if (out.begin_us == 0) {
    out.begin_us = number_of(*about, "dump_timestamp_us") - out.duration_us;
  }
  const bool possible = out.rank >= 0 && out.ranks > out.rank && out.ranks < kMostRanks && out.bytes >= 0 &&
                        out.begin_us > 0 && out.begin_us < kLatestNs / 2'000 && out.duration_us >= 0 &&
                        out.duration_us < kLongestNs / 1'000 && out.number >= 0 && out.number < UINT32_MAX &&
                        out.peer >= -1 && out.peer < out.ranks;
  return possible ? std::optional(std::move(out)) : std::nullopt;
}

class InspectorReader {
 public:
  explicit InspectorReader(Activity& out) : out_(out) {}

  void add(const Line& line) {
    out_.pid = static_cast<base::Pid>(line.pid);
    out_.host = line.host;
    const uint32_t call = call_of(line);
    const Communicator& c = out_.communicators[static_cast<size_t>(out_.calls[call].communicator)];
    out_.slices.push_back({.begin_ns = line.begin_us * 1'000,
                           .duration_ns = line.duration_us * 1'000,
                           .meeting = line.ranks > 1 && line.number > 0 && line.peer < 0
                                          ? meeting_of(c.identity, c.size, static_cast<uint64_t>(line.number))
                                          : 0,
                           .call = call,
                           .track = out_.track(TrackKind::communication, 0),
                           .sequence = static_cast<uint32_t>(line.number)});
  }

 private:
  uint32_t call_of(const Line& line) {
    const auto [at, is_new] =
        calls_.emplace(std::tuple(line.operation, line.bytes, line.communicator, line.ranks, line.peer),
                       static_cast<uint32_t>(out_.calls.size()));
    if (is_new) {
      Call call{
          .name = fmt::format("{} {}", line.operation, base::human_size(static_cast<uint64_t>(line.bytes))),
          .category = Category::collective,
          .work = static_cast<uint64_t>(line.bytes)};
      call.key = key_of_category(Category::collective);
      if (set_collective(call.key, line.operation)) {
        call.bus_factor = model::bus_factor(model::collective_name(call.key), static_cast<int>(line.ranks));
        call.ends_together = ends_together(model::collective_name(call.key));
      }
      if (line.peer >= 0) {
        call.message = true;
        call.key.peer = static_cast<int32_t>(line.peer);
        call.arguments.push_back({"peer", line.peer});
      }
      call.arguments.push_back({"bytes", line.bytes});
      call.arguments.push_back({"communicator", fmt::format("{:016x}", line.communicator)});
      call.arguments.push_back({"communicator_size", line.ranks});
      call.communicator = communicator(line);
      out_.calls.push_back(std::move(call));
    }
    return at->second;
  }

  int communicator(const Line& line) {
    for (size_t i = 0; i < out_.communicators.size(); ++i) {
      if (out_.communicators[i].identity == line.communicator) {
        return static_cast<int>(i);
      }
    }
    out_.communicators.push_back({.identity = line.communicator,
                                  .rank = static_cast<int>(line.rank),
                                  .size = static_cast<int>(line.ranks),
                                  .name = line.communicator_name});
    return static_cast<int>(out_.communicators.size() - 1);
  }

  Activity& out_;
  std::map<std::tuple<std::string, int64_t, uint64_t, int64_t, int64_t>, uint32_t> calls_;
};

// At most `limit` bytes of the log, which may be packed.
base::Result<std::string> log_text(const std::string& path, size_t limit, bool& whole) {
  XPURUN_TRY_ASSIGN(const auto file, TraceText::open(path));
  std::string out;
  for (size_t before = SIZE_MAX; before != out.size() && out.size() < limit;) {
    before = out.size();
    out.resize(std::min(before + kFirstLines, limit));
    const auto got = file->sgetn(out.data() + before, static_cast<std::streamsize>(out.size() - before));
    out.resize(before + static_cast<size_t>(std::max<std::streamsize>(got, 0)));
  }
  whole = file->problem().empty() && out.size() < limit;
  return out;
}

}  // namespace

base::Result<RecordOwner> owner_of_inspector_log(const std::string& path) {
  bool whole = false;
  XPURUN_TRY_ASSIGN(const std::string head, log_text(path, kFirstLines, whole));
  RecordOwner out;
  int64_t most = 0;
  for (const std::string_view text : base::split(head, '\n')) {
    const auto line = line_of(text);
    if (line && line->ranks > most) {
      most = line->ranks;
      out = {.rank = static_cast<base::Rank>(line->rank), .host = line->host};
    }
  }
  return most > 0 ? base::Result<RecordOwner>(out)
                  : base::fail(fmt::format("{} is no log of NCCL's inspector", path));
}

base::Status parse_inspector_log(Activity& out, std::string_view text, bool whole) {
  InspectorReader reader(out);
  LeftOut left_out;
  size_t lines = 0;
  for (const std::string_view line : base::split(text, '\n')) {
    if (base::trim(line).empty()) {
      continue;
    }
    if (const auto read = line_of(line)) {
      reader.add(*read);
      ++lines;
    } else {
      left_out.add(line);
    }
  }
  left_out.note(out, whole);
  return lines > 0 ? base::Status() : base::fail("there is no collective in it");
}

base::Status add_inspector_log(Activity& out, const std::string& path) {
  bool whole = false;
  XPURUN_TRY_ASSIGN(const std::string text, log_text(path, kLargestLog, whole));
  const auto read = parse_inspector_log(out, text, whole);
  return read ? read : base::fail(base::Error(read.error()).context(path));
}

}  // namespace xpurun::report
