#include "report/speed/steps/communication.h"

#include "report/speed/primitives/intervals.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace xpurun::report {

namespace {

constexpr uint64_t kLatestEventNs = uint64_t{1} << 61;  // sums of two fit

// The communication of a rank and the part of it that is hidden, both united.
struct Communication {
  std::vector<Interval> all;
  std::vector<Interval> hidden;
};

bool is_compute(wire::OpClass op_class) {
  return op_class == wire::OpClass::matmul || op_class == wire::OpClass::graph ||
         op_class == wire::OpClass::kernel;
}

Communication of_gpu(const RankRecord& rank) {
  Communication out;
  std::vector<Interval> compute;
  for (const model::EventFile& file : rank.events) {
    for (const model::EventFile::Entry& entry : file.events) {
      const auto op = file.ops.find(entry.event.op);
      if (op == file.ops.end() || static_cast<wire::Source>(entry.event.source) == wire::Source::host_call ||
          entry.event.begin_ns >= kLatestEventNs || entry.event.duration_ns >= kLatestEventNs) {
        continue;
      }
      const auto begin = static_cast<int64_t>(entry.event.begin_ns) + rank.offset_ns;
      const Interval one{begin, begin + static_cast<int64_t>(entry.event.duration_ns)};
      const auto op_class = static_cast<wire::OpClass>(op->second.key.op_class);
      const bool together =
          entry.communicator >= 0 && file.communicators[static_cast<size_t>(entry.communicator)].nranks > 1;
      if (op_class == wire::OpClass::collective && together) {
        out.all.push_back(one);
      } else if (is_compute(op_class)) {
        compute.push_back(one);
      }
    }
  }
  out.all = united(std::move(out.all));
  out.hidden = common_of(out.all, united(std::move(compute)));
  return out;
}

Communication of_threads(const RankSpans& spans, uint32_t thread) {
  Communication out;
  std::vector<Interval> exposed;
  for (const model::Span& span : spans.spans) {
    if (span.stage == model::Stage::communication) {
      out.all.push_back({span.begin_ns, end_of(span)});
      if (span.thread == thread) {
        exposed.push_back(out.all.back());
      }
    }
  }
  out.all = united(std::move(out.all));
  out.hidden = difference_of(out.all, united(std::move(exposed)));
  return out;
}

// Lengths of the parts of a set that lie in steps, which are asked for in order.
class PartsOf {
 public:
  explicit PartsOf(const std::vector<Interval>& set) : set_(set) {}

  int64_t in(int64_t begin, int64_t end) {
    while (at_ < set_.size() && set_[at_].end <= begin) {
      ++at_;
    }
    int64_t sum = 0;
    for (size_t i = at_; i < set_.size() && set_[i].begin < end; ++i) {
      sum += std::min(end, set_[i].end) - std::max(begin, set_[i].begin);
    }
    return sum;
  }

 private:
  const std::vector<Interval>& set_;
  size_t at_ = 0;
};

// Whether some collectives were not timed in a step. Steps are asked for in order.
class Untimed {
 public:
  explicit Untimed(const std::vector<Hole>& holes) : holes_(holes) {}

  bool in(int64_t begin, int64_t end) {
    while (next_ < holes_.size() && holes_[next_].begin_ns < end) {
      covered_ = std::max(covered_, holes_[next_++].end_ns);
    }
    return covered_ > begin;
  }

 private:
  const std::vector<Hole>& holes_;
  size_t next_ = 0;
  int64_t covered_ = std::numeric_limits<int64_t>::min();  // the latest end of the holes before `next_`
};

}  // namespace

void add_communication(const RankRecord& rank, const RankSpans& spans, uint32_t thread, RankSteps& out) {
  const Communication seen = rank.gpu.empty() ? of_threads(spans, thread) : of_gpu(rank);
  if (seen.all.empty()) {
    return;
  }
  PartsOf all(seen.all);
  PartsOf hidden(seen.hidden);
  Untimed untimed(out.holes);
  for (StepRecord& step : out.steps) {
    const int64_t end = step.begin_ns + step.duration_ns;
    if (!untimed.in(step.begin_ns, end)) {
      step.hidden_ns = hidden.in(step.begin_ns, end);
      step.exposed_ns = all.in(step.begin_ns, end) - step.hidden_ns;
    }
  }
}

}  // namespace xpurun::report
