#include "report/events/foreign/perfetto/trace.h"

#include "common/base/strings.h"
#include "report/events/foreign/checked_pbf.h"
#include "report/events/foreign/left_out.h"
#include "report/events/foreign/perfetto/call.h"
#include "report/events/foreign/perfetto/event.h"
#include "report/events/foreign/perfetto/fields.h"
#include "report/events/foreign/perfetto/tracks.h"
#include "report/events/foreign/trace_text.h"
#include "report/events/op_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace xpurun::report {

namespace {

using namespace perfetto;
using pbf_reader = CheckedPbf;

// Memory for the slices of one process.
constexpr size_t kMostSlices = 40'000'000;
// Numbers of rows with names, apart from those of streams and threads.
constexpr uint32_t kNamedRows = 1 << 22;
// Which xpurun makes from the ranks.
constexpr std::string_view kPipeline = "pipeline";

// "communication, stream 7 (2)" is a row of stream 7.
std::string_view without_lane(std::string_view name) {
  const size_t open = name.rfind(" (");
  return open != std::string_view::npos && name.ends_with(')') &&
                 base::parse_int(name.substr(open + 2, name.size() - open - 3))
             ? name.substr(0, open)
             : name;
}

TrackKind kind_of(const Call& call) {
  switch (call.category) {
    case Category::collective:
      return call.captured ? TrackKind::compute : TrackKind::communication;
    case Category::memory:
      return call.captured ? TrackKind::compute : TrackKind::memory;
    case Category::host:
      return TrackKind::host;
    case Category::python:
      return TrackKind::python;
    default:
      return TrackKind::compute;
  }
}

class TraceReader {
 public:
  explicit TraceReader(Activity& out) : out_(out) {}

  base::Status read(std::streambuf& text) {
    PerfettoPackets packets(text);
    std::string_view bytes;
    size_t damaged = 0;
    while (out_.slices.size() < kMostSlices && packets.next(bytes)) {
      try {
        use(packet_of(bytes));
      } catch (const protozero::exception&) {
        ++damaged;
      }
    }
    for (const auto& [row, open] : open_) {
      for (const size_t index : open) {
        left_out_.add(out_.calls[out_.slices[index].call].name);
        out_.slices[index].duration_ns = -1;
      }
    }
    std::erase_if(out_.slices, [](const Slice& s) { return s.duration_ns < 0; });
    left_out_.note(out_, !packets.damaged() && damaged == 0);
    return found_ ? base::Status() : base::fail("there is no such process in the trace");
  }

 private:
  void use(const PerfettoPacket& packet) {
    if (packet.clocks) {
      set_clocks(*packet.clocks);
    }
    PerfettoSequence& sequence = sequences_[packet.sequence];
    if ((packet.flags & packet::kStateCleared) != 0) {
      sequence = {};
    }
    if (packet.defaults) {
      sequence.set_defaults(*packet.defaults);
    }
    if (packet.interned) {
      sequence.intern(*packet.interned);
    }
    if (packet.descriptor) {
      tracks_.add(*packet.descriptor);
      ours_.clear();
    }
    if (packet.event) {
      const uint32_t clock = packet.clock != 0 ? packet.clock : sequence.clock;
      add(event_of(*packet.event, sequence), packet.at_ns, clock);
    }
  }

  // How far the clock of the events is behind the wall clock.
  void set_clocks(pbf_reader r) {
    std::map<uint32_t, uint64_t> now;
    while (r.next()) {
      if (r.tag() != clock::kClocks) {
        r.skip();
        continue;
      }
      uint32_t id = 0;
      uint64_t at = 0;
      for (pbf_reader c = r.get_message(); c.next();) {
        if (c.tag() == clock::kId) {
          id = c.get_uint32();
        } else if (c.tag() == clock::kTimestamp) {
          at = c.get_uint64();
        } else {
          c.skip();
        }
      }
      now[id] = at;
    }
    const auto real = now.find(clock::kRealtime);
    for (const auto& [id, at] : now) {
      if (real != now.end()) {
        behind_[id] = static_cast<int64_t>(real->second - at);
      }
    }
  }

