#include "report/events/foreign/xpu_timer/trace.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/timing/op_names.h"
#include "report/events/foreign/left_out.h"
#include "report/events/foreign/operation_names.h"
#include "report/events/foreign/xpu_timer/kernel.h"
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

using namespace xpu_timer;
using protozero::pbf_reader;
constexpr size_t kLargestTimeline = size_t{1} << 30;
// Kernels without an entry in the meta file are of the kind of their number.
constexpr std::string_view kPrefix = "xpu_timer_";

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

class Reader {
 public:
  Reader(Activity& out, std::string_view meta) : out_(out), names_(parse_meta(meta)) {}

  void read(pbf_reader r) {
    while (r.next()) {
      switch (r.tag_and_type()) {
        case field(1, kBytes):
          add(read_xpu_timer_kernel(r.get_message()));
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

  void finish(bool whole) { left_out_.note(out_, whole); }

 private:
  std::string name_of(const XpuTimerKernel& k) const {
    const auto name = names_.find(k.code);
    return name != names_.end() ? name->second : fmt::format("kernel {}", k.code);
  }

  uint32_t call_of(const XpuTimerKernel& k) {
    const auto [at, is_new] = calls_.emplace(std::tuple(k.type, k.code, k.work, k.communicator, k.key),
                                             static_cast<uint32_t>(out_.calls.size()));
    if (is_new) {
      Call call{.name = name_of(k),
                .category = k.type == kXpuTimerMatmul       ? Category::matmul
                            : k.type == kXpuTimerCollective ? Category::collective
                                                            : Category::memory,
                .work = k.work};
      call.key = k.key;
      const model::EventKey general = key_of_category(call.category);
      call.key.api = general.api;
      call.key.op_class = general.op_class;
      call.key.comm = general.comm;
      call.key.peer = general.peer;
      if (k.type == kXpuTimerCollective && set_collective(call.key, call.name)) {
        call.bus_factor = model::bus_factor(model::collective_name(call.key), static_cast<int>(k.ranks));
      }
      if (k.type == kXpuTimerCollective && k.ranks > 1) {
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

  void add(XpuTimerKernel&& k) {
    Slice slice;
    if (!set_times(slice, k.start_us, k.duration_us)) {
      left_out_.add(name_of(k));
      return;
    }
    slice.call = call_of(k);
    const TrackKind kind = k.host                          ? TrackKind::host
                           : k.type == kXpuTimerMatmul     ? TrackKind::compute
                           : k.type == kXpuTimerCollective ? TrackKind::communication
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
      left_out_.add(name);
    }
  }

  Activity& out_;
  Meta names_;
  std::map<std::tuple<uint64_t, uint64_t, uint64_t, uint64_t, model::EventKey>, uint32_t> calls_;
  std::map<std::string, uint32_t> host_calls_;
  LeftOut left_out_;
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
  bool whole = true;
  try {
    reader.read(pbf_reader(timeline.data(), timeline.size()));
  } catch (const protozero::exception&) {
    whole = false;
  }
  reader.finish(whole);
  return whole;
}

base::Status add_xpu_timer_trace(Activity& out, const std::string& path) {
  XPURUN_TRY_ASSIGN(const std::string timeline, base::read_regular_file(path, kLargestTimeline));
  const auto meta = base::read_regular_file(path + ".meta", kLargestTimeline);
  (void)parse_xpu_timer_trace(out, timeline, meta ? *meta : std::string());
  return {};
}

}  // namespace xpurun::report
