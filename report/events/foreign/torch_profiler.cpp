#include "report/events/foreign/torch_profiler.h"

#include "common/base/hash.h"
#include "common/base/strings.h"
#include "common/model/timing/op_names.h"
#include "report/events/foreign/operation_names.h"
#include "report/events/foreign/trace_text.h"
#include "report/events/op_facts.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <concepts>
#include <istream>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <utility>

namespace xpurun::report {

namespace {

// Memory for the events of one file. Real traces need about half of the size of their text.
constexpr size_t kMostKeptBytes = size_t{2} << 30;
// Where HolisticTraceAnalysis looks, too: before the events.
constexpr size_t kHead = size_t{64} << 10;
constexpr std::string_view kRank = "\"rank\":";

// Of an entry of a map.
constexpr size_t kNodeBytes = 64;

// What torch calls the kinds of events that become slices.
struct Kind {
  std::string_view name;
  Category category;
  TrackKind track;
};
constexpr std::array<Kind, 9> kTorchKinds{{{"kernel", Category::kernel, TrackKind::compute},
                                           {"gpu_memcpy", Category::memory, TrackKind::memory},
                                           {"gpu_memset", Category::memory, TrackKind::memory},
                                           {"cuda_runtime", Category::host, TrackKind::host},
                                           {"cuda_driver", Category::host, TrackKind::host},
                                           {"cpu_op", Category::host, TrackKind::host},
                                           {"user_annotation", Category::python, TrackKind::host},
                                           {"python_function", Category::python, TrackKind::host},
                                           {"overhead", Category::host, TrackKind::host}}};
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
  const size_t dot = text.find('.');
  const auto us = base::parse_int(text.substr(0, dot));
  if (!us || std::abs(*us) > kLatestNs / 1'000) {
    return std::nullopt;
  }
  std::string fraction(dot == std::string_view::npos ? "" : text.substr(dot + 1, 3));
  fraction.resize(3, '0');
  const auto ns = base::parse_int(fraction);
  return ns ? std::optional(*us * 1'000 + (text.starts_with('-') ? -*ns : *ns)) : std::nullopt;
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

// The events are at depth 3: object, array "traceEvents", object; their arguments at depth 4.
class Handler : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Handler(Activity& out) : out_(out), first_(out.slices.size()) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t n) override { return number(n, fmt::format("{}", n)); }
  bool number_unsigned(number_unsigned_t n) override {
    return number(static_cast<int64_t>(std::min<uint64_t>(n, INT64_MAX)), fmt::format("{}", n));
  }
  bool number_float(number_float_t real, const string_t& text) override {
    if (is_event()) {
      // An exponent: the writer of the file gave no decimals to lose.
      const bool plain = text.find_first_of("eE") == std::string::npos;
      set_time(plain ? ns_of(text) : ns_of(fmt::format("{:.3f}", std::clamp(real, -1e18, 1e18))));
    } else if (is_argument()) {
      keep(real);
    }
    return true;
  }
  bool string(string_t& text) override {
    if (in_devices_ && depth_ == 3 && key_ == "name" && out_.gpu.empty()) {
      out_.gpu = base::sanitize(text);
    } else if (is_event()) {
      if (key_ == "name") {
        event_.name = base::sanitize(text);
      } else if (key_ == "cat") {
        event_.kind = kind_of(text);
      } else if (key_ == "ph") {
        event_.complete = text == "X";
      }
    } else if (is_argument()) {
      Exchange& e = event_.exchange;
      if (key_ == "Process Group Name" || key_ == "Process Group Ranks") {
        e.group += text + ' ';
      } else if (key_ == "Collective name" || key_ == "dtype") {
        (key_ == "dtype" ? e.type : e.collective) = text;
      }
      keep(base::sanitize(text));
    }
    return true;
  }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    ++depth_;
    if (in_events_ && depth_ == 3) {
      event_ = {};
    }
    in_arguments_ = in_events_ && depth_ == 4 && key_ == "args";
    return true;
  }
  bool end_object() override {
    if (in_events_ && depth_ == 3) {
      add();
    }
    --depth_;
    in_arguments_ = false;
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    in_events_ = in_events_ || (depth_ == 2 && key_ == "traceEvents");
    in_devices_ = in_devices_ || (depth_ == 2 && key_ == "deviceProperties");
    found_ = found_ || in_events_;
    return true;
  }
  bool end_array() override {
    in_events_ = in_events_ && depth_ != 2;
    in_devices_ = in_devices_ && depth_ != 2;
    --depth_;
    return true;
  }
  bool key(string_t& name) override {
    key_ = name;
    out_.complete = out_.complete && kept_ <= kMostKeptBytes;
    return kept_ <= kMostKeptBytes;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    out_.complete = false;
    return false;
  }

