#include "report/timeline/perfetto_writer.h"

#include "common/base/strings.h"
#include "report/timeline/lanes.h"
#include "report/timeline/perfetto_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <protozero/pbf_writer.hpp>
#include <protozero/varint.hpp>
#include <unordered_map>

namespace xpurun::report {

// Numbers for texts, from 1; 0 is not valid in a trace. Named, because fields of Process have this type.
class PerfettoInterner {
 public:
  uint64_t iid(const std::string& text) {
    const auto [at, is_new] = known_.emplace(text, known_.size() + 1);
    if (is_new) {
      order_.push_back(&at->first);
    }
    return at->second;
  }
  void put(protozero::pbf_writer& data, int tag) const {
    for (size_t i = 0; i < order_.size(); ++i) {
      protozero::pbf_writer entry(data, static_cast<protozero::pbf_tag_type>(tag));
      entry.add_uint64(1, i + 1);
      entry.add_string(2, *order_[i]);
    }
  }

 private:
  std::unordered_map<std::string, uint64_t> known_;
  std::vector<const std::string*> order_;
};

namespace {

using namespace perfetto;
using protozero::pbf_writer;

constexpr int kRealtime = 1;
constexpr int kBoottime = 6;                 // the clock of packets without one
constexpr int32_t kCountersFirst = 900'000;  // in the order of tracks
constexpr uint64_t kTracksPerProcess = uint64_t{1} << 14;

// For what every event has: protozero's writer adds varints byte by byte, which took half of all time.
void put_varint(std::string& out, uint64_t n) {
  std::array<char, protozero::max_varint_length> bytes;
  out.append(bytes.data(), static_cast<size_t>(protozero::write_varint(bytes.data(), n)));
}

std::string tag(int field, protozero::pbf_wire_type type) {
  std::string out;
  put_varint(out, protozero::tag_and_type(static_cast<protozero::pbf_tag_type>(field), type));
  return out;
}

constexpr auto kVarint = protozero::pbf_wire_type::varint;
constexpr auto kBytes = protozero::pbf_wire_type::length_delimited;
constexpr auto kFixed64 = protozero::pbf_wire_type::fixed64;

// Begin of an annotation up to its value.
std::string annotation_head(uint64_t name_iid, int field, protozero::pbf_wire_type type) {
  std::string out = tag(annotation::kNameIid, kVarint);
  put_varint(out, name_iid);
  return out + tag(field, type);
}

std::string track_title(const Track& track) {
  if (!track.name.empty()) {
    return base::sanitize(track.name);
  }
  switch (track.kind) {
    case TrackKind::python:
      return fmt::format("Python thread {}", track.number);
    case TrackKind::host:
      return fmt::format("host thread {}", track.number);
    case TrackKind::compute:
      return fmt::format("stream {}", track.number);
    case TrackKind::communication:
      return fmt::format("communication, stream {}", track.number);
    case TrackKind::memory:
      break;
  }
  return fmt::format("memory, stream {}", track.number);
}

}  // namespace

// One rank: a packet sequence of its own with its own interned texts.
class PerfettoWriter::Process {
 public:
  Process(PerfettoWriter& writer, const Activity& activity, int64_t shift_ns)
      : writer_(writer),
        activity_(activity),
        shift_ns_(shift_ns),
        sequence_(writer.processes_ + 2),
        uuid_((writer.processes_ + 1) * kTracksPerProcess) {
    for (const Track& track : activity.tracks) {
      lanes_.emplace_back(lanes_of(track.kind));
    }
    uuids_.resize(activity.tracks.size());
    const auto head = [&](const char* name, int field, protozero::pbf_wire_type type) {
      return annotation_head(names_of_arguments_.iid(name), field, type);
    };
    delay_ = head("delay_us", annotation::kInt, kVarint);
    cpu_ = head("cpu_us", annotation::kInt, kVarint);
    number_ = head("sequence", annotation::kInt, kVarint);
    tflops_ = head("TFLOP/s", annotation::kDouble, kFixed64);
    bus_ = head("bus_bandwidth_GB/s", annotation::kDouble, kFixed64);
    {
      pbf_writer w(constant_);
      w.add_uint32(packet::kSequenceId, sequence_);
      w.add_uint32(packet::kSequenceFlags, packet::kNeedsState);
    }
    for (const Call& call : activity.calls) {
      encode(call);
    }
  }

