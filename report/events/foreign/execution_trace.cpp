// Field numbers are those of schema/protobuf/et_def.proto in github.com/mlcommons/chakra.
#include "report/events/foreign/execution_trace.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/json_fields.h"
#include "common/model/speed/kernel_name.h"
#include "report/events/foreign/checked_pbf.h"
#include "report/events/foreign/execution_node.h"
#include "report/events/foreign/trace_events.h"
#include "report/events/foreign/trace_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace xpurun::report {

namespace {

using nlohmann::json;
using pbf_reader = CheckedPbf;

constexpr size_t kLargestTrace = size_t{1} << 30;
constexpr size_t kMostDependencies = 100'000;

namespace chakra {
enum : uint32_t {
  kId = 1,
  kName = 2,
  kType = 3,
  kControl = 4,
  kData = 5,
  kStart = 6,
  kDuration = 7,
  kAttr = 10
};
enum : int64_t { kMetadata = 1, kMemLoad = 2, kMemStore = 3, kSend = 5, kRecv = 6, kCollective = 7 };
}  // namespace chakra

// By CollectiveCommType.
constexpr std::array<std::string_view, 10> kCollectiveTypes{
    "AllReduce", "Reduce",   "AllGather",     "Gather",        "Scatter",
    "Broadcast", "AlltoAll", "ReduceScatter", "ReduceScatter", "Barrier"};

struct Attribute {
  std::string name;
  std::optional<int64_t> number;
  std::string text;
};

Attribute attribute_of(pbf_reader r) {
  Attribute out;
  while (r.next()) {
    switch (r.tag()) {
      case 1:
        out.name = r.get_string();
        break;
      case 7:   // int32
      case 9:   // int64
      case 11:  // uint32
      case 13:  // uint64
      case 27:  // bool
        out.number = r.wire_type() == protozero::pbf_wire_type::varint ? r.get_int64() : (r.skip(), 0);
        break;
      case 29:
        out.text = r.get_string();
        break;
      default:
        r.skip();
    }
  }
  return out;
}

void add_dependencies(std::vector<uint64_t>& to, pbf_reader& r) {
  if (r.wire_type() != protozero::pbf_wire_type::length_delimited) {
    to.push_back(r.get_uint64());
    return;
  }
  for (const uint64_t id : r.get_packed_uint64()) {
    if (to.size() < kMostDependencies) {
      to.push_back(id);
    }
  }
}

// What attributes say of a node.
void apply(ExecutionNode& node, const Attribute& a, int64_t type, uint32_t& thread, uint32_t& stream) {
  const int64_t number = a.number.value_or(0);
  if (a.name == "is_cpu_op") {
    node.on_gpu = number == 0;
  } else if (a.name == "tid") {
    thread = static_cast<uint32_t>(number);
  } else if (a.name == "stream") {
    stream = static_cast<uint32_t>(number);
  } else if (a.name == "comm_size" || a.name == "tensor_size") {
    node.bytes = std::max<int64_t>(number, 0);
  } else if (a.name == "pg_name") {
    node.group = a.text;
  } else if (a.name == "comm_type" && type == chakra::kCollective && number >= 0 &&
             number < static_cast<int64_t>(kCollectiveTypes.size())) {
    node.collective = kCollectiveTypes[static_cast<size_t>(number)];
  }
}

ExecutionNode chakra_node(pbf_reader r) {
  ExecutionNode out;
  std::vector<Attribute> attributes;
  int64_t type = 0;
  while (r.next()) {
    switch (r.tag()) {
      case chakra::kId:
        out.id = r.get_uint64();
        break;
      case chakra::kName:
        out.name = r.get_string();
        break;
      case chakra::kType:
        type = r.get_int32();
        break;
      case chakra::kControl:
      case chakra::kData:
        add_dependencies(out.after, r);
        break;
      case chakra::kStart:
        out.begin_us = static_cast<double>(r.get_uint64());
        break;
      case chakra::kDuration:
        out.duration_us = static_cast<double>(r.get_uint64());
        break;
      case chakra::kAttr:
        attributes.push_back(attribute_of(r.get_message()));
        break;
      default:
        r.skip();
    }
  }
  // A simulator's trace may say nothing of processors: its operations are those of one device.
  out.on_gpu = type != chakra::kMetadata;
  out.memory = type == chakra::kMemLoad || type == chakra::kMemStore;
  out.collective = type == chakra::kCollective ? "collective"
                   : type == chakra::kSend     ? "Send"
                   : type == chakra::kRecv     ? "Recv"
                                               : "";
  uint32_t thread = 0;
  uint32_t stream = 0;
  for (const Attribute& a : attributes) {
    apply(out, a, type, thread, stream);
  }
  out.row = out.on_gpu ? stream : thread;
  if (type == chakra::kMetadata) {
    out.duration_us = -1;
  }
  return out;
}

// PyTorch's node.
class NodeReader {
 public:
  explicit NodeReader(Activity& out) : out_(out), nodes_(out) {}

