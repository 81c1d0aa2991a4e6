#include "launcher/supervise/slowdown_handler.h"

#include "report/speed/wording.h"

namespace xpurun::launcher {

namespace {
constexpr size_t kMostSlowdowns = 1000;  // in run.json
constexpr double kLookS = 1;
}  // namespace

void SlowdownHandler::watch_silence(Silence silence) {
  silence_ = std::move(silence);
  silences_.emplace(silence_.hang_timeout_s);
}

void SlowdownHandler::add(base::Rank rank, uint64_t process, std::span<const model::Span> spans) {
  watch_.add(rank, process, spans);
  if (silences_ && timer_ == 0) {
    timer_ = loop_.after(kLookS, [this] { look(); });
  }
}

void SlowdownHandler::look() {
  timer_ = loop_.after(kLookS, [this] { look(); });
  const SilenceWatch::Seen seen{
      .steps = watch_.most_steps(), .step_s = watch_.step_s(), .last_end = watch_.last_end()};
  if (const auto seconds = silences_->look(seen, loop_.now(), silence_.recorded())) {
    silence_.silent(*seconds);
  }
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
  tell_(report::slower_sentence({}, change, {}, report::RanksCompared::not_compared));
}

}  // namespace xpurun::launcher