  bool found() const { return found_; }
  // Times count from a moment that stands anywhere in the file.
  void finish() {
    for (size_t i = first_; i < out_.slices.size(); ++i) {
      out_.slices[i].begin_ns = std::clamp<int64_t>(out_.slices[i].begin_ns + base_ns_, 0, kLatestNs);
    }
    number_collectives();
  }

 private:
  struct Event {
    bool complete = false;
    const Kind* kind = nullptr;
    std::string name;
    std::optional<int64_t> begin_ns;
    std::optional<int64_t> duration_ns;
    int64_t pid = 0;
    int64_t tid = 0;
    uint32_t correlation = 0;
    Exchange exchange;
    std::vector<Argument> arguments;
  };
  struct KnownCall {
    std::string_view kind;
    std::string name;
    Exchange exchange;

    auto operator<=>(const KnownCall&) const = default;
  };

  bool is_event() const { return in_events_ && depth_ == 3; }
  bool is_argument() const { return in_arguments_ && depth_ == 4; }

  static const Kind* kind_of(std::string_view name) {
    const auto* found =
        std::find_if(kTorchKinds.begin(), kTorchKinds.end(), [&](const Kind& k) { return k.name == name; });
    return found == kTorchKinds.end() ? nullptr : found;
  }

  void set_time(std::optional<int64_t> ns) {
    if (key_ == "ts") {
      event_.begin_ns = ns;
    } else if (key_ == "dur") {
      event_.duration_ns = ns;
    }
  }

  bool number(int64_t n, const std::string& text) {
    if (depth_ == 1 && key_ == "baseTimeNanoseconds" && n >= 0 && n < kLatestNs / 2) {
      base_ns_ = n;
    } else if (is_event()) {
      set_time(ns_of(text));
      event_.pid = key_ == "pid" ? n : event_.pid;
      event_.tid = key_ == "tid" ? n : event_.tid;
    } else if (is_argument()) {
      if (key_ == "correlation" && n > 0 && n < UINT32_MAX) {
        event_.correlation = static_cast<uint32_t>(n);
      }
      Exchange& e = event_.exchange;
      const std::array<std::pair<std::string_view, int64_t*>, 5> numbers{{{"In msg nelems", &e.in},
                                                                          {"Out msg nelems", &e.out},
                                                                          {"Group size", &e.size},
                                                                          {"Seq", &e.number},
                                                                          {"bytes", &e.in}}};
      for (const auto& [name, to] : numbers) {
        *to = key_ == name ? n : *to;
      }
      keep(n);
    }
    return true;
  }

  template <typename T>
  void keep(T value) {
    if (std::find(kKept.begin(), kKept.end(), key_) != kKept.end()) {
      if constexpr (std::same_as<T, std::string>) {
        kept_ += value.size();
      }
      kept_ += sizeof(Argument);
      event_.arguments.push_back({key_, std::move(value)});
    }
  }

  uint32_t call_of(const Kind& kind, Category category) {
    KnownCall known{kind.name, event_.name, event_.exchange};
    known.exchange.number = 0;
    const auto [at, is_new] = calls_.emplace(std::move(known), static_cast<uint32_t>(out_.calls.size()));
    if (is_new) {
      kept_ += sizeof(Call) + 2 * event_.name.size() + kNodeBytes;
      Call call{.name = event_.name, .category = category, .arguments = {{"kind", std::string(kind.name)}}};
      call.key = key_of_category(category);
      if (category == Category::collective) {
        describe_collective(call);
      } else if (category == Category::memory) {
        call.work = static_cast<uint64_t>(std::max<int64_t>(event_.exchange.in, 0));
      } else if (category == Category::python) {
        call.stage = stage_of(call.name);
      }
      out_.calls.push_back(std::move(call));
    }
    return at->second;
  }

