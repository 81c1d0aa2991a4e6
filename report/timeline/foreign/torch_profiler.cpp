#include "report/timeline/foreign/torch_profiler.h"

#include "common/base/strings.h"
#include "report/timeline/activity/event_activity.h"
#include "report/timeline/foreign/trace_text.h"

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
    if (is_event()) {
      if (key_ == "name") {
        event_.name = base::sanitize(text);
      } else if (key_ == "cat") {
        event_.kind = kind_of(text);
      } else if (key_ == "ph") {
        event_.complete = text == "X";
      }
    } else if (is_argument()) {
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
    found_ = found_ || in_events_;
    return true;
  }
  bool end_array() override {
    in_events_ = in_events_ && depth_ != 2;
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
    std::vector<Argument> arguments;
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
    const auto [at, is_new] =
        calls_.emplace(std::pair(kind.name, event_.name), static_cast<uint32_t>(out_.calls.size()));
    if (is_new) {
      kept_ += sizeof(Call) + 2 * event_.name.size() + kNodeBytes;
      out_.calls.push_back(
          {.name = event_.name, .category = category, .arguments = {{"kind", std::string(kind.name)}}});
    }
    return at->second;
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
                .launch = e.correlation};
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
  bool found_ = false;
  std::string key_;
  Event event_;
  int64_t base_ns_ = 0;
  size_t kept_ = 0;  // bytes of what was added, about
  std::map<std::pair<std::string_view, std::string>, uint32_t> calls_;
};

}  // namespace

base::Result<base::Rank> rank_of_torch_file(const std::string& path) {
  XPURUN_TRY_ASSIGN(const auto text, TraceText::open(path));
  std::string head(kHead, '\0');
  head.resize(static_cast<size_t>(text->sgetn(head.data(), static_cast<std::streamsize>(kHead))));
  size_t at = head.find(kRank);
  if (at == std::string::npos) {
    return base::kNoRank;
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
  return rank && *rank < 10'000'000 ? static_cast<base::Rank>(*rank) : base::kNoRank;
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
