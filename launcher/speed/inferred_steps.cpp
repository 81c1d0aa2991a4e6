#include "launcher/speed/inferred_steps.h"

#include "common/base/hash.h"
#include "report/speed/steps/step_ends.h"

#include <algorithm>

namespace xpurun::launcher {

namespace {

using model::Span;
using model::Stage;

constexpr size_t kIntervals = 32;  // between batches, that are compared
constexpr size_t kMostLoaders = 16;
constexpr size_t kLearn = 64;   // calls
constexpr size_t kCalls = 512;  // latest ones
constexpr size_t kMostDifferent = 8;

base::MonoNs end_of(const Span& span) {
  return span.begin_ns + span.duration_ns;
}

}  // namespace

std::optional<base::MonoNs> InferredSteps::take(const Span& span) {
  switch (span.stage) {
    case Stage::data:
      return take_batch(span);
    case Stage::communication: {
      if (span.group == 0) {
        return std::nullopt;  // a wait for calls that have returned
      }
      since_batch_ = base::hash_words(since_batch_, {static_cast<uint64_t>(span.stage), span.name});
      const auto end = take_call(span);
      return batches_are_regular() ? std::nullopt : end;
    }
    case Stage::forward:
    case Stage::backward:
      since_batch_ = base::hash_words(since_batch_, {static_cast<uint64_t>(span.stage)});
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

bool InferredSteps::batches_are_regular() const {
  if (shapes_.size() < kIntervals) {
    return false;
  }
  std::map<uint64_t, size_t> counts;
  size_t most = 0;
  for (const uint64_t shape : shapes_) {
    most = std::max(most, ++counts[shape]);
  }
  return static_cast<double>(most) >= report::kSameStages * kIntervals;
}

// A program with several loaders waits for the one of the training most often.
std::optional<base::MonoNs> InferredSteps::take_batch(const Span& span) {
  const Source source{span.name, span.place};
  if (loaders_.size() >= kMostLoaders && !loaders_.contains(source)) {
    return std::nullopt;
  }
  const uint64_t count = ++loaders_[source];
  if (std::any_of(loaders_.begin(), loaders_.end(), [&](const auto& one) { return one.second > count; })) {
    return std::nullopt;
  }
  shapes_.push_back(std::exchange(since_batch_, 0));
  if (shapes_.size() > kIntervals) {
    shapes_.pop_front();
  }
  return batches_are_regular() ? std::optional(span.begin_ns) : std::nullopt;
}

std::optional<base::MonoNs> InferredSteps::take_call(const Span& span) {
  if (span.mpi_collective && !std::exchange(mpi_, true)) {
    forget();
  }
  if (mpi_ && !span.mpi_collective) {
    return std::nullopt;
  }
  placed_ = placed_ && span.place != 0;
  const uint64_t token = base::hash_words(span.bytes, {span.name, span.place, span.group});
  const report::SequenceCall call{span.begin_ns, end_of(span), token};
  if (!position_) {
    calls_.push_back(call);
    if (calls_.size() > kCalls) {
      calls_.pop_front();
    }
    if (++learned_ >= kLearn && learned_ % kLearn == 0) {
      find_sequence();
    }
    return std::nullopt;
  }
  const size_t expected = (last_ + 1) % period_;
  const auto at = position_->take(token);
  different_ = at == expected ? different_ - std::min<size_t>(different_, 1) : different_ + 2;
  if (different_ > kMostDifferent) {
    forget();  // the sequence is another one now
    calls_.push_back(call);
    return std::nullopt;
  }
  last_ = at.value_or(last_);
  return at == period_ - 1 ? std::optional(call.end_ns) : std::nullopt;
}

void InferredSteps::forget() {
  calls_.clear();
  position_.reset();
  learned_ = different_ = 0;
}

void InferredSteps::find_sequence() {
  const size_t least = mpi_ || placed_ ? 1 : 2;  // as in report/speed/steps/step_ends.cpp
  report::CallCycle found = report::find_cycle({calls_.begin(), calls_.end()}, least);
  period_ = found.period.length;
  if (period_ < least || calls_.size() < 3 * period_) {
    return;
  }
  position_.emplace(std::move(found.tokens));
  for (const report::SequenceCall& call : std::exchange(calls_, {})) {
    last_ = position_->take(call.token).value_or(last_);
  }
}

}  // namespace xpurun::launcher
