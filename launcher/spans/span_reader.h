// SpanReader: takes the spans of one process out of the ring in the memory shared with Python
// (common/wire/python_segment.h). The content is untrusted. Event loop's thread only.
#pragma once

#include "common/model/timing/span.h"
#include "common/wire/python_segment.h"

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace xpurun::launcher {

class SpanReader {
 public:
  // The spans published since the last call, a thread's spans in the order of their ends. Their indexes refer
  // to names().
  std::vector<model::Span> read(const wire::PythonSegment& memory);

  // The sums of short calls that read() has found; their indexes are those of spans.
  std::vector<model::ShortCalls> take_short_calls() { return std::exchange(short_calls_, {}); }

  // The index of a text of another reader.
  uint32_t adopt(const std::string& text);

  // Index 0 is the empty text. Grows only.
  const std::vector<std::string>& names() const { return names_; }
  // Spans so far that were overwritten before they were read, or that had impossible times.
  uint64_t lost() const { return lost_; }

 private:
  uint32_t add_name(std::string text);
  uint32_t name_of(const wire::PythonSegment& memory, wire::TextRef ref);
  uint32_t pair_of(const wire::PythonSegment& memory, const wire::PythonSpan& span);
  model::Span span_of(const wire::PythonSegment& memory, const wire::PythonSpan& span);

  uint64_t next_ = 1;  // number of the next span
  uint64_t lost_ = 0;
  std::vector<model::ShortCalls> short_calls_;
  std::vector<std::string> names_{""};
  std::map<wire::TextRef, uint32_t> index_;                            // into names_
  std::map<std::string, uint32_t> adopted_;                            // into names_
  std::map<std::tuple<uint16_t, uint8_t, uint64_t>, uint32_t> pairs_;  // into names_, by group, flags, peer
};

}  // namespace xpurun::launcher
