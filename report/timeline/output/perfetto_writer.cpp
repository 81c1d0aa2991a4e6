#include "report/timeline/output/perfetto_writer.h"

#include "common/base/strings.h"
#include "report/events/foreign/perfetto/fields.h"
#include "report/timeline/output/lanes.h"
#include "report/timeline/output/packet_bytes.h"

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

constexpr int32_t kCountersFirst = 900'000;  // in the order of tracks

void put_varint(std::string& out, uint64_t n) {
  std::array<char, protozero::max_varint_length> bytes;
  out.append(bytes.data(), static_cast<size_t>(protozero::write_varint(bytes.data(), n)));
}

constexpr auto kVarint = protozero::pbf_wire_type::varint;
constexpr auto kBytes = protozero::pbf_wire_type::length_delimited;
constexpr auto kFixed64 = protozero::pbf_wire_type::fixed64;

// Bytes of an event beside those of its call and of its extra arguments, at most: the frame of the packet,
// type and track, four annotations of at most 32 bytes, two flows and a correlation.
constexpr size_t kMostFrame = 64;
constexpr size_t kMostEvent = 256;

// Begin of an annotation up to its value.
std::string annotation_head(uint64_t name_iid, int field, protozero::pbf_wire_type type) {
  std::string out;
  put_varint(out, field_key(annotation::kNameIid, kVarint));
  put_varint(out, name_iid);
  put_varint(out, field_key(field, type));
  return out;
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
        bytes_(writer.out_),
        sequence_(writer.processes_ + 2),
        uuid_(++writer.uuids_) {
    for (const Track& track : activity.tracks) {
      lanes_.emplace_back(lanes_of(track.kind));
    }
    rows_.resize(activity.tracks.size());
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
          put_end(end, rows_[track][lane]);
        }
      }
    }
    for (size_t i = 0; i < activity_.counters.size(); ++i) {
      put_counter(activity_.counters[i], static_cast<int32_t>(i));
    }
    bytes_.flush();
  }

 private:
  // A row of the trace: a lane of a track.
  struct TrackRow {
    uint64_t uuid = 0;
    std::string end;  // of every packet that ends a slice, behind its time
  };

  void put_packet(const std::string& packet) {
    bytes_.reserve(packet.size() + kMostFrame);
    bytes_.varint(field_key(trace::kPacket, kBytes));
    bytes_.varint(packet.size());
    bytes_.bytes(packet);
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

  const TrackRow& row_of(uint32_t track, uint32_t lane) {
    std::vector<TrackRow>& known = rows_[track];
    while (known.size() <= lane) {
      const uint64_t uuid = ++writer_.uuids_;
      put_track(uuid, track, static_cast<uint32_t>(known.size()));
      known.push_back({uuid, end_bytes(uuid)});
      ++writer_.counts_.tracks;
    }
    return known[lane];
  }

  std::string end_bytes(uint64_t uuid) const {
    std::string event;
    {
      pbf_writer w(event);
      w.add_uint64(event::kType, event::kSliceEnd);
      w.add_uint64(event::kTrack, uuid);
    }
    std::string out = constant_;
    pbf_writer(out).add_message(packet::kTrackEvent, event);
    return out;
  }

  void put_track(uint64_t uuid, uint32_t track, uint32_t lane) {
    const Track& t = activity_.tracks[track];
    const std::string title = track_title(t) + (lane == 0 ? "" : fmt::format(" ({})", lane + 1));
    std::string packet;
    {
      pbf_writer w(packet);
      w.add_uint32(packet::kSequenceId, sequence_);
      pbf_writer d(w, packet::kTrackDescriptor);
      d.add_uint64(descriptor::kUuid, uuid);
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
    const uint64_t uuid = ++writer_.uuids_;
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
      const Event event = begin_event(at(sample.wall_ns), event::kCounter, uuid, 0);
      bytes_.varint(field_key(event::kDoubleValue, kFixed64));
      bytes_.fixed64(std::bit_cast<uint64_t>(sample.value));
      end_event(event);
      ++writer_.counts_.samples;
    }
  }

  uint64_t at(int64_t ns) const { return static_cast<uint64_t>(std::max<int64_t>(0, ns + shift_ns_)); }

  // A packet with an event, both open.
  struct Event {
    PacketBytes::Message packet;
    PacketBytes::Message event;
  };
  // `more`: bytes of its call and of its extra arguments.
  Event begin_event(uint64_t at_ns, int type, uint64_t uuid, size_t more) {
    const size_t most = kMostEvent + more;
    bytes_.reserve(most + kMostFrame);
    bytes_.varint(field_key(trace::kPacket, kBytes));
    Event out;
    out.packet = bytes_.begin_message(most + kMostFrame);
    bytes_.varint(field_key(packet::kTimestamp, kVarint));
    bytes_.varint(at_ns);
    bytes_.bytes(constant_);
    bytes_.varint(field_key(packet::kTrackEvent, kBytes));
    out.event = bytes_.begin_message(most);
    bytes_.varint(field_key(event::kType, kVarint));
    bytes_.varint(static_cast<uint64_t>(type));
    bytes_.varint(field_key(event::kTrack, kVarint));
    bytes_.varint(uuid);
    return out;
  }
  void end_event(const Event& event) {
    bytes_.end_message(event.event);
    bytes_.end_message(event.packet);
  }

  void put_end(int64_t end_ns, const TrackRow& row) {
    bytes_.reserve(kMostFrame + row.end.size());
    bytes_.varint(field_key(trace::kPacket, kBytes));
    const PacketBytes::Message packet = bytes_.begin_message(1 + PacketBytes::kVarint + row.end.size());
    bytes_.varint(field_key(packet::kTimestamp, kVarint));
    bytes_.varint(at(end_ns));
    bytes_.bytes(row.end);
    bytes_.end_message(packet);
  }

  void put_count(const std::string& head, uint64_t number) {
    bytes_.varint(field_key(event::kAnnotations, kBytes));
    const PacketBytes::Message annotation = bytes_.begin_message(head.size() + PacketBytes::kVarint);
    bytes_.bytes(head);
    bytes_.varint(number);
    bytes_.end_message(annotation);
  }
  void put_rate(const std::string& head, double rate) {
    bytes_.varint(field_key(event::kAnnotations, kBytes));
    bytes_.varint(head.size() + sizeof rate);
    bytes_.bytes(head);
    bytes_.fixed64(std::bit_cast<uint64_t>(rate));
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
  }

  // Arguments of this slice alone.
  void encode_extra(const Slice& slice) {
    extra_.clear();
    if (slice.extra == 0) {
      return;
    }
    pbf_writer w(extra_);
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

  void put_flow(uint64_t number) {
    bytes_.varint(field_key(event::kFlows, kFixed64));
    bytes_.fixed64(number);
  }
  void put_flows(const Slice& slice) {
    if (slice.meeting != 0) {
      put_flow(slice.meeting);
    }
    if (slice.launch != 0) {
      put_flow(uint64_t{sequence_} << 32 | slice.launch);
    }
    if (slice.meeting != 0) {
      bytes_.varint(field_key(event::kCorrelation, kVarint));
      bytes_.varint(slice.meeting);
    }
    writer_.counts_.flows += slice.meeting != 0 || slice.launch != 0 ? 1 : 0;
  }

  void put_slice(const Slice& slice) {
    ++writer_.counts_.slices;
    const Call& call = activity_.calls[slice.call];
    // A mark: the end of a step, as the program said.
    const bool is_instant = call.category == Category::python && slice.duration_ns == 0;
    const std::string& same = calls_[slice.call];
    encode_extra(slice);
    const TrackRow* row = nullptr;
    if (is_instant) {
      row = &row_of(slice.track, 0);
    } else {
      const Lanes::Place place = lanes_[slice.track].put(slice.begin_ns, slice.end_ns());
      row = &row_of(slice.track, place.lane);
      for (const int64_t end : place.ended) {
        put_end(end, *row);
      }
      writer_.counts_.trimmed += place.trimmed ? 1 : 0;
    }
    const Event event = begin_event(at(slice.begin_ns), is_instant ? event::kInstant : event::kSliceBegin,
                                    row->uuid, same.size() + extra_.size());
    bytes_.bytes(same);
    put_arguments(call, slice);
    bytes_.bytes(extra_);
    put_flows(slice);
    end_event(event);
  }

  PerfettoWriter& writer_;
  const Activity& activity_;
  int64_t shift_ns_;
  PacketBytes bytes_;
  uint32_t sequence_;
  uint64_t uuid_;
  PerfettoInterner categories_;
  PerfettoInterner names_;
  PerfettoInterner names_of_arguments_;
  PerfettoInterner strings_;
  // Annotations up to their values.
  std::string delay_;
  std::string cpu_;
  std::string number_;
  std::string tflops_;
  std::string bus_;
  std::string constant_;  // of every event's packet
  std::vector<std::string> calls_;
  std::vector<Lanes> lanes_;                 // by track
  std::vector<std::vector<TrackRow>> rows_;  // by track and lane
  std::string extra_;                        // reused for every slice
};

PerfettoWriter::PerfettoWriter(OutputFile& out, int64_t begin_ns) : out_(out) {
  std::string bytes;
  {
    pbf_writer file(bytes);
    pbf_writer w(file, trace::kPacket);
    w.add_uint32(packet::kSequenceId, 1);
    pbf_writer snapshot(w, packet::kClockSnapshot);
    for (const uint32_t id : {clock::kBoottime, clock::kRealtime}) {
      pbf_writer c(snapshot, clock::kClocks);
      c.add_uint32(clock::kId, id);
      c.add_uint64(clock::kTimestamp, static_cast<uint64_t>(std::max<int64_t>(0, begin_ns)));
    }
  }
  out_.write(bytes);
}

void PerfettoWriter::write_missing(const std::vector<std::string>& lines) {
  if (lines.empty()) {
    return;
  }
  std::string bytes;
  {
    pbf_writer file(bytes);
    pbf_writer w(file, trace::kPacket);
    w.add_uint32(packet::kSequenceId, 1);
    pbf_writer bundle(w, packet::kChromeEvents);
    for (size_t i = 0; i < lines.size(); ++i) {
      pbf_writer entry(bundle, metadata::kMetadata);
      entry.add_string(metadata::kName, fmt::format("xpurun-missing-{}", i + 1));
      entry.add_string(metadata::kString, lines[i]);
    }
  }
  out_.write(bytes);
}

void PerfettoWriter::write(const Activity& activity, const std::string& title, int64_t shift_ns) {
  Process(*this, activity, shift_ns).put(title);
  ++processes_;
}

}  // namespace xpurun::report
