// SlowdownHandler: the speed of the ranks while they run. When the job becomes slower: a line on the
// terminal, an event of --on-event and an entry in run.json. Event loop's thread only.
#pragma once

#include "launcher/journal/journal.h"
#include "launcher/speed/step_watch.h"

#include <functional>
#include <string>

namespace xpurun::launcher {

class SlowdownHandler {
 public:
  using Tell = std::function<void(const std::string& sentence)>;

  // `threshold`: as that of StepWatch. `tell` says the sentence and tells the event.
  SlowdownHandler(const EventLoop& loop, Journal& journal, double threshold, Tell tell)
      : loop_(loop),
        journal_(journal),
        tell_(std::move(tell)),
        watch_(threshold, [this](const auto& change, base::MonoNs begin) { became_slower(change, begin); }) {}
  SlowdownHandler(const SlowdownHandler&) = delete;
  SlowdownHandler& operator=(const SlowdownHandler&) = delete;

  StepWatch& watch() { return watch_; }
  const StepWatch& watch() const { return watch_; }

 private:
  void became_slower(model::StepChange change, base::MonoNs begin);

  const EventLoop& loop_;
  Journal& journal_;
  Tell tell_;
  StepWatch watch_;
};

}  // namespace xpurun::launcher