  void describe_collective(Call& call) {
    const Exchange& e = event_.exchange;
    (void)set_collective(call.key, e.collective.empty() ? call.name : e.collective);
    if (e.size > 1 && e.size < base::kHighestRank && !e.group.empty()) {
      const auto size = static_cast<int>(e.size);
      call.communicator = communicator(base::hash_text(e.group), size);
      call.bus_factor = model::bus_factor(model::collective_name(call.key), size);
      call.ends_together = ends_together(model::collective_name(call.key));
    }
    if (const int type = nccl_type(e.type); type >= 0) {
      // Beside an all-gather or a reduce-scatter the larger side is the whole.
      call.key.dtype[0] = static_cast<uint8_t>(type);
      call.key.k = std::max<int64_t>(std::min(e.in, e.out), 0);
      call.work = static_cast<uint64_t>(std::clamp<int64_t>(std::max(e.in, e.out), 0, kLatestNs / 8)) *
                  nccl_type_bytes(type);
    }
  }

  int communicator(uint64_t identity, int size) {
    const auto found =
        std::find_if(out_.communicators.begin(), out_.communicators.end(),
                     [&](const Communicator& c) { return c.identity == identity && c.size == size; });
    if (found != out_.communicators.end()) {
      return static_cast<int>(found - out_.communicators.begin());
    }
    out_.communicators.push_back({.identity = identity, .size = size});
    return static_cast<int>(out_.communicators.size() - 1);
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

  void add() {
    const Event& e = event_;
    if (!e.complete || e.kind == nullptr || !e.begin_ns || std::abs(*e.begin_ns) > kLatestNs / 2) {
      return;
    }
    const int64_t duration = e.duration_ns.value_or(0);
    if (duration < 0 || duration > kLongestNs) {
      out_.complete = false;
      return;
    }
    // NCCL's kernels have its name in front in every version.
    const bool nccl = e.kind->category == Category::kernel && e.name.starts_with("nccl");
    const Category category = nccl ? Category::collective : e.kind->category;
    const TrackKind kind = nccl ? TrackKind::communication : e.kind->track;
    Slice slice{.begin_ns = *e.begin_ns,
                .duration_ns = duration,
                .call = call_of(*e.kind, category),
                .track = out_.track(kind, static_cast<uint32_t>(e.tid)),
                .sequence = category == Category::collective && e.exchange.number > 0
                                ? static_cast<uint32_t>(e.exchange.number)
                                : 0,
                .launch = e.correlation};
    if (out_.calls[slice.call].stage == model::Stage::mark) {
      const auto number = base::parse_int(std::string_view(e.name).substr(kStep.size())).value_or(0);
      first_step_ = std::min(first_step_, static_cast<uint64_t>(std::max<int64_t>(number, 0)));
    }
    if (kind == TrackKind::host) {
      out_.pid = static_cast<base::Pid>(e.pid);
    }
    kept_ += sizeof(Slice);
    if (!e.arguments.empty()) {
      slice.extra = static_cast<uint32_t>(out_.extras.size());
      out_.extras.push_back(std::move(event_.arguments));
    }
    out_.slices.push_back(slice);
  }

  Activity& out_;
  size_t first_;
  int depth_ = 0;
  bool in_events_ = false;
  bool in_arguments_ = false;
  bool in_devices_ = false;
  bool found_ = false;
  std::string key_;
  Event event_;
  int64_t base_ns_ = 0;
  size_t kept_ = 0;                   // bytes of what was added, about
  uint64_t first_step_ = UINT64_MAX;  // number of the first step of the trace
  std::map<KnownCall, uint32_t> calls_;
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
  (void)nlohmann::json::sax_parse(json, &handler);
  handler.finish();
  return handler.found() ? base::Status() : base::fail("there is no list traceEvents");
}

base::Status add_torch_trace(Activity& out, const std::string& path) {
  XPURUN_TRY_ASSIGN(const auto text, TraceText::open(path));
  std::istream json(text.get());
  const auto parsed = parse_torch_trace(out, json);
  out.complete = out.complete && text->problem().empty();
  if (parsed) {
    return parsed;
  }
  return base::fail(
      fmt::format("{}: {}", path, text->problem().empty() ? parsed.error().what : text->problem()));
}

}  // namespace xpurun::report
