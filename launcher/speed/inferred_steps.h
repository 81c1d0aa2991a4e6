// InferredSteps: finds the ends of the steps of a rank that shows neither an optimizer nor marks: at its
// waits for the next batch, else in a repeating sequence of collectives. Reports nothing while neither is
// regular. Fed with spans in the order of their ends. Bounded memory and time per span.
#pragma once

#include "common/model/timing/span.h"
#include "report/speed/steps/token_period.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

namespace xpurun::launcher {

class InferredSteps {
 public:
  // When a step ended, if this span shows it.
  std::optional<base::MonoNs> take(const model::Span& span);

 private:
  using Source = std::pair<uint32_t, uint32_t>;  // name and place of a span

  std::optional<base::MonoNs> take_batch(const model::Span& span);
  std::optional<base::MonoNs> take_call(const model::Span& span);
  void find_sequence();
  void forget();
  bool batches_are_regular() const;

  // Batches.
  std::map<Source, uint64_t> loaders_;  // how often each was waited for
  uint64_t since_batch_ = 0;            // hash of the stages since the last batch
  std::deque<uint64_t> shapes_;         // of the latest intervals between batches
  // Collectives, of which the latest are kept until the sequence is known.
  std::deque<report::SequenceCall> calls_;
  size_t learned_ = 0;  // calls since the sequence was another one
  std::optional<report::CyclePosition> position_;
  size_t period_ = 0;
  size_t last_ = 0;  // position of the latest call
  size_t different_ = 0;
  bool placed_ = true;  // the line of each call is known: one that repeats is a step
  bool mpi_ = false;    // only collectives of MPI count, and one that repeats is a step
};

}  // namespace xpurun::launcher