  std::optional<int64_t> wall_ns(uint64_t at_ns, uint32_t clock) const {
    if (clock >= clock::kFirstOfFile) {
      return std::nullopt;  // relative to the packet before
    }
    const auto behind = behind_.find(clock == 0 ? clock::kBoottime : clock);
    const auto at =
        static_cast<int64_t>(at_ns + static_cast<uint64_t>(behind == behind_.end() ? 0 : behind->second));
    return at >= 0 && at <= kLatestNs ? std::optional(at) : std::nullopt;
  }

  // Whether the row belongs to the process that is wanted.
  bool is_ours(uint64_t row) {
    const auto [at, is_new] = ours_.emplace(row, false);
    if (is_new) {
      const uint64_t process = tracks_.process_of(row);
      const RecordOwner owner = tracks_.owner_of(process);
      at->second = process != 0 && owner.rank == out_.rank &&
                   (out_.rank != base::kNoRank || out_.pid == 0 || owner.pid == out_.pid);
      if (at->second && !std::exchange(found_, true)) {
        out_.host = owner.host;
        out_.gpu = tracks_.gpu_of(process);
        const PerfettoTrack* track = tracks_.find(process);
        const std::string_view label = track->label;
        const auto pid = label.starts_with("pid ") ? base::parse_int(label.substr(4)) : std::nullopt;
        out_.pid = static_cast<base::Pid>(pid.value_or(out_.rank == base::kNoRank ? owner.pid : 0));
      }
    }
    return at->second;
  }

  void add(PerfettoEvent&& event, uint64_t at_ns, uint32_t clock) {
    if (!is_ours(event.track)) {
      return;
    }
    const auto at = wall_ns(at_ns, clock);
    if (!at) {
      left_out_.add(event.name);
      return;
    }
    switch (event.type) {
      case event::kSliceBegin:
        begin(std::move(event), *at);
        break;
      case event::kSliceEnd:
        end(event, *at);
        break;
      case event::kInstant:
        instant(std::move(event), *at);
        break;
      case event::kCounter:
        if (const PerfettoTrack* track = tracks_.find(event.track); track != nullptr) {
          out_.counter(track->name, track->unit).samples.push_back({*at, event.value});
        }
        break;
      default:
        break;
    }
  }

  void instant(PerfettoEvent&& event, int64_t at) {
    const auto track = event.track;
    begin(std::move(event), at);
    if (!open_[track].empty()) {
      open_[track].pop_back();
    }
  }

  void begin(PerfettoEvent&& event, int64_t at) {
    Slice slice{.begin_ns = at, .sequence = event.sequence, .delay_us = event.delay_us};
    for (const uint64_t flow : event.flows) {
      if (flow == event.correlation) {
        slice.meeting = flow;
      } else {
        slice.launch = static_cast<uint32_t>(flow);
      }
    }
    slice.call = call_of(event);
    slice.track = row_of(event.track, out_.calls[slice.call]);
    if (!event.own.empty()) {
      slice.extra = static_cast<uint32_t>(out_.extras.size());
      out_.extras.push_back(std::move(event.own));
    }
    open_[event.track].push_back(out_.slices.size());
    out_.slices.push_back(slice);
  }

  void end(const PerfettoEvent& event, int64_t at) {
    std::vector<size_t>& open = open_[event.track];
    if (open.empty()) {
      left_out_.add("an end without a begin");
      return;
    }
    Slice& slice = out_.slices[open.back()];
    open.pop_back();
    slice.duration_ns = at - slice.begin_ns;
    if (slice.duration_ns < 0 || slice.duration_ns > kLongestNs) {
      left_out_.add(out_.calls[slice.call].name);
      slice.duration_ns = -1;
    }
  }

  uint32_t call_of(const PerfettoEvent& event) {
    std::string key = event.name + '\0' + event.category;
    for (const Argument& a : event.arguments) {
      key += '\0' + a.name + '\0';
      std::visit([&key](const auto& value) { key += fmt::format("{}", value); }, a.value);
    }
    const auto [at, is_new] = calls_.emplace(std::move(key), static_cast<uint32_t>(out_.calls.size()));
    if (is_new) {
      out_.calls.push_back(
          call_of_perfetto(out_, event.name, category_of_perfetto(event.category), event.arguments));
    }
    return at->second;
  }

