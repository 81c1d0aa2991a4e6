#include "report/diagnosis/ends/interruption.h"

#include <csignal>

namespace xpurun::report {

namespace {

// From the signal to an end with status 0, in seconds: a checkpoint may be written in between.
constexpr double kSoonS = 60;
// The terminal signals the ranks and xpurun at the same moment, a scheduler nearly so. Seconds.
constexpr double kSameMomentS = 1;

}  // namespace

bool ended_by_interrupt(const model::RunManifest& run) {
  if (run.outcome == model::RunOutcome::interrupted) {
    return true;
  }
  return run.outcome == model::RunOutcome::exit && run.child_status.succeeded() &&
         run.interrupt.signal != 0 && run.interrupt.at_s >= 0 && run.elapsed_s - run.interrupt.at_s <= kSoonS;
}

bool after_interrupt(const model::RunManifest& run, const Ending& e) {
  return run.interrupt.signal != 0 && run.interrupt.at_s >= 0 && e.at_s >= run.interrupt.at_s - kSameMomentS;
}

bool by_sigint(const Ending& e) {
  return e.raised() ? !e.exception->chain.empty() && e.exception->chain.front().type == "KeyboardInterrupt"
                    : e.signal == SIGINT;
}

}  // namespace xpurun::report
