#include "launcher/supervise/handlers/slowdown_handler.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/capture/capture_runner.h"
#include "report/speed/wording.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

namespace {
constexpr size_t kMostSlowdowns = 1000;  // in run.json
constexpr double kLookS = 1;
constexpr double kShortestS = 0.1;
constexpr double kLongestS = 60;
constexpr double kLeastLonger = 0.08;  // of the steps of a job on GPUs, to capture what makes them longer
constexpr double kTryS = 60;           // a capture that is under way is over by then
}  // namespace

void SlowdownHandler::add(base::Rank rank, uint64_t process, std::span<const model::Span> spans,
                          const std::vector<std::string>& names) {
  watch_.add(rank, process, spans);
  if (!watch_.uses_gpu()) {
    stragglers_.add(rank, spans, names);
  }
  if (!timer_.running() && (options_.slow_capture_s > 0 || options_.slow_capture_steps > 0)) {
    timer_.after(kLookS, [this] { look_for_silence(); });
  }
}

double SlowdownHandler::capture_s() const {
  return options_.slow_capture_steps > 0
             ? std::clamp(options_.slow_capture_steps * watch_.step_s(), kShortestS, kLongestS)
             : options_.slow_capture_s;
}

bool SlowdownHandler::steps_may_end() const {
  const std::vector<base::Rank> ranks = watch_.ranks();
  return std::any_of(ranks.begin(), ranks.end(), hooks_.lives);
}

// The job may become slower again during a capture.
void SlowdownHandler::capture_slow_steps() {
  const bool begun = steps_may_end() && hooks_.capture(capture_s(), kSlowReason);
  const bool given_up = !steps_may_end() || loop_.now() >= try_until_;
  try_until_ = begun || given_up ? 0 : try_until_;
  if (!begun && given_up) {
    captured();  // an earlier capture may show it
  }
}

void SlowdownHandler::look_for_silence() {
  timer_.after(kLookS, [this] { look_for_silence(); });
  if (try_until_ > 0) {
    capture_slow_steps();
  }
  const SilenceWatch::Seen seen{
      .steps = watch_.most_steps(), .step_s = watch_.step_s(), .last_end = watch_.last_end()};
  // A stall has dumps already and needs no capture.
  const bool recorded =
      hooks_.recorded() && steps_may_end() && std::as_const(journal_).open_stall() == nullptr;
  const auto silent_s = silences_.look(seen, loop_.now(), recorded);
  look_at_silence();
  look_for_straggler();
  if (silent_s) {
    silent_since_ = seen.last_end;
    look_from_ = loop_.now() + base::s_to_ns(capture_s());
  }
  if (silent_s && hooks_.capture(capture_s(), kSilenceReason)) {
    const base::Speaking speaking(options_.language);
    // The loop of the steps may be over, and its program go on.
    const int64_t ended_wall_ns = base::wall_ns() - (loop_.now() - seen.last_end);
    hooks_.say(base::tr("the last step ended {} ago, at {}; steps usually take {}; the next {} are captured",
                        base::human_duration(*silent_s), report::time_of_day(ended_wall_ns),
                        report::short_seconds(seen.step_s), base::human_duration(capture_s())));
  }
}

// On a GPU, the arrivals at collectives show who is late.
void SlowdownHandler::look_for_straggler() {
  if (watch_.uses_gpu()) {
    return;
  }
  std::map<base::Rank, StragglerWatch::Steps> steps;
  for (const base::Rank rank : watch_.ranks()) {
    const auto seen = watch_.rank(rank);
    steps[rank] = {seen.steps, seen.step_s};
  }
  const auto found = stragglers_.look(steps);
  if (const base::Rank over = stragglers_.take_over(); over != base::kNoRank) {
    no_longer_slow(over);
  }
  if (found) {
    found_slow_rank(found->rank, found->share);
  }
}

// What the ranks do is told once the capture is over, and until a stall is open or a step ends.
void SlowdownHandler::look_at_silence() {
  if (silent_since_ == 0 || loop_.now() < look_from_) {
    return;
  }
  if (watch_.last_end() != silent_since_ || std::as_const(journal_).open_stall() != nullptr) {
    silent_since_ = 0;
    return;
  }
  hooks_.look_for_stall();
}

void SlowdownHandler::found_slow_rank(base::Rank rank, double share) {
  if (loop_.now() < quiet_until_) {
    hooks_.was_chance();
    stragglers_.forget();
    return;
  }
  slow_ranks_.insert(rank);
  const bool known_by_slowdown = slower_ && alarm_ && alarm_->rank == rank;
  if (!timer_.running() || try_until_ > 0 || known_by_slowdown) {
    return;  // no captures are wanted, or one waits that will show the rank
  }
  alarm_ = {.rank = rank};
  auto& known = journal_.manifest().awaited_ranks;
  if (known.size() < kMostSlowdowns) {
    known.push_back({.rank = rank, .at_s = journal_.elapsed_s(), .share = share});
    journal_.changed();
  }
  again_s_ = kFirstAgainS;
  const auto sentence = [&] {
    return base::tr("rank {} keeps the others waiting for {} of each step", rank, report::percent(share));
  };
  hooks_.slower(sentence(), slow_ranks_);
  const bool has_capture = captured_longer_ || slower_;
  const bool begun = !has_capture && steps_may_end() && hooks_.capture(capture_s(), kSlowReason);
  {
    const base::Speaking speaking(options_.language);
    hooks_.say(sentence() +
               (begun ? base::tr("; the next {} are captured", base::human_duration(capture_s())) : ""));
  }
  if (has_capture) {
    captured();
  } else if (!begun) {
    try_until_ = loop_.now() + base::s_to_ns(kTryS);
  }
}

