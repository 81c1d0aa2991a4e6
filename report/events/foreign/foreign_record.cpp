#include "report/events/foreign/foreign_record.h"

#include "report/events/op_facts.h"

#include <algorithm>
#include <unordered_map>

namespace xpurun::report {

namespace {

// The GPU of a tool that does not say which one it is.
constexpr std::string_view kSomeGpu = "GPU";

// Calls that xpurun timed itself, read again from its Perfetto trace: they may have been sampled. What CUPTI
// recorded is all of the work.
bool is_timed_by_us(const Activity& activity) {
  return std::any_of(activity.calls.begin(), activity.calls.end(), [](const Call& call) {
    return std::any_of(call.arguments.begin(), call.arguments.end(), [](const Argument& a) {
      const auto* text = std::get_if<std::string>(&a.value);
      return a.name == "source" && text != nullptr && *text != "cupti";
    });
  });
}

class Translator {
 public:
  Translator(RankRecord& record, const Activity& from) : record_(record), from_(from) {}

  void translate() {
    for (const Communicator& c : from_.communicators) {
      const auto slot = static_cast<uint32_t>(events_.communicators.size());
      events_.communicators.push_back({slot, c.identity, c.rank, c.size, c.name});
    }
    for (size_t i = 0; i < from_.calls.size(); ++i) {
      const Call& call = from_.calls[i];
      events_.ops[static_cast<uint32_t>(i)] = {call.key, call.function.empty() ? call.name : call.function,
                                               call.work};
    }
    for (const Slice& slice : from_.slices) {
      if (from_.tracks[slice.track].kind == TrackKind::host && slice.launch != 0) {
        launches_.emplace(slice.launch, slice.begin_ns);
      }
    }
    std::vector<const Slice*> slices;
    for (const Slice& slice : from_.slices) {
      slices.push_back(&slice);
    }
    std::stable_sort(slices.begin(), slices.end(),
                     [](const Slice* a, const Slice* b) { return a->begin_ns < b->begin_ns; });
    for (const Slice* slice : slices) {
      const TrackKind kind = from_.tracks[slice->track].kind;
      if (kind != TrackKind::host && kind != TrackKind::python) {
        add_work(*slice);
      } else if (from_.calls[slice->call].stage != model::Stage::other) {
        add_span(*slice);
      }
    }
    finish();
  }

 private:
  void add_work(const Slice& slice) {
    const Call& call = from_.calls[slice.call];
    uint32_t& number = numbers_[slice.call];
    const auto launched = launches_.find(slice.launch);
    const int64_t delay_ns = slice.launch == 0 || launched == launches_.end()
                                 ? int64_t{slice.delay_us} * 1'000
                                 : std::max<int64_t>(slice.begin_ns - launched->second, 0);
    events_.events.push_back(
        {.event = {.begin_ns = static_cast<uint64_t>(slice.begin_ns),
                   .duration_ns = static_cast<uint64_t>(slice.duration_ns),
                   .op = slice.call,
                   .sequence = call.communicator >= 0 ? slice.sequence : number,
                   .delay_us = static_cast<uint32_t>(std::min<int64_t>(delay_ns / 1'000, UINT32_MAX)),
                   .stream = static_cast<uint16_t>(from_.tracks[slice.track].number),
                   .source = static_cast<uint8_t>(wire::Source::cupti)},
         .communicator = call.communicator});
    ++number;
  }

  void add_span(const Slice& slice) {
    const Call& call = from_.calls[slice.call];
    const auto [name, is_new] = names_.emplace(slice.call, static_cast<uint32_t>(spans_.names.size()));
    if (is_new) {
      spans_.names.push_back(call.name);
    }
    const uint32_t thread = from_.tracks[slice.track].number;
    spans_.spans.push_back({.begin_ns = slice.begin_ns,
                            .duration_ns = call.stage == model::Stage::mark ? 0 : slice.duration_ns,
                            .stage = call.stage,
                            .name = name->second,
                            .thread = thread});
    // A step of another tool has a begin and an end; a mark of ours stands between two steps.
    if (call.stage == model::Stage::mark && slice.duration_ns > 0 && slice.end_ns() >= last_step_.begin_ns) {
      last_step_ = spans_.spans.back();
      last_step_.begin_ns = slice.end_ns();
    }
  }

  void finish() {
    if (last_step_.begin_ns > 0) {
      spans_.spans.push_back(last_step_);
    }
    for (model::EventFileHeader* header : {&events_.header, &spans_.header}) {
      *header = {.rank = from_.rank, .pid = from_.pid, .host = from_.host, .gpu = from_.gpu};
    }
    if (!events_.events.empty()) {
      events_.clocks.push_back({});
      record_.gpu = !record_.gpu.empty() ? record_.gpu : from_.gpu.empty() ? kSomeGpu : from_.gpu;
      record_.events.push_back(std::move(events_));
    }
    if (!spans_.spans.empty()) {
      record_.spans.push_back(std::move(spans_));
    }
    record_.whole = !from_.placed && !is_timed_by_us(from_);
  }

  RankRecord& record_;
  const Activity& from_;
  model::EventFile events_;
  model::SpanFile spans_;
  model::Span last_step_;
  std::unordered_map<uint32_t, int64_t> launches_;  // begin of the call on the host, by its number
  std::unordered_map<uint32_t, uint32_t> numbers_;  // of the calls so far, by call
  std::unordered_map<uint32_t, uint32_t> names_;    // of the spans, by call
};

}  // namespace

void add_foreign(RankRecord& record, const Activity& activity) {
  Translator(record, activity).translate();
}

}  // namespace xpurun::report
