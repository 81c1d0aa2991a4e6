// MpiSpans: takes the timed calls of one MPI process out of its shared memory (common/wire/mpi_segment.h), as
// spans, and of the calls that were not timed the number. The content is untrusted. Event loop's thread only.
#pragma once

#include "common/model/timing/span.h"
#include "common/wire/mpi_segment.h"

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace xpurun::launcher {

class MpiSpans {
 public:
  struct Texts {
    std::function<uint32_t(const std::string&)> index;                  // of a text, for spans
    std::function<std::optional<std::string>(uint64_t address)> place;  // nothing: not known yet
  };
  struct Found {
    std::vector<model::Span> spans;  // in the order of their ends
    std::vector<model::ShortCalls> others;
  };

  // Spans wait here until the places of their calls are known. `now`: CLOCK_MONOTONIC; `last`: there will be
  // no more calls.
  Found read(const wire::MpiSegment& memory, const Texts& texts, base::MonoNs now, bool last);
  // No span waits.
  bool empty() const { return waiting_.empty(); }
  // Timed calls that were overwritten before they were read.
  uint64_t lost() const { return lost_; }

 private:
  struct Counted {
    uint64_t calls = 0;
    uint64_t bytes = 0;
    uint64_t timed = 0;
    uint64_t timed_ns = 0;
  };

  void ask_for_places(const wire::MpiSegment& memory, const Texts& texts);
  void take_new(const wire::MpiSegment& memory);
  void count(const wire::MpiSegment& memory, const Texts& texts, base::MonoNs now, Found& out);

  std::deque<wire::MpiTime> waiting_;
  std::array<bool, wire::kMpiSites> placed_{};  // the place of the site is known
  uint64_t next_ = 1;                           // number of the next timed call
  uint64_t lost_ = 0;
  std::array<Counted, wire::kMpiSites> counted_{};  // as of counted_at_
  base::MonoNs counted_at_ = 0;
};

}  // namespace xpurun::launcher
