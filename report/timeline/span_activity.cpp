#include "report/timeline/span_activity.h"

#include "common/base/strings.h"
#include "report/events/event_activity.h"
#include "report/timeline/counters/counters.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace xpurun::report {

namespace {

const std::string& text_of(const model::SpanFile& file, uint32_t index) {
  return file.names[index < file.names.size() ? index : 0];
}

Call describe(const model::SpanFile& file, const model::Span& span) {
  Call call;
  call.category = Category::python;
  call.stage = span.stage;
  const std::string stage(model::name_of(span.stage));
  const std::string name = base::sanitize(text_of(file, span.name));
  call.name = name.empty() ? stage : name;
  call.arguments.push_back({"stage", stage});
  if (span.place != 0) {
    call.place = base::sanitize(text_of(file, span.place));
    call.arguments.push_back({"place", call.place});
  }
  if (span.group != 0) {
    call.group = base::sanitize(model::whole_group(text_of(file, span.group)));
    call.message = model::is_pair_group(text_of(file, span.group));
    call.arguments.push_back({"group", call.group});
  }
  if (span.bytes != 0) {
    call.arguments.push_back(
        {span.stage == model::Stage::garbage ? "collected" : "bytes", static_cast<int64_t>(span.bytes)});
  }
  return call;
}

uint64_t meeting_of_span(const model::SpanFile& file, const model::Span& span) {
  return span.group == 0 || span.sequence == 0 ? 0 : meeting_of(text_of(file, span.group), span.sequence);
}

}  // namespace

void add_spans(Activity& activity, const model::SpanFile& file) {
  const std::vector<model::EventFile::Clocks> pairs{{file.header.mono_ns, file.header.wall_ns}};
  WallClock clock(pairs);
  std::map<std::tuple<model::Stage, uint32_t, uint32_t, uint32_t, uint64_t>, uint32_t> known;
  for (const model::Span& span : file.spans) {
    const auto [call, is_new] =
        known.emplace(std::tuple(span.stage, span.name, span.place, span.group, span.bytes),
                      static_cast<uint32_t>(activity.calls.size()));
    if (is_new) {
      activity.calls.push_back(describe(file, span));
    }
    Slice slice{.begin_ns = clock.wall_ns(static_cast<uint64_t>(span.begin_ns)),
                .duration_ns = span.duration_ns,
                .meeting = meeting_of_span(file, span),
                .call = call->second,
                .track = activity.track(TrackKind::python, span.thread),
                .sequence = static_cast<uint32_t>(span.sequence)};
    if (slice.begin_ns < 0 || slice.begin_ns > kLatestNs || slice.duration_ns > kLongestNs) {
      activity.complete = false;
      continue;
    }
    if (span.cpu_ns >= 0) {
      slice.delay_us = static_cast<uint32_t>(std::min<int64_t>(span.cpu_ns / 1'000, UINT32_MAX));
    }
    activity.slices.push_back(slice);
  }
  for (const model::ShortCalls& calls : file.short_calls) {
    activity.short_calls.push_back({.begin_ns = clock.wall_ns(static_cast<uint64_t>(calls.begin_ns)),
                                    .duration_ns = calls.duration_ns,
                                    .total_ns = calls.total_ns,
                                    .calls = calls.calls,
                                    .thread = calls.thread,
                                    .name = base::sanitize(text_of(file, calls.name))});
  }
  add_load(activity, file);
  if (!file.backend.empty()) {
    activity.backend = base::sanitize(file.backend);
  }
  activity.lost += file.lost;
  activity.complete = activity.complete && file.complete;
}

}  // namespace xpurun::report
