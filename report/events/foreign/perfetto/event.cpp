#include "report/events/foreign/perfetto/event.h"

#include "common/base/strings.h"
#include "report/events/foreign/checked_pbf.h"
#include "report/events/foreign/perfetto/fields.h"

#include <algorithm>

namespace xpurun::report {

namespace {

using namespace perfetto;
using pbf_reader = CheckedPbf;

std::string clean_text(pbf_reader& r) {
  const auto view = r.get_view();
  return base::sanitize({view.data(), view.size()});
}

// Numbers of single slices, and what a writer computes again.
bool is_of_slice(PerfettoEvent& event, const Argument& argument) {
  const auto* number = std::get_if<int64_t>(&argument.value);
  if (argument.name == "sequence" && number != nullptr) {
    event.sequence = static_cast<uint32_t>(std::clamp<int64_t>(*number, 0, UINT32_MAX));
    return true;
  }
  if ((argument.name == "delay_us" || argument.name == "cpu_us") && number != nullptr) {
    event.delay_us = static_cast<uint32_t>(std::clamp<int64_t>(*number, 0, UINT32_MAX));
    return true;
  }
  return argument.name == "TFLOP/s" || argument.name == "bus_bandwidth_GB/s";
}

void read_annotation(PerfettoEvent& event, const PerfettoSequence& sequence, pbf_reader r) {
  Argument out{.name = "", .value = int64_t{0}};
  bool has_value = true;
  bool is_shared = false;
  while (r.next()) {
    switch (r.tag()) {
      case annotation::kNameIid:
        out.name = sequence.text(interned::kAnnotationNames, r.get_uint64());
        is_shared = true;
        break;
      case annotation::kName:
        out.name = clean_text(r);
        break;
      case annotation::kBool:
        out.value = int64_t{r.get_bool() ? 1 : 0};
        break;
      case annotation::kUint:
        out.value = static_cast<int64_t>(r.get_uint64());
        break;
      case annotation::kInt:
        out.value = r.get_int64();
        break;
      case annotation::kDouble:
        out.value = r.get_double();
        break;
      case annotation::kString:
        out.value = clean_text(r);
        break;
      case annotation::kStringIid:
        out.value = sequence.text(interned::kAnnotationStrings, r.get_uint64());
        break;
      default:
        has_value = false;  // nested
        r.skip();
    }
  }
  if (has_value && !out.name.empty() && !is_of_slice(event, out)) {
    (is_shared ? event.arguments : event.own).push_back(std::move(out));
  }
}

}  // namespace

PerfettoPacket packet_of(std::string_view bytes) {
  PerfettoPacket out;
  for (pbf_reader r(bytes.data(), bytes.size()); r.next();) {
    switch (r.tag()) {
      case packet::kTimestamp:
        out.at_ns = r.get_uint64();
        break;
      case packet::kClock:
        out.clock = r.get_uint32();
        break;
      case packet::kSequenceId:
        out.sequence = r.get_uint32();
        break;
      case packet::kSequenceFlags:
        out.flags = r.get_uint32();
        break;
      case packet::kTrackEvent:
        out.event = r.get_message();
        break;
      case packet::kInternedData:
        out.interned = r.get_message();
        break;
      case packet::kDefaults:
        out.defaults = r.get_message();
        break;
      case packet::kClockSnapshot:
        out.clocks = r.get_message();
        break;
      case packet::kTrackDescriptor:
        out.descriptor = r.get_message();
        break;
      default:
        r.skip();
    }
  }
  return out;
}

void PerfettoSequence::intern(pbf_reader data) {
  while (data.next()) {
    const uint32_t kind = data.tag();
    if (kind != interned::kCategories && kind != interned::kNames && kind != interned::kAnnotationNames &&
        kind != interned::kAnnotationStrings) {
      data.skip();
      continue;
    }
    uint64_t number = 0;
    std::string text;
    for (pbf_reader entry = data.get_message(); entry.next();) {
      if (entry.tag() == 1) {
        number = entry.get_uint64();
      } else if (entry.tag() == 2) {
        text = clean_text(entry);
      } else {
        entry.skip();
      }
    }
    texts_[{kind, number}] = std::move(text);
  }
}

const std::string& PerfettoSequence::text(uint32_t kind, uint64_t number) const {
  static const std::string kNone;
  const auto found = texts_.find({kind, number});
  return found == texts_.end() ? kNone : found->second;
}

void PerfettoSequence::set_defaults(pbf_reader r) {
  while (r.next()) {
    if (r.tag() == defaults::kClock) {
      clock = r.get_uint32();
    } else if (r.tag() == defaults::kTrackEvent) {
      for (pbf_reader e = r.get_message(); e.next();) {
        if (e.tag() == defaults::kTrack) {
          track = e.get_uint64();
        } else {
          e.skip();
        }
      }
    } else {
      r.skip();
    }
  }
}

PerfettoEvent event_of(pbf_reader r, const PerfettoSequence& sequence) {
  PerfettoEvent out{.track = sequence.track};
  while (r.next()) {
    switch (r.tag()) {
      case event::kType:
        out.type = r.get_int32();
        break;
      case event::kTrack:
        out.track = r.get_uint64();
        break;
      case event::kNameIid:
        out.name = sequence.text(interned::kNames, r.get_uint64());
        break;
      case event::kName:
        out.name = clean_text(r);
        break;
      case event::kCategoryIids:
        out.category = sequence.text(interned::kCategories, r.get_uint64());
        break;
      case event::kCategory:
        out.category = clean_text(r);
        break;
      case event::kAnnotations:
        read_annotation(out, sequence, r.get_message());
        break;
      case event::kFlows:
        out.flows.push_back(r.get_fixed64());
        break;
      case event::kCorrelation:
        out.correlation = r.get_uint64();
        break;
      case event::kDoubleValue:
        out.value = r.get_double();
        break;
      case event::kIntValue:
        out.value = static_cast<double>(r.get_int64());
        break;
      default:
        r.skip();
    }
  }
  return out;
}

}  // namespace xpurun::report