  void put(const std::string& title) {
    put_interned();
    put_process(title);
    for (const Slice& slice : activity_.slices) {
      put_slice(slice);
    }
    for (size_t track = 0; track < lanes_.size(); ++track) {
      for (uint32_t lane = 0; lane < lanes_[track].size(); ++lane) {
        for (const int64_t end : lanes_[track].take_open(lane)) {
          put_end(end, uuids_[track][lane]);
        }
      }
    }
    for (size_t i = 0; i < activity_.counters.size(); ++i) {
      put_counter(activity_.counters[i], static_cast<int32_t>(i));
    }
  }

 private:
  void put_packet(const std::string& packet) {
    trace_.clear();
    pbf_writer(trace_).add_message(trace::kPacket, packet);
    writer_.out_.write(trace_);
  }

  // The part of an event that is the same in every slice of the call.
  void encode(const Call& call) {
    std::string out;
    pbf_writer w(out);
    w.add_uint64(event::kNameIid, names_.iid(call.name));
    w.add_uint64(event::kCategoryIids, categories_.iid(std::string(model::name_of(call.category))));
    for (const Argument& argument : call.arguments) {
      pbf_writer a(w, event::kAnnotations);
      a.add_uint64(annotation::kNameIid, names_of_arguments_.iid(argument.name));
      if (const auto* text = std::get_if<std::string>(&argument.value)) {
        a.add_uint64(annotation::kStringIid, strings_.iid(*text));
      } else {
        put_number(a, argument);
      }
    }
    calls_.push_back(std::move(out));
  }

  static void put_number(pbf_writer& w, const Argument& argument) {
    if (const auto* number = std::get_if<int64_t>(&argument.value)) {
      w.add_int64(annotation::kInt, *number);
    } else if (const auto* real = std::get_if<double>(&argument.value)) {
      w.add_double(annotation::kDouble, *real);
    }
  }

  void put_interned() {
    std::string body;
    {
      pbf_writer data(body);
      categories_.put(data, interned::kCategories);
      names_.put(data, interned::kNames);
      names_of_arguments_.put(data, interned::kAnnotationNames);
      strings_.put(data, interned::kAnnotationStrings);
    }
    std::string packet;
    {
      pbf_writer w(packet);
      w.add_uint32(packet::kSequenceId, sequence_);
      w.add_uint32(packet::kSequenceFlags, packet::kStateCleared);
      w.add_bool(packet::kFirstOnSequence, true);
      w.add_message(packet::kInternedData, body);
    }
    put_packet(packet);
  }

  void put_process(const std::string& title) {
    std::string packet;
    {
      pbf_writer w(packet);
      w.add_uint32(packet::kSequenceId, sequence_);
      pbf_writer d(w, packet::kTrackDescriptor);
      d.add_uint64(descriptor::kUuid, uuid_);
      d.add_enum(descriptor::kChildOrdering, descriptor::kExplicit);
      pbf_writer p(d, descriptor::kProcess);
      // Processes of several hosts may have the same id, so these numbers only count up.
      p.add_int32(descriptor::kPid, static_cast<int32_t>(writer_.processes_ + 1));
      p.add_int32(descriptor::kSortIndex, static_cast<int32_t>(writer_.processes_));
      p.add_string(descriptor::kProcessName, title);
      if (activity_.pid > 0) {
        p.add_string(descriptor::kProcessLabels, fmt::format("pid {}", activity_.pid));
      }
    }
    put_packet(packet);
  }

  uint64_t uuid_of(uint32_t track, uint32_t lane) {
    std::vector<uint64_t>& known = uuids_[track];
    while (known.size() <= lane) {
      put_track(track, static_cast<uint32_t>(known.size()));
      known.push_back(uuid_ + ++tracks_);
      ++writer_.counts_.tracks;
    }
    return known[lane];
  }

