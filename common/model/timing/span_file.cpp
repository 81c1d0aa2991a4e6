#include "common/model/timing/span_file.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/timing/span_records.h"

#include <fmt/format.h>

#include <map>
#include <set>

namespace xpurun::model {

namespace {

using records::Fields;
using records::kSpanTimeLimit;

constexpr std::string_view kObjects = " objects";

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

class SpanFileParser {
 public:
  explicit SpanFileParser(SpanFile& out) : out_(out) {}

  // False if the record is damaged.
  bool record(uint8_t tag, Fields in) {
    if (tag < records::kNotASpan) {
      return span(tag, in);
    }
    switch (tag) {
      case records::kName:
        out_.names.emplace_back(in.text());
        return in.ok();
      case records::kLoad:
        return load(in);
      case records::kLostCpu:
        return lost_cpu(in);
      case records::kMemory:
        return memory(in);
      case records::kGpuMemory:
        return gpu_memory(in);
      case records::kShortCalls:
        return short_calls(in);
      case records::kInferredName:
        inferred_.insert(static_cast<uint32_t>(in.below(out_.names.size())));
        return in.ok();
      case records::kBackend:
        return backend(in);
      case records::kLostSpans:
        out_.lost += in.varint();
        return in.ok();
      default:
        return true;  // of a later version
    }
  }

 private:
  bool backend(Fields in) {
    const uint64_t name = in.below(out_.names.size());
    if (!in.ok()) {
      return false;
    }
    out_.backend = out_.names[name];
    return true;
  }

  bool span(uint8_t tag, Fields in) {
    Span s;
    const auto index = [&] { return static_cast<uint32_t>(in.below(out_.names.size())); };
    const uint64_t end = end_ + static_cast<uint64_t>(in.signed_varint());
    const uint64_t duration = in.varint();
    const auto stage = static_cast<size_t>(tag & records::kStageMask);
    s.stage = stage < kNames<Stage>.size() ? static_cast<Stage>(stage) : Stage::other;
    s.name = index();
    s.place = index();
    s.inferred = inferred_.contains(s.name);
    s.thread = (tag & records::kSameThread) != 0 ? thread_ : static_cast<uint32_t>(in.varint());
    if ((tag & records::kHasCpu) != 0) {
      s.cpu_ns = static_cast<int64_t>(in.below(kSpanTimeLimit));
    }
    if ((tag & records::kHasGroup) != 0) {
      s.group = index();
      s.sequence = sequences_[s.group] + static_cast<uint64_t>(in.signed_varint());
      s.bytes = in.varint();
    }
    if (!in.ok() || end >= kSpanTimeLimit || duration > end) {
      return false;
    }
    s.begin_ns = static_cast<base::MonoNs>(end - duration);
    s.duration_ns = static_cast<int64_t>(duration);
    end_ = end;
    thread_ = s.thread;
    if ((tag & records::kHasGroup) != 0) {
      sequences_[s.group] = s.sequence;
    }
    out_.spans.push_back(s);
    return true;
  }

  bool short_calls(Fields in) {
    ShortCalls c;
    const uint64_t begin = end_ + static_cast<uint64_t>(in.signed_varint());
    const uint64_t duration = in.varint();
    c.total_ns = static_cast<int64_t>(in.below(kSpanTimeLimit));
    c.calls = in.varint();
    c.name = static_cast<uint32_t>(in.below(out_.names.size()));
    c.thread = static_cast<uint32_t>(in.varint());
    c.place = static_cast<uint32_t>(in.below(out_.names.size()));
    c.bytes = in.varint();
    if (!in.ok() || begin >= kSpanTimeLimit || duration >= kSpanTimeLimit - begin) {
      return false;
    }
    c.begin_ns = static_cast<base::MonoNs>(begin);
    c.duration_ns = static_cast<int64_t>(duration);
    out_.short_calls.push_back(c);
    return true;
  }

  bool load(Fields in) {
    LoadSample next = load_;
    const bool at = add(in, next.at_ns);
    const bool cpu = add(in, next.cpu_ns);
    const bool delay = add(in, next.run_delay_ns) || next.run_delay_ns == -1;
    const bool faults = add(in, next.major_faults);
    if (!in.ok() || !at || !cpu || !delay || !faults) {
      return false;
    }
    load_ = next;
    out_.loads.push_back(next);
    LoadSample& read = out_.loads.back();
    read.throttled_ns = read.stolen_ns = -1;
    read.resident_bytes = read.private_bytes = read.helpers_bytes = -1;
    read.gpu = {};
    return true;
  }

