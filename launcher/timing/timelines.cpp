#include "launcher/timing/timelines.h"

#include "common/base/output/log.h"

#include <fmt/format.h>

#include <utility>

namespace xpurun::launcher {

namespace {

constexpr size_t kKeptPeriods = 20;  // traces of every:T

// "steps:5-7" gives "steps-5-7".
std::string name_of(const TimelineSpec& spec) {
  std::string out = spec.text;
  for (char& c : out) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.';
    c = plain ? c : '-';
  }
  return out;
}

}  // namespace

void Timelines::tick() {
  if (plan_.empty()) {
    return;
  }
  if (!current_.empty() && session_.dir() != current_) {
    current_.clear();
    plan_.trace_ended();
  }
  TimelinePlan::Look look = hooks_.look();
  look.tracing = session_.active();
  const TimelinePlan::Action action = plan_.look(look);
  switch (action.kind) {
    case TimelinePlan::Action::Kind::none:
      break;
    case TimelinePlan::Action::Kind::start:
      start(action);
      break;
    case TimelinePlan::Action::Kind::end:
      current_.clear();
      session_.end(kTraceComplete);
      break;
    case TimelinePlan::Action::Kind::missed:
      base::log_warn("--timeline {} was not taken: its steps have passed while another trace was running",
                     action.spec.text);
      break;
  }
}

void Timelines::start(const TimelinePlan::Action& action) {
  const TimelineSpec spec = action.spec;
  session_.start({.count = action.count,
                  .start_wall_ns = action.start_wall_ns,
                  .kinds = spec.host ? kTraceGpu | kTraceHost : kTraceGpu,
                  .timeout_s = action.limit_s,
                  .name = name_of(spec),
                  .timeline = spec.text,
                  .count_is_limit = true},
                 [this, spec](const std::string& dir, const std::string& how) { ended(spec, dir, how); });
  current_ = session_.dir();
}

// A job that runs for weeks keeps the newest ones.
void Timelines::ended(const TimelineSpec& spec, const std::string& dir, const std::string& how) {
  base::log_info("--timeline {}: {} ({})", spec.text, dir, how);
  if (spec.kind != TimelineSpec::Kind::every) {
    return;
  }
  periodic_.push_back(dir);
  if (periodic_.size() <= kKeptPeriods) {
    return;
  }
  const std::string oldest = fmt::format("{}/{}", run_dir_, periodic_.front());
  periodic_.pop_front();
  for (const base::Rank rank : hooks_.ranks()) {
    storage_.remove(fmt::format("{}/rank-{}.xev", oldest, rank));
  }
  storage_.remove(oldest + "/trace.json");
  storage_.remove(oldest);
}

void Timelines::finish(bool gpu) {
  for (const TimelineSpec& spec : plan_.not_begun()) {
    const bool periodic = spec.kind == TimelineSpec::Kind::every;
    const std::string why = !gpu                  ? "no rank has used a GPU"
                            : periodic            ? "the job has ended before its time"
                            : plan_.counted() > 0 ? fmt::format("step {} was the last one", plan_.counted())
                                                  : "no step was seen";
    base::log_warn("--timeline {} was not taken: {}", spec.text, why);
  }
}

}  // namespace xpurun::launcher
