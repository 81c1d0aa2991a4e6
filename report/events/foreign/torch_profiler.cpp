#include "report/events/foreign/torch_profiler.h"

#include "common/base/hash.h"
#include "common/base/strings.h"
#include "common/model/json_fields.h"
#include "common/model/timing/op_names.h"
#include "report/events/foreign/left_out.h"
#include "report/events/foreign/operation_names.h"
#include "report/events/foreign/trace_events.h"
#include "report/events/foreign/trace_text.h"
#include "report/events/op_facts.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <deque>
#include <istream>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace xpurun::report {

namespace {

// Memory for the events of one file. Real traces need about half of the size of their text.
constexpr size_t kMostKeptBytes = size_t{2} << 30;
// Where HolisticTraceAnalysis looks, too: before the events.
constexpr size_t kHead = size_t{64} << 10;
constexpr std::string_view kRank = "\"rank\":";

// Of an event without an end.
constexpr int64_t kNoDuration = -1;
// Of an entry of a map.
constexpr size_t kNodeBytes = 64;

// What torch calls the kinds of events that become slices.
struct Kind {
  std::string_view name;
  Category category;
  TrackKind track;
};
constexpr std::array kTorchKinds{
    Kind{"kernel", Category::kernel, TrackKind::compute},
    Kind{"gpu_memcpy", Category::memory, TrackKind::memory},
    Kind{"gpu_memset", Category::memory, TrackKind::memory},
    Kind{"cuda_runtime", Category::host, TrackKind::host},
    Kind{"cuda_driver", Category::host, TrackKind::host},
    Kind{"cpu_op", Category::host, TrackKind::host},
    Kind{"user_annotation", Category::python, TrackKind::host},
    Kind{"python_function", Category::python, TrackKind::host},
    Kind{"overhead", Category::host, TrackKind::host},
    // Of torch before 1.11.
    Kind{"Kernel", Category::kernel, TrackKind::compute},
    Kind{"Memcpy", Category::memory, TrackKind::memory},
    Kind{"Memset", Category::memory, TrackKind::memory},
    Kind{"Runtime", Category::host, TrackKind::host},
    Kind{"Operator", Category::host, TrackKind::host},
    // Of Meta's accelerator, and of AMD's runtime.
    Kind{"mtia_ccp_events", Category::kernel, TrackKind::compute},
    Kind{"mtia_runtime", Category::host, TrackKind::host},
    Kind{"hip_runtime", Category::host, TrackKind::host},
};
// Of a program that does not say what its events are, or that names kinds of its own.
constexpr Kind kOther{"event", Category::python, TrackKind::host};
// Not events but rows that torch draws over all others, and arrows.
constexpr std::array<std::string_view, 4> kNoKinds{"Trace", "ac2g", "async_cpu_to_gpu", "fwdbwd"};
// Arguments that are kept.
constexpr std::array<std::string_view, 9> kKept{
    "Collective name",    "In msg nelems", "Out msg nelems",          "Group size", "dtype",
    "Process Group Name", "bytes",         "memory bandwidth (GB/s)", "External id"};

constexpr std::string_view kStep = "ProfilerStep#";

// The stages of a step, as torch annotates them.
model::Stage stage_of(std::string_view annotation) {
  return annotation.starts_with(kStep)                      ? model::Stage::mark
         : annotation.starts_with("Optimizer.step#")        ? model::Stage::optimizer
         : annotation.starts_with("enumerate(DataLoader)#") ? model::Stage::data
                                                            : model::Stage::other;
}

// What torch says of the call of a collective, beside the kernel.
struct Exchange {
  std::string collective;
  std::string type;
  std::string group;  // name and ranks
  int64_t in = 0;     // elements; of a memory operation its bytes
  int64_t out = 0;
  int64_t size = 0;    // ranks of the group
  int64_t number = 0;  // of the call in its group; 0: unknown