  bool lost_cpu(Fields in) {
    LoadSample next = load_;
    const bool throttled = add(in, next.throttled_ns) || next.throttled_ns == -1;
    const bool stolen = add(in, next.stolen_ns) || next.stolen_ns == -1;
    if (!in.ok() || !throttled || !stolen || out_.loads.empty()) {
      return false;
    }
    load_ = next;
    out_.loads.back().throttled_ns = next.throttled_ns;
    out_.loads.back().stolen_ns = next.stolen_ns;
    return true;
  }

  bool memory(Fields in) {
    LoadSample next = load_;
    const auto add_known = [&](int64_t& to) { return add(in, to) || to == -1; };
    const bool resident = add_known(next.resident_bytes);
    const bool own = add_known(next.private_bytes);
    const bool helpers = add_known(next.helpers_bytes);
    if (!in.ok() || !resident || !own || !helpers || out_.loads.empty()) {
      return false;
    }
    load_ = next;
    LoadSample& read = out_.loads.back();
    read.resident_bytes = next.resident_bytes;
    read.private_bytes = next.private_bytes;
    read.helpers_bytes = next.helpers_bytes;
    return true;
  }

  bool gpu_memory(Fields in) {
    LoadSample next = load_;
    for (int64_t* to :
         {&next.gpu.allocated_bytes, &next.gpu.reserved_bytes, &next.gpu.peak_bytes, &next.gpu.total_bytes}) {
      if (!add(in, *to) && *to != -1) {
        return false;
      }
    }
    if (!in.ok() || out_.loads.empty()) {
      return false;
    }
    load_ = next;
    out_.loads.back().gpu = next.gpu;
    return true;
  }

  // False if the sum is no time.
  static bool add(Fields& in, int64_t& to) {
    const uint64_t sum = static_cast<uint64_t>(to) + static_cast<uint64_t>(in.signed_varint());
    to = static_cast<int64_t>(sum);
    return sum < kSpanTimeLimit;
  }

  SpanFile& out_;
  uint64_t end_ = 0;
  uint32_t thread_ = 0;
  std::set<uint32_t> inferred_;             // names
  std::map<uint32_t, uint64_t> sequences_;  // of the latest call, by group
  LoadSample load_{.throttled_ns = 0,
                   .stolen_ns = 0,
                   .resident_bytes = 0,
                   .private_bytes = 0,
                   .helpers_bytes = 0,
                   .gpu = {.allocated_bytes = 0, .reserved_bytes = 0, .peak_bytes = 0, .total_bytes = 0}};
};

}  // namespace

base::Result<SpanFile> parse_span_file(std::string_view bytes) {
  SpanFile out;
  XPURUN_TRY_ASSIGN(out.header, records::take_header(bytes, kSpansSchema));
  SpanFileParser parser(out);
  out.complete =
      records::each_record(bytes, [&](uint8_t tag, Fields body) { return parser.record(tag, body); });
  return out;
}

base::Result<SpanFile> load_span_file(const std::string& path) {
  XPURUN_TRY_ASSIGN(const std::string bytes, base::read_regular_file(path, records::kLargestFile));
  auto parsed = parse_span_file(bytes);
  if (!parsed) {
    return base::fail(base::Error(parsed.error()).context(path));
  }
  return parsed;
}

CodeLocation location_of(std::string_view place) {
  CodeLocation out;
  const size_t name = place.find(" (");
  const std::string_view at = place.substr(0, name);
  const size_t colon = at.rfind(':');
  if (colon == std::string_view::npos) {
    return out;
  }
  out.file = std::string(at.substr(0, colon));
  out.line = static_cast<int>(base::parse_int(at.substr(colon + 1)).value_or(0));
  if (name != std::string_view::npos && place.ends_with(')')) {
    out.function = std::string(place.substr(name + 2, place.size() - name - 3));
  }
  return out;
}

std::string pair_group(std::string_view group, uint64_t from, uint64_t to, bool objects) {
  return fmt::format("{} {}>{}{}", group, from, to, objects ? kObjects : "");
}

std::string_view whole_group(std::string_view group) {
  std::string_view pair = group;
  if (pair.ends_with(kObjects)) {
    pair.remove_suffix(kObjects.size());
  }
  const size_t arrow = pair.rfind('>');
  const size_t blank = pair.rfind(' ');
  const bool is_pair = arrow != std::string_view::npos && blank != std::string_view::npos && blank < arrow &&
                       is_number(pair.substr(arrow + 1)) &&
                       is_number(pair.substr(blank + 1, arrow - blank - 1));
  return is_pair ? group.substr(0, blank) : group;
}

}  // namespace xpurun::model
