// SlowdownHandler: watches the speed of the running ranks. When the job becomes slower, it writes a line on
// the terminal, an event of --on-event and an entry in run.json, which is completed when the job is as fast
// as before. A slowdown or a silence of the steps starts a capture. Event loop's thread only.
#pragma once

#include "common/model/verdict.h"
#include "launcher/journal/journal.h"
#include "launcher/options/run_options.h"
#include "launcher/os/timer.h"
#include "launcher/speed/silence_watch.h"
#include "launcher/speed/step_watch.h"
#include "launcher/speed/straggler_watch.h"

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace xpurun::launcher {

class SlowdownHandler {
 public:
  static constexpr double kFirstAgainS = 20;  // until steps are judged again that did not confirm

  struct Hooks {
    // Reports the event. The ranks that keep the others waiting, if known.
    std::function<void(const std::string& sentence, const model::RankSet& ranks)> slower;
    std::function<void(const std::string& line)> say;
    std::function<void()> changed = [] {};  // the steps take another time
    std::function<void()> longer = [] {};   // the steps take longer, by less than --slow-threshold
    std::function<bool()> recorded;         // ends of steps are being recorded at the moment
    std::function<bool(base::Rank)> lives;  // the process of the rank has not ended
    // Captures the job for this duration. Returns whether a capture has begun.
    std::function<bool(double seconds, std::string_view reason)> capture;
    std::function<void()> look_for_stall = [] {};  // a silence goes on: who stands still is a stall now
    std::function<void()> judge = [] {};           // makes a verdict on the steps so far, for judged()
    std::function<void()> was_chance = [] {};      // the rank of found_slow_rank() is not slow
  };
  SlowdownHandler(EventLoop& loop, Journal& journal, const RunOptions& options, Hooks hooks)
      : loop_(loop),
        journal_(journal),
        options_(options),
        hooks_(std::move(hooks)),
        watch_(
            options.slow_threshold,
            [this](const auto& change, base::MonoNs begin) { became_slower(change, begin); },
            [this](const auto& change, base::MonoNs /*begin*/) { became_as_fast(change); },
            [this](double share) { take_longer(share); }),
        silences_(options.hang_timeout_s) {}
  SlowdownHandler(const SlowdownHandler&) = delete;
  SlowdownHandler& operator=(const SlowdownHandler&) = delete;

  // `names`: of the groups of spans, by their indexes.
  void add(base::Rank rank, uint64_t process, std::span<const model::Span> spans,
           const std::vector<std::string>& names);
  // A rank has kept the others waiting from the first steps on.
  void found_slow_rank(base::Rank rank, double share);
  // It does not any more.
  void no_longer_slow(base::Rank rank);
  // A capture that began by itself is over.
  void captured();
  // The verdict on the steps so far confirms what was said of a rank, or not.
  void judged(const model::Verdict& verdict);
  // The verdict on the whole job, before it is printed.
  void ended(const model::Verdict& verdict);
  // Those of found_slow_rank().
  const model::RankSet& slow_ranks() const { return slow_ranks_; }
  StepWatch& watch() { return watch_; }
  const StepWatch& watch() const { return watch_; }

 private:
  void became_slower(model::StepChange change, base::MonoNs begin);
  void became_as_fast(const model::StepChange& change);
  void take_longer(double share);
  void capture_slow_steps();
  bool steps_may_end() const;  // a rank that made steps lives
  void look_for_silence();
  void look_at_silence();
  void look_for_straggler();
  double capture_s() const;  // length of a capture
  void take_back(const std::string& line);
  void clear_awaited_rank();

  static constexpr double kFirstQuietS = 30;

  EventLoop& loop_;
  Journal& journal_;
  const RunOptions& options_;
  Hooks hooks_;
  StepWatch watch_;
  SilenceWatch silences_;
  StragglerWatch stragglers_;
  Timer timer_{loop_};
  model::RankSet slow_ranks_;
  // What was said of a rank, and must be confirmed or taken back.
  struct Alarm {
    base::Rank rank = base::kNoRank;
    bool confirmed = false;
  };
  std::optional<Alarm> alarm_;
  Timer judge_again_{loop_};
  double again_s_ = kFirstAgainS;  // until the steps are judged again
  base::MonoNs quiet_until_ = 0;   // no rank is spoken of: the latest ones were so by chance
  double quiet_s_ = kFirstQuietS;  // the next such pause
  bool slower_ = false;            // a slowdown was told and is not over
  bool unexplained_ = false;       // no verdict has said which rank causes it
  base::MonoNs silent_since_ = 0;  // the end of the last step before the silence; 0: there is none
  base::MonoNs look_from_ = 0;     // the capture of the silence is over by then
  bool captured_longer_ = false;   // slow steps of which nothing was told
  base::MonoNs try_until_ = 0;     // a capture of slow steps waits for the end of another one; 0: none waits
};

}  // namespace xpurun::launcher