  auto operator<=>(const Exchange&) const = default;
};

// Decimal microseconds to ns, without the rounding of a double. Empty: no such number.
std::optional<int64_t> ns_of(std::string_view text) {
  const bool negative = text.starts_with('-');
  text.remove_prefix(negative ? 1 : 0);
  int64_t us = 0;
  const auto whole = std::from_chars(text.data(), text.data() + text.size(), us);
  if (whole.ec != std::errc() || us < 0 || us > kLatestNs / 1'000) {
    return std::nullopt;
  }
  int64_t ns = us * 1'000;
  const char* at = whole.ptr;
  const char* end = text.data() + text.size();
  if (at != end && *at == '.') {
    ++at;
    for (int64_t unit = 100; at != end && *at >= '0' && *at <= '9'; unit /= 10) {
      ns += unit * (*at++ - '0');
    }
  }
  return at == end ? std::optional(negative ? -ns : ns) : std::nullopt;
}

// Of "HOST_PID.NUMBER.pt.trace.json"; empty for other names.
RecordOwner worker_of(std::string_view name) {
  const size_t suffix = name.find(".pt.trace.json");
  const std::string_view worker =
      name.substr(0, suffix == std::string_view::npos ? 0 : name.rfind('.', suffix - 1));
  const size_t mark = worker.rfind('_');
  if (worker.size() >= suffix || mark == std::string_view::npos || mark == 0 ||
      !base::parse_int(name.substr(worker.size() + 1, suffix - worker.size() - 1))) {
    return {};
  }
  const auto pid = base::parse_int(worker.substr(mark + 1));
  return pid && *pid > 0 ? RecordOwner{.host = base::sanitize(worker.substr(0, mark)),
                                       .pid = static_cast<base::Pid>(*pid)}
                         : RecordOwner{};
}

std::optional<int64_t> time_of(const JsonMember& m) {
  // An exponent: the writer of the file gave no decimals to lose.
  if (m.value.find_first_of("eE") == std::string_view::npos) {
    return ns_of(m.value);
  }
  double us = 0;
  const auto read = std::from_chars(m.value.data(), m.value.data() + m.value.size(), us);
  return read.ec == std::errc() && read.ptr == m.value.data() + m.value.size()
             ? ns_of(fmt::format("{:.3f}", std::clamp(us, -1e18, 1e18)))
             : std::nullopt;
}

// Texts may hold escapes and anything else.
std::string clean(std::string_view text) {
  return base::sanitize(text.find('\\') == std::string_view::npos ? std::string(text) : unescaped(text));
}

class Handler {
 public:
  explicit Handler(Activity& out) : out_(out), first_(out.slices.size()) {}

  void about(const JsonMember& m) {
    const auto n = m.is_string ? std::nullopt : base::parse_int(m.value);
    if (m.key == "baseTimeNanoseconds" && n && *n >= 0 && *n < kLatestNs / 2) {
      base_ns_ = *n;
    } else if (m.key == "deviceProperties" && out_.gpu.empty()) {
      const auto devices = model::parse_json(m.value);
      if (devices.is_array() && !devices.empty() && devices[0].is_object() && devices[0].contains("name") &&
          devices[0]["name"].is_string()) {
        out_.gpu = base::sanitize(devices[0]["name"].get<std::string>());
      }
    }
  }

  void event(const TraceEvent& text) {
    ++events_;
    event_.clear();
    for (const JsonMember& m : text.members) {
      member(m);
    }
    for (const JsonMember& m : text.arguments) {
      argument(m);
    }
    switch (event_.phase) {
      case 'X':
        add(event_.duration_ns);
        break;
      case 'B':
        open_[{event_.pid, event_.tid}].push_back({add(0), std::string(event_.name)});
        kept_ += sizeof(Open) + event_.name.size();
        break;
      case 'E':
        close();
        break;
      default:
        break;  // marks, counters, arrows, names of threads
    }
  }
  void bad(std::string_view text) { left_out_.add(clean(text)); }
  // False: the list has things in it, but none of them is an event.
  bool found() const { return events_ > 0 || left_out_.empty(); }
  bool has_room() const { return kept_ <= kMostKeptBytes; }

  // Times count from a moment that stands anywhere in the file. `whole`: its end is there.
  void finish(bool whole) {
    for (const auto& [thread, open] : open_) {
      for (const Open& one : open) {
        leave_out(one);  // its end is not in the file
      }
    }
    left_out_.note(out_, whole);
    std::erase_if(out_.slices, [](const Slice& s) { return s.duration_ns == kNoDuration; });
    for (size_t i = first_; i < out_.slices.size(); ++i) {
      out_.slices[i].begin_ns = std::clamp<int64_t>(out_.slices[i].begin_ns + base_ns_, 0, kLatestNs);
    }
    number_collectives();
  }

 private:
  struct Event {
    char phase = '\0';
    const Kind* kind = &kOther;  // null: nothing to show
    std::string_view name;       // as written
    std::optional<int64_t> begin_ns;
    std::optional<int64_t> duration_ns;
    bool has_wrong_end = false;
    int64_t pid = 0;
    int64_t tid = 0;
    uint32_t correlation = 0;
    bool has_exchange = false;
    Exchange exchange;
    std::vector<Argument> arguments;

