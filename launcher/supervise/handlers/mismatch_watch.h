// MismatchWatch: compares the recorded calls of the ranks while the job runs. Ranks that make different calls
// need not hang: NCCL lets some of them meet, and the results are wrong from then on. Event loop's thread
// only.
#pragma once

#include "common/base/tr.h"
#include "common/model/collectives.h"
#include "launcher/os/timer.h"
#include "report/diagnosis/collectives/call_finding.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace xpurun::launcher {

class MismatchWatch {
 public:
  struct Hooks {
    std::function<model::CollectiveFacts()> calls;
    // Keeps the calls of the first mismatch for the verdict.
    std::function<void(const model::CollectiveFacts&)> keep;
    std::function<void(const std::string& sentence, const model::RankSet& ranks)> report;  // English
    std::function<void(const std::string&)> say;
  };

  MismatchWatch(EventLoop& loop, base::Language language, Hooks hooks)
      : loop_(loop), timer_(loop), language_(language), hooks_(std::move(hooks)) {}
  MismatchWatch(const MismatchWatch&) = delete;
  MismatchWatch& operator=(const MismatchWatch&) = delete;

  void start() { look_after(kShortestS); }
  void stop() { timer_.stop(); }
  // Says a mismatch of a communicator that two looks in a row have found, once for each communicator. Those
  // that were said do not hide others.
  void look();
  // The job has ended, and its calls do not change any more.
  void finish();
  // Communicators with a mismatch so far.
  size_t found() const { return said_.size(); }

 private:
  static constexpr double kShortestS = 1;
  // A look takes at most one part in this number of the time.
  static constexpr double kShare = 200;
  // Until the second look after one that has found a mismatch.
  static constexpr double kAgainS = 0.1;

  struct Seen {
    report::CallFinding found;
    model::CollectiveFacts calls;
  };

  void look_after(double seconds);

  void say(const report::CallFinding& found, const model::CollectiveFacts& calls);

  EventLoop& loop_;
  Timer timer_;
  base::Language language_;
  Hooks hooks_;
  std::optional<Seen> seen_;  // by the latest look, not said
  std::vector<model::VerdictCollective> said_;
};

}  // namespace xpurun::launcher