  void put_track(uint32_t track, uint32_t lane) {
    const Track& t = activity_.tracks[track];
    const std::string title = track_title(t) + (lane == 0 ? "" : fmt::format(" ({})", lane + 1));
    std::string packet;
    {
      pbf_writer w(packet);
      w.add_uint32(packet::kSequenceId, sequence_);
      pbf_writer d(w, packet::kTrackDescriptor);
      d.add_uint64(descriptor::kUuid, uuid_ + tracks_ + 1);
      d.add_uint64(descriptor::kParent, uuid_);
      d.add_string(descriptor::kName, title);
      const auto order = static_cast<int32_t>(t.kind) * 100'000 + static_cast<int32_t>(track % 1'000) * 100 +
                         static_cast<int32_t>(lane % 100);
      d.add_int32(descriptor::kSiblingRank, order);
    }
    put_packet(packet);
  }

  void put_counter(const Counter& counter, int32_t order) {
    if (counter.samples.empty()) {
      return;
    }
    const uint64_t uuid = uuid_ + ++tracks_;
    ++writer_.counts_.tracks;
    std::string packet;
    {
      pbf_writer w(packet);
      w.add_uint32(packet::kSequenceId, sequence_);
      pbf_writer d(w, packet::kTrackDescriptor);
      d.add_uint64(descriptor::kUuid, uuid);
      d.add_uint64(descriptor::kParent, uuid_);
      d.add_string(descriptor::kName, counter.name);
      d.add_int32(descriptor::kSiblingRank, kCountersFirst + order);
      pbf_writer c(d, descriptor::kCounter);
      c.add_string(descriptor::kUnitName, counter.unit);
    }
    put_packet(packet);
    for (const Counter::Sample& sample : counter.samples) {
      begin_event(event::kCounter, uuid);
      pbf_writer(event_).add_double(event::kDoubleValue, sample.value);
      put_event(at(sample.wall_ns));
      ++writer_.counts_.samples;
    }
  }

  uint64_t at(int64_t ns) const { return static_cast<uint64_t>(std::max<int64_t>(0, ns + shift_ns_)); }

  void put_event(uint64_t at_ns) {
    packet_ = timestampTag_;
    put_varint(packet_, at_ns);
    packet_ += constant_;
    packet_ += eventTag_;
    put_varint(packet_, event_.size());
    packet_ += event_;
    trace_ = packetTag_;
    put_varint(trace_, packet_.size());
    writer_.out_.write(trace_);
    writer_.out_.write(packet_);
  }

  void begin_event(int type, uint64_t uuid) {
    event_ = typeTag_;
    put_varint(event_, static_cast<uint64_t>(type));
    event_ += trackTag_;
    put_varint(event_, uuid);
  }

  void put_end(int64_t at_ns, uint64_t uuid) {
    begin_event(event::kSliceEnd, uuid);
    put_event(at(at_ns));
  }

  void put_annotation(const std::string& head, std::string_view value) {
    event_ += annotationTag_;
    put_varint(event_, head.size() + value.size());
    event_ += head;
    event_ += value;
  }
  void put_count(const std::string& head, uint64_t number) {
    value_.clear();
    put_varint(value_, number);
    put_annotation(head, value_);
  }
  void put_rate(const std::string& head, double rate) {
    const auto bytes = std::bit_cast<std::array<char, sizeof rate>>(rate);
    static_assert(std::endian::native == std::endian::little);
    put_annotation(head, {bytes.data(), bytes.size()});
  }

  void put_arguments(const Call& call, const Slice& slice) {
    if (slice.sequence != 0) {
      put_count(number_, slice.sequence);
    }
    if (slice.delay_us != 0) {
      put_count(call.category == Category::python ? cpu_ : delay_, slice.delay_us);
    }
    if (const double rate = tflops_of(call, slice); rate > 0) {
      put_rate(tflops_, rate);
    }
    if (const double rate = bus_gb_per_s(call, slice); rate > 0) {
      put_rate(bus_, rate);
    }
    if (slice.extra == 0) {
      return;
    }
    pbf_writer w(event_);
    for (const Argument& argument : activity_.extras[slice.extra]) {
      pbf_writer a(w, event::kAnnotations);
      a.add_string(annotation::kName, argument.name);
      if (const auto* text = std::get_if<std::string>(&argument.value)) {
        a.add_string(annotation::kString, *text);
      } else {
        put_number(a, argument);
      }
    }
  }

