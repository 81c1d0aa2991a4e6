#include "report/pipeline/jobs/call_jobs.h"

#include <algorithm>

namespace xpurun::report {

namespace {

using Kind = PipelineCall::Kind;

// The shortest forward job must be this many times longer than the longest remaining time between calls.
constexpr int64_t kStandsOut = 2;
// Sends and receives of a micro-batch: two each, and as many for the shapes of tensors.
constexpr size_t kMostCallsOfBatch = 8;

struct Step {
  std::vector<Job> between;  // before a send or a backward
  size_t backwards = 0;
  size_t point_to_point = 0;
  bool overlaps = false;  // a send or receive inside of a backward
};

void take_forwards(Step& step, std::vector<Job>& out) {
  const size_t n = step.backwards;
  if (n == 0 || step.overlaps || step.between.size() < n || step.point_to_point == 0 ||
      step.point_to_point > kMostCallsOfBatch * n) {
    return;
  }
  const auto length = [](const Job& j) { return j.end_ns - j.begin_ns; };
  std::stable_sort(step.between.begin(), step.between.end(),
                   [&](const Job& a, const Job& b) { return length(a) > length(b); });
  const int64_t shortest = length(step.between[n - 1]);
  const int64_t rest = n < step.between.size() ? length(step.between[n]) : 0;
  if (shortest > 0 && shortest >= kStandsOut * rest) {
    out.insert(out.end(), step.between.begin(), step.between.begin() + static_cast<std::ptrdiff_t>(n));
  }
}

}  // namespace

bool end_with_sends(const std::vector<Job>& forwards, const std::vector<PipelineCall>& calls) {
  size_t sent = 0;
  auto call = calls.begin();
  for (const Job& forward : forwards) {
    while (call != calls.end() && call->begin_ns < forward.end_ns) {
      ++call;
    }
    sent += call != calls.end() && call->begin_ns == forward.end_ns && call->kind == Kind::send ? 1 : 0;
  }
  return 2 * sent > forwards.size();
}

std::vector<Job> forwards_between(const std::vector<PipelineCall>& calls) {
  std::vector<Job> out;
  Step step;
  int64_t free_since = calls.empty() ? 0 : calls.front().begin_ns;
  int64_t backward_until = 0;
  for (const PipelineCall& call : calls) {
    const bool exchange = call.kind == Kind::send || call.kind == Kind::receive;
    if ((call.kind == Kind::send || call.kind == Kind::backward) && call.begin_ns > free_since) {
      step.between.push_back(
          {.begin_ns = free_since, .end_ns = call.begin_ns, .kind = model::JobKind::forward});
    }
    step.backwards += call.kind == Kind::backward ? 1 : 0;
    step.point_to_point += exchange ? 1 : 0;
    step.overlaps = step.overlaps || (exchange && call.begin_ns < backward_until);
    backward_until = call.kind == Kind::backward ? std::max(backward_until, call.end_ns) : backward_until;
    free_since = std::max(free_since, call.end_ns);
    if (call.kind == Kind::optimizer) {
      take_forwards(step, out);
      step = {};
    }
  }
  take_forwards(step, out);
  put_in_order(out);
  return out;
}

}  // namespace xpurun::report
