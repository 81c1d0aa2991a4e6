// Field numbers are those of xpu_timer/protos/hook.proto in github.com/intelligent-machine-learning/dlrover.
#include "report/events/foreign/xpu_timer_trace.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/timing/op_names.h"
#include "report/events/foreign/operation_names.h"
#include "report/events/op_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <protozero/pbf_reader.hpp>
#include <tuple>
#include <utility>
#include <vector>

namespace xpurun::report {

namespace {

using protozero::pbf_reader;
constexpr auto kVarint = protozero::pbf_wire_type::varint;
constexpr auto kFixed64 = protozero::pbf_wire_type::fixed64;
constexpr auto kBytes = protozero::pbf_wire_type::length_delimited;
constexpr size_t kLargestTimeline = size_t{1} << 30;
constexpr size_t kLongestList = 100;
constexpr uint64_t kMatmul = 0;
constexpr uint64_t kCollective = 1;
// Kernels without an entry in the meta file are of the kind of their number.
constexpr std::string_view kPrefix = "xpu_timer_";

constexpr uint32_t field(protozero::pbf_tag_type number, protozero::pbf_wire_type type) {
  return protozero::tag_and_type(number, type);
}

using Meta = std::map<uint64_t, std::string>;

// Lines "code,name"; lines about functions of Python begin with a word.
Meta parse_meta(std::string_view text) {
  Meta out;
  for (const std::string_view line : base::split(text, '\n')) {
    const size_t comma = line.find(',');
    const auto code = comma == std::string_view::npos ? std::nullopt : base::parse_int(line.substr(0, comma));
    if (code && *code >= 0) {
      std::string_view name = base::trim(line.substr(comma + 1));
      name.remove_prefix(name.starts_with(kPrefix) ? kPrefix.size() : 0);
      out[static_cast<uint64_t>(*code)] = base::sanitize(name);
    }
  }
  return out;
}

struct Kernel {
  uint64_t type = 0;
  uint64_t code = 0;
  uint64_t start_us = 0;
  uint64_t duration_us = 0;
  uint64_t delay_us = 0;
  uint64_t work = 0;
  uint64_t communicator = 0;
  uint64_t sequence = 0;
  int64_t ranks = 0;
  uint64_t problem_size = 0;  // bytes on the bus
  bool point_to_point = false;
  bool host = false;  // of the host's clock: an allocation
  model::EventKey key{};
  std::vector<Argument> arguments;
};

std::string put_text(Kernel& k, const char* name, pbf_reader& r) {
  const auto view = r.get_view();
  std::string text = base::sanitize({view.data(), view.size()});
  k.arguments.push_back({name, text});
  return text;
}

uint8_t number_or_none(int number) {
  return static_cast<uint8_t>(number < 0 ? 0xff : number);
}

void put_number(Kernel& k, const char* name, uint64_t number) {
  k.arguments.push_back({name, static_cast<int64_t>(number)});
}

// "64,1,1"
template <typename Range>
std::string list_text(const Range& numbers) {
  std::string out;
  for (const auto n : numbers) {
    if (out.size() > kLongestList) {
      return out + ",...";
    }
    out += fmt::format("{}{}", out.empty() ? "" : ",", n);
  }
  return out;
}

void read_matmul(Kernel& k, pbf_reader r) {
  while (r.next()) {
    switch (r.tag_and_type()) {
      case field(1, kBytes): {
        uint64_t flop = 2;
        std::string shape;
        std::vector<int64_t> sizes;  // batch, m, n, k
        for (const uint32_t n : r.get_packed_uint32()) {
          sizes.push_back(n);
          flop *= n;
          shape += fmt::format("{}{}", shape.empty() ? "" : "x", n);
          if (shape.size() > 100) {
            break;
          }
        }
        k.work = flop;
        if (sizes.size() == 4) {
          k.key.batch = static_cast<uint32_t>(sizes[0]);
          k.key.m = sizes[1];
          k.key.n = sizes[2];
          k.key.k = sizes[3];
        }
        k.arguments.push_back({"shape", shape});
        break;
      }
      case field(2, kBytes): {
        const uint8_t type = number_or_none(cuda_type(put_text(k, "dtype", r)));
        std::fill(std::begin(k.key.dtype), std::end(k.key.dtype), type);
        break;
      }
      case field(3, kBytes): {
        const std::string letters = put_text(k, "transposes", r);
        const auto number = [&](size_t at) -> unsigned {
          return letters[at] == 'T' ? 1 : letters[at] == 'C' ? 2 : 0;
        };
        k.key.trans = static_cast<uint8_t>(letters.size() < 2 ? 0 : number(0) | number(1) << 4U);
        break;
      }
      case field(4, kBytes):
        k.arguments.push_back({"leading_dimensions", list_text(r.get_packed_int64())});
        break;
      case field(5, kBytes):
        k.arguments.push_back({"strides", list_text(r.get_packed_int64())});
        break;
      case field(6, kVarint):
        k.arguments.push_back({"cublas_algorithm", int64_t{r.get_int32()}});
        break;
      case field(7, kBytes):
        put_text(k, "function", r);
        break;
      default:
        r.skip();
    }
  }
}

// Batch, lengths of the queries and of the keys, size of the heads.
void read_attention(Kernel& k, pbf_reader r) {
  while (r.next()) {
    if (r.tag_and_type() == field(1, kBytes)) {
      k.arguments.push_back({"attention", list_text(r.get_packed_uint32())});
    } else {
      r.skip();
    }
  }
}

void read_grouped_matmul(Kernel& k, pbf_reader r) {
  int64_t groups = 0;
  while (r.next()) {
    switch (r.tag_and_type()) {
      case field(1, kBytes):
        ++groups;
        r.skip();
        break;
      case field(2, kBytes):
        put_text(k, "dtype", r);
        break;
      case field(3, kBytes):
        put_text(k, "function", r);
        break;
      case field(4, kFixed64): {
        const double flop = r.get_double();  // named tflops
        k.work = flop > 0 && flop < 1e18 ? static_cast<uint64_t>(flop) : 0;
        break;
      }
      default:
        r.skip();
    }
  }
  k.arguments.push_back({"groups", groups});
}

void read_collective(Kernel& k, pbf_reader r) {
  while (r.next()) {
    switch (r.tag_and_type()) {
      case field(1, kBytes):
        k.arguments.push_back({"grid", list_text(r.get_packed_uint32())});
        break;
      case field(2, kBytes):
        k.arguments.push_back({"block", list_text(r.get_packed_uint32())});
        break;
      case field(7, kVarint):
        put_number(k, "nodes", r.get_uint32());
        break;
      case field(3, kVarint):
        k.communicator = r.get_uint64();
        k.arguments.push_back({"communicator", fmt::format("{:016x}", k.communicator)});
        break;
      case field(4, kVarint):
        k.work = r.get_uint64();
        put_number(k, "bytes", k.work);
        break;
      case field(5, kBytes):
        k.key.dtype[0] = number_or_none(nccl_type(put_text(k, "dtype", r)));
        break;
      case field(6, kVarint):
        k.ranks = r.get_uint32();
        put_number(k, "communicator_size", static_cast<uint64_t>(k.ranks));
        break;
      case field(8, kVarint):
        k.sequence = r.get_uint64();
        break;
      case field(9, kVarint):
        k.problem_size = r.get_uint64();
        put_number(k, "problem_size", k.problem_size);
        break;
      case field(10, kVarint):
        if (const uint32_t type = r.get_uint32(); type != 0) {
          k.point_to_point = true;
          k.arguments.push_back({"direction", std::string(type == 1 ? "send" : "receive")});
        }
        break;
      default:
        r.skip();
    }
  }
}

void read_memory(Kernel& k, pbf_reader r) {
  while (r.next()) {
    switch (r.tag_and_type()) {
      case field(1, kVarint):
        k.work = r.get_uint64();
        put_number(k, "bytes", k.work);
        break;
      case field(2, kBytes):
        put_text(k, "direction", r);
        break;
      default:
        r.skip();
    }
  }
}

Kernel read_kernel(pbf_reader r) {
  Kernel k;
  while (r.next()) {
    switch (r.tag_and_type()) {
      case field(1, kVarint):
        k.type = r.get_uint32();
        break;
      case field(2, kVarint):
        k.code = r.get_uint32();
        break;
      case field(3, kVarint):
        k.start_us = r.get_uint64();
        break;
      case field(4, kVarint):
        k.duration_us = r.get_uint32();
        break;
      case field(5, kVarint):
        k.delay_us = r.get_uint32();
        break;
      case field(6, kVarint):
        put_number(k, "count", r.get_uint64());
        break;
      case field(7, kBytes):
        read_matmul(k, r.get_message());
        break;
      case field(8, kBytes):
        read_attention(k, r.get_message());
        break;
      case field(11, kVarint):
        k.host = r.get_bool();
        break;
      case field(12, kBytes):
        read_grouped_matmul(k, r.get_message());
        break;
      case field(9, kBytes):
        read_collective(k, r.get_message());
        break;
      case field(10, kBytes):
        read_memory(k, r.get_message());
        break;
      default:
        r.skip();
    }
  }
  const uint64_t moved = k.type == kCollective ? k.problem_size : k.type == kMatmul ? 0 : k.work;
  if (moved > 0 && k.duration_us > 0) {
    // Bytes in a microsecond, 1e6 bytes a second.
    k.arguments.push_back(
        {"bandwidth_GB/s", static_cast<double>(moved) / static_cast<double>(k.duration_us) / 1e3});
  }
  return k;
}

class Reader {
 public:
  Reader(Activity& out, std::string_view meta) : out_(out), names_(parse_meta(meta)) {}

