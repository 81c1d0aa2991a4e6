// SlowdownHandler: the speed of the ranks while they run. When the job becomes slower: a line on the
// terminal, an event of --on-event and an entry in run.json. When no step ends for far longer than usual, it
// says so too, for a capture. Event loop's thread only.
#pragma once

#include "launcher/journal/journal.h"
#include "launcher/os/event_loop.h"
#include "launcher/speed/silence_watch.h"
#include "launcher/speed/step_watch.h"

#include <functional>
#include <optional>
#include <span>
#include <string>

namespace xpurun::launcher {

class SlowdownHandler {
 public:
  using Tell = std::function<void(const std::string& sentence)>;

  // `threshold`: as that of StepWatch. `tell` says the sentence and tells the event.
  SlowdownHandler(EventLoop& loop, Journal& journal, double threshold, Tell tell)
      : loop_(loop),
        journal_(journal),
        tell_(std::move(tell)),
        watch_(threshold, [this](const auto& change, base::MonoNs begin) { became_slower(change, begin); }) {}
  ~SlowdownHandler() { loop_.cancel(timer_); }
  SlowdownHandler(const SlowdownHandler&) = delete;
  SlowdownHandler& operator=(const SlowdownHandler&) = delete;

  struct Silence {
    double hang_timeout_s = 0;
    std::function<bool()> recorded;              // the ends of steps are seen at this moment
    std::function<void(double seconds)> silent;  // no step has ended for so long; once per silence
  };
  // Without it, nothing looks for silence.
  void watch_silence(Silence silence);

  void add(base::Rank rank, uint64_t process, std::span<const model::Span> spans);
  StepWatch& watch() { return watch_; }
  const StepWatch& watch() const { return watch_; }

 private:
  void became_slower(model::StepChange change, base::MonoNs begin);

  void look();

  EventLoop& loop_;
  Journal& journal_;
  Tell tell_;
  StepWatch watch_;
  Silence silence_;
  std::optional<SilenceWatch> silences_;
  EventLoop::TimerId timer_ = 0;
};

}  // namespace xpurun::launcher
