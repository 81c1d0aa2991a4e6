// SpanEncoder: writes span files (span_file.h).
#pragma once

#include "common/model/timing/span.h"

#include <map>
#include <set>
#include <string>
#include <string_view>

namespace xpurun::model {

// Builds the bytes of a span file: header() first, then take_block() whenever records are pending. Not
// thread-safe.
class SpanEncoder {
 public:
  static std::string header(const EventFileHeader& h);

  // The index of the text in this file; the first use of a text writes a record. 0 for an empty text.
  uint32_t name(std::string_view text);
  // The indexes in the span are results of name(). A time outside of [0, 2^62) becomes the nearest time
  // inside.
  void add(const Span& span);
  void add(const LoadSample& load);
  void add(const ShortCalls& calls);
  // Of torch's default process group. A record is written only if the text is a new one.
  void backend(std::string_view text);
  // Records that `count` spans are missing here.
  void lost(uint64_t count);

  // Bytes of the records not yet taken.
  size_t pending() const { return payload_.size(); }
  // The pending records as a block; empty if there are none.
  std::string take_block();

 private:
  // Finishes the record whose body is in body_.
  void put_record(uint8_t tag);

  std::map<std::string, uint32_t, std::less<>> names_;
  std::set<uint32_t> inferred_;             // names whose spans are inferred
  std::map<uint32_t, uint64_t> sequences_;  // of the latest call, by group
  uint32_t backend_ = 0;
  int64_t last_end_ = 0;
  uint32_t last_thread_ = 0;
  LoadSample last_load_{
      .throttled_ns = 0,
      .stolen_ns = 0,
      .resident_bytes = 0,
      .private_bytes = 0,
      .helpers_bytes = 0,
      .gpu = {.allocated_bytes = 0, .reserved_bytes = 0, .peak_bytes = 0, .total_bytes = 0}};
  std::string payload_;
  std::string body_;
};

}  // namespace xpurun::model