void SlowdownHandler::no_longer_slow(base::Rank rank) {
  slow_ranks_ = slow_ranks_.minus({rank});
  if (!alarm_ || alarm_->rank != rank) {
    return;
  }
  clear_awaited_rank();
  const base::Speaking speaking(options_.language);
  const std::string line = base::tr("rank {} no longer keeps the others waiting", rank);
  if (alarm_->confirmed) {
    hooks_.say(line);
    alarm_.reset();
  } else {
    take_back(line);
  }
}

void SlowdownHandler::captured() {
  if (unexplained_ || (alarm_ && !alarm_->confirmed)) {
    hooks_.judge();
  }
}

// More steps may confirm what these do not. Else the rank is no longer slow one day, or the job ends.
void SlowdownHandler::judged(const model::Verdict& verdict) {
  const bool open_alarm = alarm_ && !alarm_->confirmed;
  if (!open_alarm && !unexplained_) {
    return;
  }
  const base::Speaking speaking(options_.language);
  if (verdict.kind != model::VerdictKind::slow || verdict.ranks.empty()) {
    judge_again_.after(again_s_, [this] { captured(); });
    again_s_ *= 2;
    return;
  }
  unexplained_ = false;
  if (!open_alarm) {
    alarm_ = {.rank = verdict.ranks.lowest(), .confirmed = true};
    slow_ranks_ = verdict.ranks;
    hooks_.slower(verdict.headline, slow_ranks_);
    hooks_.say(base::tr("confirmed: {}", verdict.headline));
  } else if (verdict.ranks.contains(alarm_->rank)) {
    alarm_->confirmed = true;
    hooks_.say(base::tr("confirmed: {}", verdict.headline));
  } else {
    take_back(base::tr("not rank {}: {}", alarm_->rank, verdict.headline));
    slow_ranks_ = verdict.ranks;
  }
}

// A job that ended otherwise has a verdict of its own, and its steps were not judged.
void SlowdownHandler::ended(const model::Verdict& verdict) {
  const bool steps_judged =
      verdict.kind == model::VerdictKind::none || verdict.kind == model::VerdictKind::slow;
  if (alarm_ && !alarm_->confirmed && steps_judged && !verdict.ranks.contains(alarm_->rank)) {
    const base::Speaking speaking(options_.language);
    take_back(watch_.most_steps() > 0
                  ? base::tr("not confirmed: the steps of the whole run do not show that rank {} is slow",
                             alarm_->rank)
                  : base::tr("not confirmed: no capture shows what rank {} does longer than the others, and "
                             "no steps are known",
                             alarm_->rank));
  }
}

void SlowdownHandler::clear_awaited_rank() {
  auto& known = journal_.manifest().awaited_ranks;
  if (!known.empty() && known.back().cleared_s < 0) {
    known.back().cleared_s = journal_.elapsed_s();
    journal_.changed();
  }
}

void SlowdownHandler::take_back(const std::string& line) {
  hooks_.say(line);
  clear_awaited_rank();
  alarm_.reset();
  judge_again_.stop();
  slow_ranks_ = {};
  hooks_.was_chance();
  stragglers_.forget();
  quiet_until_ = loop_.now() + base::s_to_ns(quiet_s_);
  quiet_s_ *= 2;
}

// By too little to be told. A later analysis may find the rank, and only a capture shows where it spends the
// time.
void SlowdownHandler::take_longer(double share) {
  hooks_.longer();
  if (share < kLeastLonger || captured_longer_ || !watch_.uses_gpu() || !timer_.running()) {
    return;
  }
  captured_longer_ = true;
  try_until_ = loop_.now() + base::s_to_ns(kTryS);
  capture_slow_steps();
}

void SlowdownHandler::became_slower(model::StepChange change, base::MonoNs begin) {
  change.wall_ns = begin > 0 ? base::wall_ns() - (loop_.now() - begin) : 0;
  auto& known = journal_.manifest().slowdowns;
  if (known.size() < kMostSlowdowns) {
    known.push_back({.at_s = journal_.elapsed_s(),
                     .step = change.step,
                     .wall_ns = change.wall_ns,
                     .before_s = change.before_s,
                     .after_s = change.after_s,
                     .share = change.share});
    journal_.changed();
  }
  const std::string sentence = report::slower_sentence({}, change, {}, report::RanksCompared::not_compared);
  slower_ = unexplained_ = true;
  again_s_ = kFirstAgainS;
  hooks_.say(sentence);
  hooks_.changed();
  hooks_.slower(sentence, {});
  try_until_ = loop_.now() + base::s_to_ns(kTryS);
  capture_slow_steps();
}

// Ends all open slowdowns: a job may have become slower several times.
void SlowdownHandler::became_as_fast(const model::StepChange& change) {
  for (model::Slowdown& known : journal_.manifest().slowdowns) {
    if (known.cleared_s < 0) {
      known.cleared_s = journal_.elapsed_s();
      known.cleared_step = change.step;
    }
  }
  slower_ = unexplained_ = false;
  if (alarm_) {
    no_longer_slow(alarm_->rank);
  }
  slow_ranks_ = {};
  try_until_ = 0;
  journal_.changed();
}

}  // namespace xpurun::launcher