  uint32_t row_of(uint64_t uuid, const Call& call) {
    const auto [at, is_new] = rows_.emplace(uuid, 0);
    if (!is_new) {
      return at->second;
    }
    const PerfettoTrack* track = tracks_.find(uuid);
    const std::string_view name = without_lane(track == nullptr ? "" : std::string_view(track->name));
    constexpr std::array<std::pair<std::string_view, TrackKind>, 5> kNumbered{
        {{"Python thread ", TrackKind::python},
         {"host thread ", TrackKind::host},
         {"stream ", TrackKind::compute},
         {"communication, stream ", TrackKind::communication},
         {"memory, stream ", TrackKind::memory}}};
    for (const auto& [words, kind] : kNumbered) {
      const auto number = name.starts_with(words) ? base::parse_int(name.substr(words.size())) : std::nullopt;
      if (number && *number >= 0 && *number <= UINT32_MAX) {
        return at->second = out_.track(kind, static_cast<uint32_t>(*number));
      }
    }
    const bool is_thread = track != nullptr && track->tid > 0;
    const auto [named, is_new_name] = names_.emplace(std::string(name), kNamedRows + names_.size());
    const auto number = is_thread ? static_cast<uint32_t>(track->tid) : static_cast<uint32_t>(named->second);
    return at->second = out_.track(kind_of(call), number, name);
  }

  Activity& out_;
  PerfettoTracks tracks_;
  std::unordered_map<uint32_t, PerfettoSequence> sequences_;
  std::unordered_map<uint32_t, int64_t> behind_;
  std::unordered_map<uint64_t, bool> ours_;
  std::unordered_map<uint64_t, std::vector<size_t>> open_;  // by row: slices without an end so far
  std::unordered_map<uint64_t, uint32_t> rows_;
  std::map<std::string, size_t> names_;
  std::unordered_map<std::string, uint32_t> calls_;
  bool found_ = false;
  LeftOut left_out_;
};

}  // namespace

std::vector<RecordOwner> owners_in_perfetto_trace(std::streambuf& text) {
  PerfettoPackets packets(text);
  PerfettoTracks tracks;
  std::string_view bytes;
  while (packets.next(bytes)) {
    try {
      if (const PerfettoPacket packet = packet_of(bytes); packet.descriptor) {
        tracks.add(*packet.descriptor);
      }
    } catch (const protozero::exception&) {
      continue;  // the reader of the process says it
    }
  }
  std::vector<RecordOwner> out;
  for (const uint64_t process : tracks.processes()) {
    const PerfettoTrack* track = tracks.find(process);
    const RecordOwner owner = tracks.owner_of(process);
    const bool is_known = std::any_of(out.begin(), out.end(), [&owner](const RecordOwner& known) {
      return known.rank == owner.rank && (owner.rank != base::kNoRank || known.pid == owner.pid);
    });
    if (!is_known && track->name.substr(0, track->name.find(',')) != kPipeline) {
      out.push_back(owner);
    }
  }
  return out;
}

base::Status parse_perfetto_trace(Activity& out, std::streambuf& text) {
  return TraceReader(out).read(text);
}

base::Result<std::vector<RecordOwner>> owners_of_perfetto_trace(const std::string& path) {
  XPURUN_TRY_ASSIGN(const auto text, TraceText::open(path));
  std::vector<RecordOwner> out = owners_in_perfetto_trace(*text);
  if (out.empty()) {
    return base::fail(fmt::format("{} has no process with track events of Perfetto", path));
  }
  return out;
}

base::Status add_perfetto_trace(Activity& out, const std::string& path) {
  XPURUN_TRY_ASSIGN(const auto text, TraceText::open(path));
  const auto parsed = parse_perfetto_trace(out, *text);
  out.complete = out.complete && text->problem().empty();
  return parsed ? parsed : base::fail(base::Error(parsed.error()).context(path));
}

}  // namespace xpurun::report