    void clear() {
      arguments.clear();
      phase = '\0';
      kind = &kOther;
      name = {};
      begin_ns = duration_ns = std::nullopt;
      has_wrong_end = false;
      pid = tid = 0;
      correlation = 0;
      if (std::exchange(has_exchange, false)) {
        exchange = {};
      }
    }
  };
  struct Open {
    std::optional<size_t> slice;  // of the begin; empty: it is not shown
    std::string name;
  };
  struct KnownCall {
    const Kind* kind = nullptr;
    std::string_view name;  // in names_
    Exchange exchange;

    bool operator==(const KnownCall&) const = default;
  };
  struct HashOfCall {
    size_t operator()(const KnownCall& c) const {
      return std::hash<std::string_view>()(c.name) ^ reinterpret_cast<uintptr_t>(c.kind) ^
             static_cast<size_t>(c.exchange.in);
    }
  };

  static const Kind* kind_of(std::string_view name) {
    const auto* found =
        std::find_if(kTorchKinds.begin(), kTorchKinds.end(), [&](const Kind& k) { return k.name == name; });
    if (found != kTorchKinds.end()) {
      return found;
    }
    return std::find(kNoKinds.begin(), kNoKinds.end(), name) == kNoKinds.end() ? &kOther : nullptr;
  }

  void member(const JsonMember& m) {
    if (m.key == "ph") {
      event_.phase = m.value.empty() ? '\0' : m.value.front();
    } else if (m.key == "cat") {
      event_.kind = kind_of(m.value);
    } else if (m.key == "name") {
      event_.name = m.value;
    } else if (m.key == "ts") {
      event_.begin_ns = time_of(m);
    } else if (m.key == "dur") {
      event_.duration_ns = time_of(m);
      event_.has_wrong_end = !event_.duration_ns;
    } else if (m.key == "pid") {
      event_.pid = number_of(m, pids_);
    } else if (m.key == "tid") {
      event_.tid = number_of(m, tids_);
    }
  }

  // Programs may name processes and threads.
  int64_t number_of(const JsonMember& m, std::map<std::string, int64_t, std::less<>>& names) {
    if (const auto number = base::parse_int(m.value)) {
      return *number;
    }
    const auto known = names.find(m.value);
    if (known != names.end()) {
      return known->second;
    }
    kept_ += kNodeBytes + m.value.size();
    return names.emplace(m.value, static_cast<int64_t>(names.size())).first->second;
  }

  void argument(const JsonMember& m) {
    if (m.is_string) {
      Exchange& e = event_.exchange;
      if (m.key == "Process Group Name" || m.key == "Process Group Ranks") {
        e.group += clean(m.value) + ' ';
      } else if (m.key == "Collective name" || m.key == "dtype") {
        (m.key == "dtype" ? e.type : e.collective) = clean(m.value);
      } else {
        keep(m.key, [&] { return clean(m.value); });
        return;
      }
      event_.has_exchange = true;
      keep(m.key, [&] { return clean(m.value); });
      return;
    }
    const auto n = base::parse_int(m.value);
    if (!n) {
      double real = 0;
      const auto read = std::from_chars(m.value.data(), m.value.data() + m.value.size(), real);
      // Not "inf" and "nan", which torch writes for a copy that took no time.
      if (read.ec == std::errc() && std::isfinite(real)) {
        keep(m.key, [&] { return real; });
      }
      return;
    }
    if (m.key == "correlation" && *n > 0 && *n < UINT32_MAX) {
      event_.correlation = static_cast<uint32_t>(*n);
      return;
    }
    Exchange& e = event_.exchange;
    const std::array<std::pair<std::string_view, int64_t*>, 4> numbers{
        {{"In msg nelems", &e.in}, {"Out msg nelems", &e.out}, {"Group size", &e.size}, {"Seq", &e.number}}};
    for (const auto& [name, to] : numbers) {
      if (m.key == name) {
        *to = *n;
        event_.has_exchange = true;
      }
    }
    keep(m.key, [&] { return *n; });
  }

  template <typename Make>
  void keep(std::string_view key, Make&& make) {
    if (std::find(kKept.begin(), kKept.end(), key) != kKept.end()) {
      event_.arguments.push_back({std::string(key), make()});
      kept_ += sizeof(Argument);
      if (const auto* text = std::get_if<std::string>(&event_.arguments.back().value)) {
        kept_ += text->size();
      }
    }
  }