  void read(pbf_reader r) {
    while (r.next()) {
      switch (r.tag_and_type()) {
        case field(1, kBytes):
          add(read_kernel(r.get_message()));
          break;
        case field(2, kBytes):
          add_host(r.get_message());
          break;
        case field(3, kVarint):
          out_.pid = static_cast<base::Pid>(r.get_uint32());
          break;
        default:
          r.skip();
      }
    }
  }

 private:
  uint32_t call_of(const Kernel& k) {
    const auto [at, is_new] = calls_.emplace(std::tuple(k.type, k.code, k.work, k.communicator, k.key),
                                             static_cast<uint32_t>(out_.calls.size()));
    if (is_new) {
      const auto name = names_.find(k.code);
      Call call{.name = name != names_.end() ? name->second : fmt::format("kernel {}", k.code),
                .category = k.type == kMatmul       ? Category::matmul
                            : k.type == kCollective ? Category::collective
                                                    : Category::memory,
                .work = k.work};
      call.key = k.key;
      const model::EventKey general = key_of_category(call.category);
      call.key.api = general.api;
      call.key.op_class = general.op_class;
      call.key.comm = general.comm;
      call.key.peer = general.peer;
      if (k.type == kCollective && set_collective(call.key, call.name)) {
        call.bus_factor = model::bus_factor(model::collective_name(call.key), static_cast<int>(k.ranks));
      }
      if (k.type == kCollective && k.ranks > 1) {
        call.communicator = communicator_of(out_, k.communicator, static_cast<int>(k.ranks));
      }
      out_.calls.push_back(std::move(call));
    }
    return at->second;
  }