  void about(const JsonMember& m) {
    if (m.key == "pid" && !m.is_string) {
      out_.pid = static_cast<base::Pid>(std::max<int64_t>(base::parse_int(m.value).value_or(0), 0));
    }
  }
  void node(const TraceEvent& text) {
    ExecutionNode out;
    std::optional<double> whole;
    bool wrong = false;
    uint32_t thread = 0;
    uint32_t stream = 0;
    for (const JsonMember& m : text.members) {
      const auto number = number_of(m);
      if (m.key == "id" && number) {
        out.id = static_cast<uint64_t>(std::max(*number, 0.0));
      } else if (m.key == "name") {
        out.name = unescaped(m.value);
      } else if (m.key == "ts") {
        out.begin_us = number;
        wrong = wrong || (!number && m.value != "null");
      } else if (m.key == "inclusive_dur" || m.key == "dur") {
        whole = number;
        wrong = wrong || (!number && m.value != "null");
      } else if (m.key == "stream" && number) {
        stream = static_cast<uint32_t>(std::clamp(*number, 0.0, 4e9));
      } else if (m.key == "cat") {
        out.on_gpu = m.value == "kernel" || m.value == "gpu_memcpy" || m.value == "gpu_memset";
        out.memory = out.on_gpu && m.value != "kernel";
      } else if (m.key == "pg_name") {
        out.group = unescaped(m.value);
      } else if (m.key == "attrs") {
        thread = thread_of(m.value);
      }
    }
    if (out.on_gpu && model::is_nccl_kernel(out.name)) {
      out.collective = out.name;
    }
    out.duration_us = out.begin_us ? whole.value_or(-1) : -1;
    out.row = out.on_gpu ? stream : thread;
    if (wrong) {
      nodes_.bad(out.name);
    }
    nodes_.add(out);
  }
  void bad(std::string_view text) { nodes_.bad(text); }

  base::Status end(TraceEvents::End end) {
    nodes_.finish(end == TraceEvents::End::whole);
    if (!nodes_.found()) {
      return base::fail("there is no list of nodes");
    }
    return nodes_.timed() ? base::Status()
                          : base::fail(
                                "the execution trace has no times; chakra_trace_link joins it with a trace "
                                "of torch.profiler, which has them");
  }

 private:
  static std::optional<double> number_of(const JsonMember& m) {
    double out = 0;
    const auto read = std::from_chars(m.value.data(), m.value.data() + m.value.size(), out);
    return !m.is_string && read.ec == std::errc() && read.ptr == m.value.data() + m.value.size() &&
                   std::isfinite(out)
               ? std::optional(out)
               : std::nullopt;
  }

  static uint32_t thread_of(std::string_view attributes) {
    const json list = model::parse_json(attributes);
    for (const json& a : list.is_array() ? list : json::array()) {
      if (a.is_object() && a.value("name", json()) == "tid" &&
          a.value("value", json()).is_number_unsigned()) {
        return a["value"].get<uint32_t>();
      }
    }
    return 0;
  }

  Activity& out_;
  ExecutionNodes nodes_;
};

}  // namespace

// The last number of the name.
base::Result<RecordOwner> owner_of_execution_trace(const std::string& path) {
  XPURUN_TRY(base::read_file_start(path, 0));
  std::string_view name = base::base_name(path);
  name = name.substr(0, name.find(".json"));
  const size_t last = name.find_last_of("0123456789");
  if (last == std::string_view::npos) {
    return RecordOwner{};
  }
  const std::string_view digits = name.substr(0, last + 1);
  const size_t before = digits.find_last_not_of("0123456789");
  const auto rank = base::parse_int(digits.substr(before == std::string_view::npos ? 0 : before + 1));
  return rank && *rank < base::kHighestRank ? RecordOwner{.rank = static_cast<base::Rank>(*rank)}
                                            : RecordOwner{};
}

bool begins_execution_trace(std::string_view head) {
  return base::trim(head).starts_with('{') && head.find("\"schema\"") != std::string_view::npos &&
         head.find("\"nodes\"") != std::string_view::npos &&
         head.find("\"traceEvents\"") == std::string_view::npos;
}

base::Status parse_chakra_trace(Activity& out, std::string_view bytes) {
  ExecutionNodes nodes(out);
  size_t messages = 0;
  bool whole = true;
  try {
    const char* at = bytes.data();
    const char* end = at + bytes.size();
    while (at != end) {
      const uint64_t size = protozero::decode_varint(&at, end);
      if (size > static_cast<uint64_t>(end - at)) {
        whole = false;
        break;
      }
      // The first message is about the trace.
      if (messages++ > 0) {
        nodes.add(chakra_node(pbf_reader(at, size)));
      }
      at += size;
    }
  } catch (const protozero::exception&) {
    whole = false;
  }
  nodes.finish(whole);
  return nodes.timed() ? base::Status()
                       : base::fail(nodes.found() ? "the nodes have no durations"
                                                  : "there is no node of an execution trace in it");
}

base::Status parse_execution_trace(Activity& out, std::istream& text) {
  NodeReader reader(out);
  const auto end = TraceEvents::read(text,
                                     {.event = [&](const TraceEvent& event) { reader.node(event); },
                                      .about = [&](const JsonMember& member) { reader.about(member); },
                                      .bad = [&](std::string_view text) { reader.bad(text); },
                                      .goes_on = [] { return true; }},
                                     "nodes");
  return reader.end(end);
}

base::Status add_chakra_trace(Activity& out, const std::string& path) {
  XPURUN_TRY_ASSIGN(const std::string bytes, base::read_regular_file(path, kLargestTrace));
  const auto parsed = parse_chakra_trace(out, bytes);
  return parsed ? parsed : base::fail(base::Error(parsed.error()).context(path));
}

base::Status add_execution_trace(Activity& out, const std::string& path) {
  XPURUN_TRY_ASSIGN(const auto text, TraceText::open(path));
  std::istream json_text(text.get());
  const auto parsed = parse_execution_trace(out, json_text);
  out.complete = out.complete && text->problem().empty();
  return parsed ? parsed : base::fail(base::Error(parsed.error()).context(path));
}

}  // namespace xpurun::report