  uint32_t call_of(const Kind& kind, Category category) {
    KnownCall known{&kind, event_.name, event_.exchange};
    known.exchange.number = 0;
    const auto found = calls_.find(known);
    if (found != calls_.end()) {
      return found->second;
    }
    names_.emplace_back(event_.name);
    known.name = names_.back();
    const auto index = static_cast<uint32_t>(out_.calls.size());
    calls_.emplace(std::move(known), index);
    kept_ += sizeof(Call) + 2 * event_.name.size() + kNodeBytes;
    Call call{
        .name = clean(event_.name), .category = category, .arguments = {{"kind", std::string(kind.name)}}};
    call.key = key_of_category(category);
    if (category == Category::collective) {
      describe_collective(call);
    } else if (category == Category::python) {
      call.stage = stage_of(call.name);
    }
    out_.calls.push_back(std::move(call));
    return index;
  }

  void describe_collective(Call& call) {
    const Exchange& e = event_.exchange;
    (void)set_collective(call.key, e.collective.empty() ? call.name : e.collective);
    if (e.size > 1 && e.size < base::kHighestRank && !e.group.empty()) {
      const auto size = static_cast<int>(e.size);
      call.communicator = communicator_of(out_, base::hash_text(e.group), size);
      call.bus_factor = model::bus_factor(model::collective_name(call.key), size);
      call.ends_together = ends_together(model::collective_name(call.key));
    }
    if (const int type = nccl_type(e.type); type >= 0) {
      call.key.dtype[0] = static_cast<uint8_t>(type);
    }
    if (call.key.dtype[0] != model::kNoType) {
      // Beside an all-gather or a reduce-scatter the larger side is the whole.
      call.key.k = std::max<int64_t>(std::min(e.in, e.out), 0);
      call.work = static_cast<uint64_t>(std::clamp<int64_t>(std::max(e.in, e.out), 0, kLatestNs / 8)) *
                  nccl_type_bytes(call.key.dtype[0]);
    }
  }

  // torch says which call of its group a collective was, since version 2.6. Else they are counted from the
  // first one that was called in the trace: ranks whose traces begin with the same step count alike.
  void number_collectives() {
    std::vector<Slice*> collectives;
    std::unordered_set<uint32_t> called;
    for (size_t i = first_; i < out_.slices.size(); ++i) {
      Slice& s = out_.slices[i];
      if (out_.tracks[s.track].kind == TrackKind::host) {
        called.insert(s.launch);
      }
      const Call& call = out_.calls[s.call];
      if (call.communicator >= 0 && model::collective_name(call.key) != "SendRecv") {
        collectives.push_back(&s);
      }
    }
    std::stable_sort(collectives.begin(), collectives.end(),
                     [](const Slice* a, const Slice* b) { return a->begin_ns < b->begin_ns; });
    std::map<int, uint32_t> counts;
    for (Slice* s : collectives) {
      if (s->sequence == 0 && s->launch != 0 && called.contains(s->launch)) {
        s->sequence = ++counts[out_.calls[s->call].communicator];
      }
    }
    for (const auto& [index, count] : counts) {
      Communicator& c = out_.communicators[static_cast<size_t>(index)];
      c.identity = base::hash_words(c.identity, {first_step_});
    }
    for (Slice* s : collectives) {
      const Communicator& c = out_.communicators[static_cast<size_t>(out_.calls[s->call].communicator)];
      s->meeting = s->sequence == 0 ? 0 : meeting_of(c.identity, c.size, s->sequence);
    }
  }

  uint32_t track_of(TrackKind kind, uint32_t number) {
    const auto [at, is_new] = tracks_.emplace(std::pair(kind, number), 0);
    if (is_new) {
      at->second = out_.track(kind, number);
    }
    return at->second;
  }

  void close() {
    auto& open = open_[{event_.pid, event_.tid}];
    if (open.empty() || !event_.begin_ns) {
      left_out_.add(clean(event_.name));
      return;
    }
    const Open begun = std::move(open.back());
    open.pop_back();
    if (!begun.slice) {
      return;
    }
    Slice& slice = out_.slices[*begun.slice];
    slice.duration_ns = *event_.begin_ns - slice.begin_ns;
    if (slice.duration_ns < 0 || slice.duration_ns > kLongestNs) {
      leave_out(begun);
    }
  }

  // An event that was begun.
  void leave_out(const Open& begun) {
    if (begun.slice) {
      out_.slices[*begun.slice].duration_ns = kNoDuration;
      left_out_.add(clean(begun.name));
    }
  }