  void put_flows(const Slice& slice) {
    pbf_writer w(event_);
    if (slice.meeting != 0) {
      w.add_fixed64(event::kFlows, slice.meeting);
    }
    if (slice.launch != 0) {
      w.add_fixed64(event::kFlows, uint64_t{sequence_} << 32 | slice.launch);
    }
    if (slice.meeting != 0) {
      w.add_uint64(event::kCorrelation, slice.meeting);
    }
    writer_.counts_.flows += slice.meeting != 0 || slice.launch != 0 ? 1 : 0;
  }

  void put_slice(const Slice& slice) {
    ++writer_.counts_.slices;
    const Call& call = activity_.calls[slice.call];
    // A mark: the end of a step, as the program said.
    const bool is_instant = call.category == Category::python && slice.duration_ns == 0;
    uint64_t uuid = 0;
    if (is_instant) {
      uuid = uuid_of(slice.track, 0);
    } else {
      const Lanes::Place place = lanes_[slice.track].put(slice.begin_ns, slice.end_ns());
      uuid = uuid_of(slice.track, place.lane);
      for (const int64_t end : place.ended) {
        put_end(end, uuid);
      }
      writer_.counts_.trimmed += place.trimmed ? 1 : 0;
    }
    begin_event(is_instant ? event::kInstant : event::kSliceBegin, uuid);
    event_ += calls_[slice.call];
    put_arguments(call, slice);
    put_flows(slice);
    put_event(at(slice.begin_ns));
  }

  PerfettoWriter& writer_;
  const Activity& activity_;
  int64_t shift_ns_;
  uint32_t sequence_;
  uint64_t uuid_;
  uint64_t tracks_ = 0;
  PerfettoInterner categories_;
  PerfettoInterner names_;
  PerfettoInterner names_of_arguments_;
  PerfettoInterner strings_;
  const std::string packetTag_ = tag(trace::kPacket, kBytes);
  const std::string timestampTag_ = tag(packet::kTimestamp, kVarint);
  const std::string eventTag_ = tag(packet::kTrackEvent, kBytes);
  const std::string typeTag_ = tag(event::kType, kVarint);
  const std::string trackTag_ = tag(event::kTrack, kVarint);
  const std::string annotationTag_ = tag(event::kAnnotations, kBytes);
  // Annotations up to their values.
  std::string delay_;
  std::string cpu_;
  std::string number_;
  std::string tflops_;
  std::string bus_;
  std::string constant_;  // of every event's packet
  std::vector<std::string> calls_;
  std::vector<Lanes> lanes_;                  // by track
  std::vector<std::vector<uint64_t>> uuids_;  // by track and lane
  // Reused for every packet.
  std::string value_;
  std::string event_;
  std::string packet_;
  std::string trace_;
};

PerfettoWriter::PerfettoWriter(OutputFile& out, int64_t begin_ns) : out_(out) {
  std::string bytes;
  {
    pbf_writer file(bytes);
    pbf_writer w(file, trace::kPacket);
    w.add_uint32(packet::kSequenceId, 1);
    pbf_writer snapshot(w, packet::kClockSnapshot);
    for (const int clock : {kBoottime, kRealtime}) {
      pbf_writer c(snapshot, 1);
      c.add_uint32(1, static_cast<uint32_t>(clock));
      c.add_uint64(2, static_cast<uint64_t>(std::max<int64_t>(0, begin_ns)));
    }
  }
  out_.write(bytes);
}

void PerfettoWriter::write(const Activity& activity, const std::string& title, int64_t shift_ns) {
  Process(*this, activity, shift_ns).put(title);
  ++processes_;
}

}  // namespace xpurun::report
