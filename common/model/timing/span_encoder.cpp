#include "common/model/timing/span_encoder.h"

#include "common/model/timing/event_records.h"
#include "common/model/timing/span_file.h"
#include "common/model/timing/span_records.h"

#include <algorithm>

namespace xpurun::model {

namespace {

// Readers treat other times as damage.
int64_t inside(int64_t time) {
  return std::clamp(time, int64_t{0}, static_cast<int64_t>(records::kSpanTimeLimit) - 1);
}

}  // namespace

std::string SpanEncoder::header(const EventFileHeader& h) {
  return records::header_lines(kSpansSchema, h);
}

void SpanEncoder::put_record(uint8_t tag) {
  records::put_record(payload_, tag, body_);
  body_.clear();
}

uint32_t SpanEncoder::name(std::string_view text) {
  if (text.empty()) {
    return 0;
  }
  if (const auto known = names_.find(text); known != names_.end()) {
    return known->second;
  }
  const auto index = static_cast<uint32_t>(names_.size() + 1);
  names_.emplace(text, index);
  records::put_text(body_, text);
  put_record(records::kName);
  return index;
}

void SpanEncoder::add(const Span& span) {
  if (span.inferred && inferred_.insert(span.name).second) {
    records::put_varint(body_, span.name);
    put_record(records::kInferredName);
  }
  const int64_t begin = inside(span.begin_ns);
  const int64_t duration = std::min(inside(span.duration_ns), inside(INT64_MAX) - begin);
  const bool has_cpu = span.cpu_ns >= 0;
  const bool has_group = span.group != 0 || span.sequence != 0 || span.bytes != 0;
  const bool same_thread = span.thread == last_thread_;
  records::put_signed(body_, begin + duration - last_end_);
  records::put_varint(body_, static_cast<uint64_t>(duration));
  records::put_varint(body_, span.name);
  records::put_varint(body_, span.place);
  if (!same_thread) {
    records::put_varint(body_, span.thread);
  }
  if (has_cpu) {
    records::put_varint(body_, static_cast<uint64_t>(inside(span.cpu_ns)));
  }
  if (has_group) {
    uint64_t& last = sequences_[span.group];
    records::put_varint(body_, span.group);
    records::put_signed(body_, static_cast<int64_t>(span.sequence - last));
    records::put_varint(body_, span.bytes);
    last = span.sequence;
  }
  put_record(static_cast<uint8_t>((static_cast<uint8_t>(span.stage) & records::kStageMask) |
                                  (same_thread ? records::kSameThread : 0) |
                                  (has_cpu ? records::kHasCpu : 0) | (has_group ? records::kHasGroup : 0)));
  last_end_ = begin + duration;
  last_thread_ = span.thread;
}

void SpanEncoder::add(const LoadSample& load) {
  const auto known = [](int64_t value) { return value < 0 ? -1 : inside(value); };
  const LoadSample next{.at_ns = inside(load.at_ns),
                        .cpu_ns = inside(load.cpu_ns),
                        .run_delay_ns = known(load.run_delay_ns),
                        .major_faults = inside(load.major_faults),
                        .throttled_ns = known(load.throttled_ns),
                        .stolen_ns = known(load.stolen_ns),
                        .resident_bytes = known(load.resident_bytes),
                        .private_bytes = known(load.private_bytes),
                        .helpers_bytes = known(load.helpers_bytes),
                        .gpu = {.allocated_bytes = known(load.gpu.allocated_bytes),
                                .reserved_bytes = known(load.gpu.reserved_bytes),
                                .peak_bytes = known(load.gpu.peak_bytes),
                                .total_bytes = known(load.gpu.total_bytes)}};
  records::put_signed(body_, next.at_ns - last_load_.at_ns);
  records::put_signed(body_, next.cpu_ns - last_load_.cpu_ns);
  records::put_signed(body_, next.run_delay_ns - last_load_.run_delay_ns);
  records::put_signed(body_, next.major_faults - last_load_.major_faults);
  put_record(records::kLoad);
  const bool lost_known = next.throttled_ns >= 0 || next.stolen_ns >= 0;
  if (lost_known) {
    records::put_signed(body_, next.throttled_ns - last_load_.throttled_ns);
    records::put_signed(body_, next.stolen_ns - last_load_.stolen_ns);
    put_record(records::kLostCpu);
  }
  const bool memory_known = next.resident_bytes >= 0;
  if (memory_known) {
    records::put_signed(body_, next.resident_bytes - last_load_.resident_bytes);
    records::put_signed(body_, next.private_bytes - last_load_.private_bytes);
    records::put_signed(body_, next.helpers_bytes - last_load_.helpers_bytes);
    put_record(records::kMemory);
  }
  if (next.gpu.known()) {
    records::put_signed(body_, next.gpu.allocated_bytes - last_load_.gpu.allocated_bytes);
    records::put_signed(body_, next.gpu.reserved_bytes - last_load_.gpu.reserved_bytes);
    records::put_signed(body_, next.gpu.peak_bytes - last_load_.gpu.peak_bytes);
    records::put_signed(body_, next.gpu.total_bytes - last_load_.gpu.total_bytes);
    put_record(records::kGpuMemory);
  }
  const LoadSample& lost = lost_known ? next : last_load_;
  const LoadSample& memory = memory_known ? next : last_load_;
  last_load_ = {.at_ns = next.at_ns,
                .cpu_ns = next.cpu_ns,
                .run_delay_ns = next.run_delay_ns,
                .major_faults = next.major_faults,
                .throttled_ns = lost.throttled_ns,
                .stolen_ns = lost.stolen_ns,
                .resident_bytes = memory.resident_bytes,
                .private_bytes = memory.private_bytes,
                .helpers_bytes = memory.helpers_bytes,
                .gpu = next.gpu.known() ? next.gpu : last_load_.gpu};
}

void SpanEncoder::add(const ShortCalls& calls) {
  const int64_t begin = inside(calls.begin_ns);
  records::put_signed(body_, begin - last_end_);
  records::put_varint(body_,
                      static_cast<uint64_t>(std::min(inside(calls.duration_ns), inside(INT64_MAX) - begin)));
  records::put_varint(body_, static_cast<uint64_t>(inside(calls.total_ns)));
  records::put_varint(body_, calls.calls);
  records::put_varint(body_, calls.name);
  records::put_varint(body_, calls.thread);
  records::put_varint(body_, calls.place);
  records::put_varint(body_, calls.bytes);
  put_record(records::kShortCalls);
}

void SpanEncoder::backend(std::string_view text) {
  if (const uint32_t index = name(text); index != 0 && index != backend_) {
    records::put_varint(body_, index);
    put_record(records::kBackend);
    backend_ = index;
  }
}

void SpanEncoder::lost(uint64_t count) {
  records::put_varint(body_, count);
  put_record(records::kLostSpans);
}

std::string SpanEncoder::take_block() {
  std::string out = records::block_of(payload_);
  payload_.clear();
  return out;
}

}  // namespace xpurun::model