  // False: the times come from damage.
  static bool set_times(Slice& slice, uint64_t start_us, uint64_t duration_us) {
    if (start_us > static_cast<uint64_t>(kLatestNs) / 1'000 ||
        duration_us > static_cast<uint64_t>(kLongestNs) / 1'000) {
      return false;
    }
    slice.begin_ns = static_cast<int64_t>(start_us * 1'000);
    slice.duration_ns = static_cast<int64_t>(duration_us * 1'000);
    return true;
  }

  void add(Kernel&& k) {
    Slice slice;
    if (!set_times(slice, k.start_us, k.duration_us)) {
      out_.complete = false;
      return;
    }
    slice.call = call_of(k);
    const TrackKind kind = k.host                  ? TrackKind::host
                           : k.type == kMatmul     ? TrackKind::compute
                           : k.type == kCollective ? TrackKind::communication
                                                   : TrackKind::memory;
    slice.track = out_.track(kind, 0, model::name_of(kind));
    slice.delay_us = static_cast<uint32_t>(k.delay_us);
    if (k.ranks > 1 && k.sequence != 0 && !k.point_to_point) {
      slice.meeting = meeting_of(k.communicator, static_cast<int>(k.ranks), k.sequence);
    }
    slice.sequence = static_cast<uint32_t>(k.sequence);
    if (!k.arguments.empty()) {
      slice.extra = static_cast<uint32_t>(out_.extras.size());
      out_.extras.push_back(std::move(k.arguments));
    }
    out_.slices.push_back(slice);
  }

  static void read_garbage(std::vector<Argument>& out, pbf_reader r) {
    while (r.next()) {
      switch (r.tag_and_type()) {
        case field(1, kVarint):
          out.push_back({"collected", int64_t{r.get_uint32()}});
          break;
        case field(2, kVarint):
          out.push_back({"uncollectable", int64_t{r.get_uint32()}});
          break;
        default:
          r.skip();
      }
    }
  }

  void add_host(pbf_reader r) {
    uint64_t start_us = 0;
    uint64_t duration_us = 0;
    std::string name;
    std::vector<Argument> arguments;
    while (r.next()) {
      switch (r.tag_and_type()) {
        case field(1, kVarint):
          start_us = r.get_uint64();
          break;
        case field(2, kVarint):
          duration_us = r.get_uint32();
          break;
        case field(3, kBytes): {
          const auto view = r.get_view();
          name = base::sanitize({view.data(), view.size()});
          break;
        }
        case field(4, kVarint):
          arguments.push_back({"count", int64_t{r.get_uint32()}});
          break;
        case field(5, kBytes):
          read_garbage(arguments, r.get_message());
          break;
        default:
          r.skip();
      }
    }
    const auto [at, is_new] = host_calls_.emplace(name, static_cast<uint32_t>(out_.calls.size()));
    if (is_new) {
      out_.calls.push_back({.name = name, .category = Category::python});
      out_.calls.back().stage = name == "GC"                 ? model::Stage::garbage
                                : name.ends_with("__next__") ? model::Stage::data
                                                             : model::Stage::other;
    }
    Slice slice;
    if (!arguments.empty()) {
      slice.extra = static_cast<uint32_t>(out_.extras.size());
      out_.extras.push_back(std::move(arguments));
    }
    slice.call = at->second;
    slice.track = out_.track(TrackKind::python, 0, "Python");
    if (set_times(slice, start_us, duration_us)) {
      out_.slices.push_back(slice);
    } else {
      out_.complete = false;
    }
  }

  Activity& out_;
  Meta names_;
  std::map<std::tuple<uint64_t, uint64_t, uint64_t, uint64_t, model::EventKey>, uint32_t> calls_;
  std::map<std::string, uint32_t> host_calls_;
};

}  // namespace

base::Result<RecordOwner> owner_of_xpu_timer_file(const std::string& path) {
  const std::string_view name = base::base_name(path);
  const auto rank = base::parse_int(name.substr(0, name.find('-')));
  const bool known = rank && *rank >= 0 && *rank < base::kHighestRank;
  return RecordOwner{.rank = known ? static_cast<base::Rank>(*rank) : base::kNoRank};
}

bool parse_xpu_timer_trace(Activity& out, std::string_view timeline, std::string_view meta) {
  Reader reader(out, meta);
  try {
    reader.read(pbf_reader(timeline.data(), timeline.size()));
  } catch (const protozero::exception&) {
    return false;
  }
  return true;
}

base::Status add_xpu_timer_trace(Activity& out, const std::string& path) {
  XPURUN_TRY_ASSIGN(const std::string timeline, base::read_regular_file(path, kLargestTimeline));
  const auto meta = base::read_regular_file(path + ".meta", kLargestTimeline);
  if (!parse_xpu_timer_trace(out, timeline, meta ? *meta : std::string())) {
    out.complete = false;
  }
  return {};
}

}  // namespace xpurun::report
