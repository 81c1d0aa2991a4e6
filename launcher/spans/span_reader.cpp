#include "launcher/spans/span_reader.h"

#include "common/model/timing/span_records.h"
#include "launcher/collect/python_segments.h"

#include <algorithm>
#include <cstring>

namespace xpurun::launcher {

namespace {

using wire::kPythonSpans;

// Longer texts are cut; the bootstrap's texts are file names, functions and lines.
constexpr size_t kLongestName = 1024;
// More texts than the memory can hold are no texts of the bootstrap.
constexpr size_t kMostNames = 20'000;

// 0 while the span is written.
uint64_t number_at(const wire::PythonSegment& memory, uint64_t number) {
  return __atomic_load_n(&memory.spans[(number - 1) % kPythonSpans].number, __ATOMIC_ACQUIRE);
}

bool is_possible(const wire::PythonSpan& span) {
  return span.begin_ns < model::records::kSpanTimeLimit &&
         span.duration_ns < model::records::kSpanTimeLimit - span.begin_ns;
}

}  // namespace

uint32_t SpanReader::name_of(const wire::PythonSegment& memory, wire::TextRef ref) {
  if (ref == 0) {
    return 0;
  }
  if (const auto known = index_.find(ref); known != index_.end()) {
    return known->second;
  }
  const uint32_t name = add_name(text_at(memory, ref).substr(0, kLongestName));
  if (name != 0) {
    index_[ref] = name;
  }
  return name;
}

uint32_t SpanReader::add_name(std::string text) {
  if (text.empty() || names_.size() >= kMostNames) {
    return 0;
  }
  names_.push_back(std::move(text));
  return static_cast<uint32_t>(names_.size() - 1);
}

uint32_t SpanReader::adopt(const std::string& text) {
  if (text.empty()) {
    return 0;
  }
  const auto known = adopted_.find(text);
  return known != adopted_.end() ? known->second : (adopted_[text] = add_name(text));
}

// A send and its recv are a meeting of two ranks: the pair is a group of its own.
uint32_t SpanReader::pair_of(const wire::PythonSegment& memory, const wire::PythonSpan& span) {
  const uint64_t peer = span.sequence >> wire::kPeerShift;
  const auto [known, is_new] = pairs_.try_emplace({span.group, span.flags, peer}, 0);
  if (is_new) {
    const wire::TorchGroup& group = memory.group[span.group - 1];
    const auto own = static_cast<uint64_t>(std::max(group.rank, 0));
    const bool sends = (span.flags & wire::kSends) != 0;
    known->second =
        add_name(model::pair_group(text_at(memory, group.id).substr(0, kLongestName), sends ? own : peer,
                                   sends ? peer : own, (span.flags & wire::kObjects) != 0));
  }
  return known->second;
}

model::Span SpanReader::span_of(const wire::PythonSegment& memory, const wire::PythonSpan& span) {
  model::Span out{.begin_ns = static_cast<base::MonoNs>(span.begin_ns),
                  .duration_ns = static_cast<int64_t>(span.duration_ns),
                  .cpu_ns = std::max(span.cpu_ns, int64_t{-1}),
                  .name = name_of(memory, span.name),
                  .place = name_of(memory, span.place),
                  .thread = span.thread,
                  .sequence = span.sequence,
                  .bytes = span.bytes,
                  .inferred = (span.flags & wire::kInferred) != 0};
  out.stage = span.stage < model::kNames<model::Stage>.size() ? static_cast<model::Stage>(span.stage)
                                                              : model::Stage::other;
  if (span.group > 0 && span.group <= wire::kTorchGroups) {
    if ((span.flags & (wire::kSends | wire::kReceives)) != 0) {
      out.group = pair_of(memory, span);
      out.sequence &= (uint64_t{1} << wire::kPeerShift) - 1;
    } else {
      out.group = name_of(memory, memory.group[span.group - 1].id);
    }
  }
  return out;
}

std::vector<model::Span> SpanReader::read(const wire::PythonSegment& memory) {
  std::vector<model::Span> out;
  // A writer may run as fast as this loop.
  for (uint32_t i = 0; i < 2 * kPythonSpans; ++i) {
    const uint64_t found = number_at(memory, next_);
    if (found < next_) {
      break;
    }
    if (found > next_) {
      // The ring has turned. The span behind this place is the oldest that is left.
      const uint64_t oldest = std::max(found - kPythonSpans + 1, next_ + 1);
      lost_ += oldest - next_;
      next_ = oldest;
      continue;
    }
    wire::PythonSpan span;
    std::memcpy(&span, &memory.spans[(next_ - 1) % kPythonSpans], sizeof span);
    if (number_at(memory, next_) != next_) {
      continue;  // it was overwritten in the meantime
    }
    ++next_;
    if (!is_possible(span)) {
      ++lost_;
    } else if ((span.flags & wire::kShortCalls) != 0) {
      short_calls_.push_back(
          {.begin_ns = static_cast<base::MonoNs>(span.begin_ns),
           .duration_ns = static_cast<int64_t>(span.duration_ns),
           .total_ns = static_cast<int64_t>(std::min(span.bytes, model::records::kSpanTimeLimit - 1)),
           .calls = span.sequence,
           .name = name_of(memory, span.name),
           .thread = span.thread});
    } else {
      out.push_back(span_of(memory, span));
    }
  }
  return out;
}

}  // namespace xpurun::launcher