  // The index of the slice. One that begins before another stands before that, also if both have the same
  // times.
  std::optional<size_t> add(std::optional<int64_t> duration) {
    const Event& e = event_;
    if (e.kind == nullptr) {
      return std::nullopt;
    }
    if (!e.begin_ns || std::abs(*e.begin_ns) > kLatestNs / 2 || e.has_wrong_end || !duration ||
        *duration < 0 || *duration > kLongestNs) {
      left_out_.add(clean(e.name));
      return std::nullopt;
    }
    // NCCL's kernels have its name in front in every version.
    const bool nccl = e.kind->category == Category::kernel && e.name.starts_with("nccl");
    const Category category = nccl ? Category::collective : e.kind->category;
    const TrackKind kind = nccl ? TrackKind::communication : e.kind->track;
    Slice slice{.begin_ns = *e.begin_ns,
                .duration_ns = *duration,
                .call = call_of(*e.kind, category),
                .track = track_of(kind, static_cast<uint32_t>(e.tid)),
                .sequence = category == Category::collective && e.exchange.number > 0
                                ? static_cast<uint32_t>(e.exchange.number)
                                : 0,
                .launch = e.correlation};
    if (out_.calls[slice.call].stage == model::Stage::mark) {
      const auto number = base::parse_int(e.name.substr(std::min(kStep.size(), e.name.size()))).value_or(0);
      first_step_ = std::min(first_step_, static_cast<uint64_t>(std::max<int64_t>(number, 0)));
    }
    if (kind == TrackKind::host) {
      out_.pid = static_cast<base::Pid>(e.pid);
    }
    kept_ += sizeof(Slice);
    if (!e.arguments.empty()) {
      slice.extra = static_cast<uint32_t>(out_.extras.size());
      out_.extras.push_back(event_.arguments);
    }
    out_.slices.push_back(slice);
    return out_.slices.size() - 1;
  }

  Activity& out_;
  size_t first_;
  Event event_;
  std::map<std::pair<int64_t, int64_t>, std::vector<Open>> open_;  // begun events, by process and thread
  std::map<std::pair<TrackKind, uint32_t>, uint32_t> tracks_;
  std::map<std::string, int64_t, std::less<>> pids_;
  std::map<std::string, int64_t, std::less<>> tids_;
  size_t events_ = 0;
  LeftOut left_out_;
  int64_t base_ns_ = 0;
  size_t kept_ = 0;                   // bytes of what was added, about
  uint64_t first_step_ = UINT64_MAX;  // number of the first step of the trace
  std::deque<std::string> names_;
  std::unordered_map<KnownCall, uint32_t, HashOfCall> calls_;
};

}  // namespace

base::Result<RecordOwner> owner_of_torch_file(const std::string& path) {
  RecordOwner out = worker_of(base::base_name(path));
  XPURUN_TRY_ASSIGN(const auto text, TraceText::open(path));
  std::string head(kHead, '\0');
  head.resize(static_cast<size_t>(text->sgetn(head.data(), static_cast<std::streamsize>(kHead))));
  size_t at = head.find(kRank);
  if (at == std::string::npos) {
    return out;
  }
  at += kRank.size();
  while (at < head.size() && std::isspace(static_cast<unsigned char>(head[at])) != 0) {
    ++at;
  }
  size_t end = at;
  while (end < head.size() && std::isdigit(static_cast<unsigned char>(head[end])) != 0) {
    ++end;
  }
  const auto rank = base::parse_int(std::string_view(head).substr(at, end - at));
  if (rank && *rank < base::kHighestRank) {
    out.rank = static_cast<base::Rank>(*rank);
    out.pid = 0;
  }
  return out;
}

base::Status parse_torch_trace(Activity& out, std::istream& json) {
  Handler handler(out);
  const auto end = TraceEvents::read(json, {.event = [&](const TraceEvent& event) { handler.event(event); },
                                            .about = [&](const JsonMember& member) { handler.about(member); },
                                            .bad = [&](std::string_view text) { handler.bad(text); },
                                            .goes_on = [&] { return handler.has_room(); }});
  handler.finish(end == TraceEvents::End::whole);
  if (end == TraceEvents::End::too_long) {
    return base::fail(fmt::format("an event of more than {} MiB", kLongestTraceEvent >> 20));
  }
  return end == TraceEvents::End::no_list || !handler.found() ? base::fail("there is no list of events")
                                                              : base::Status();
}

base::Status add_torch_trace(Activity& out, const std::string& path) {
  XPURUN_TRY_ASSIGN(const auto text, TraceText::open(path));
  std::istream json(text.get());
  auto parsed = parse_torch_trace(out, json);
  out.complete = out.complete && text->problem().empty();
  if (parsed) {
    return parsed;
  }
  return base::fail(
      fmt::format("{}: {}", path, text->problem().empty() ? parsed.error().what : text->problem()));
}

}  // namespace xpurun::report
