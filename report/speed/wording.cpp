#include "report/speed/wording.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/language/vocabulary_words.h"

#include <fmt/format.h>

#include <cmath>

namespace xpurun::report {

namespace {

using base::later;
using base::tr;
using model::SlowCause;
using model::Stage;
using model::word_of;

constexpr double kToldPause = 0.01;  // of the time

std::string in_place(const std::string& place) {
  return place.empty() ? "" : tr(" ({})", place);
}

std::string stage_words(Stage stage) {
  switch (stage) {
    case Stage::forward:
      return tr("the forward pass");
    case Stage::backward:
      return tr("the backward pass");
    case Stage::optimizer:
      return tr("the optimizer");
    case Stage::data:
      return tr("the data loader");
    default:
      return tr("the code between the stages");
  }
}

// ", and its GPU waits for work: calls start after 12 us there, after 2.1 ms on the others"
std::string starved_words(const Cause& cause, bool several) {
  if (cause.launch_s < 0) {
    return "";
  }
  const std::string here = brief_seconds(cause.launch_s);
  const std::string there = brief_seconds(cause.others_launch_s);
  return several ? tr(", and their GPUs wait for work: calls start on the GPU after {}, on the other ranks "
                      "after {}",
                      here, there)
                 : tr(", and its GPU waits for work: calls start on the GPU after {}, on the other ranks "
                      "after {}",
                      here, there);
}

// "the container's CPU limit throttled it 31 % of the time"
std::string taker_words(const Cause& cause, bool several) {
  const std::string share = percent(cause.taken);
  return cause.taker == CpuTaker::limit
             ? (several ? tr("the container's CPU limit throttled them {} of the time", share)
                        : tr("the container's CPU limit throttled it {} of the time", share))
             : (several ? tr("the hypervisor took {} of their CPU time", share)
                        : tr("the hypervisor took {} of its CPU time", share));
}

// "it has 104 matmuls a step, 96 before"
std::string matmul_words(const Cause& cause, bool several) {
  const std::string here = fmt::format("{:.0f}", cause.matmuls);
  const std::string usual = fmt::format("{:.0f}", cause.usual_matmuls);
  if (cause.graphs) {
    return cause.usual_is_before
               ? (several ? tr("they replay CUDA graphs {} times a step each, {} before", here, usual)
                          : tr("it replays CUDA graphs {} times a step, {} before", here, usual))
               : (several
                      ? tr("they replay CUDA graphs {} times a step each, the other ranks {}", here, usual)
                      : tr("it replays CUDA graphs {} times a step, the other ranks {}", here, usual));
  }
  if (cause.usual_is_before) {
    return several ? tr("they have {} matmuls a step each, {} before", here, usual)
                   : tr("it has {} matmuls a step, {} before", here, usual);
  }
  return several ? tr("they have {} matmuls a step each, the other ranks {}", here, usual)
                 : tr("it has {} matmuls a step, the other ranks {}", here, usual);
}

// "it computes 3.0 times as long in the forward and backward pass (train.py:12), with the CPU busy all the
// time"
std::string compute_words(const Cause& cause, const std::string& place, bool several) {
  const std::string times = fmt::format("{:.1f}", cause.computes);
  return (several
              ? tr("they compute {} times as long in the forward and backward pass{}", times, in_place(place))
              : tr("it computes {} times as long in the forward and backward pass{}", times,
                   in_place(place))) +
         (cause.cpu_busy ? tr(", with the CPU busy all the time") : "");
}

// "it waits longer for the next batch (data.py:40)"
std::string reason(const Cause& cause, const std::string& place, bool several) {
  switch (cause.kind) {
    case SlowCause::input:
      return several ? tr("they wait longer for the next batch{}", in_place(place))
                     : tr("it waits longer for the next batch{}", in_place(place));
    case SlowCause::gc:
      return several ? tr("they spend more time in Python's garbage collection")
                     : tr("it spends more time in Python's garbage collection");
    case SlowCause::cpu_contention:
      if (cause.taker != CpuTaker::others) {
        return taker_words(cause, several);
      }
      return several ? tr("they are ready to run and get no CPU") : tr("it is ready to run and gets no CPU");
    case SlowCause::gpu_compute:
      return cause.graphs ? tr("the same CUDA graphs take {} longer there", percent(cause.slowdown))
                          : tr("the same matmuls take {} longer there", percent(cause.slowdown));
    case SlowCause::more_work:
      if (cause.matmuls >= 0) {
        return matmul_words(cause, several);
      }
      if (cause.graphs) {
        return several ? tr("they replay other CUDA graphs than the other ranks")
                       : tr("it replays other CUDA graphs than the other ranks");
      }
      return several ? tr("they have matmuls of other shapes than the other ranks")
                     : tr("it has matmuls of other shapes than the other ranks");
    case SlowCause::memory:
      return several ? tr("they wait for memory pages from disk") : tr("it waits for memory pages from disk");
    case SlowCause::host_issue:
      if (cause.reads > 0) {
        const std::string times = fmt::format("{:.0f}", cause.reads);
        return several ? tr("they wait {} times a step for a value from the GPU{}", times, in_place(place))
                       : tr("it waits {} times a step for a value from the GPU{}", times, in_place(place));
      }
      if (cause.computes > 0) {
        return compute_words(cause, place, several);
      }
      return several ? tr("they need longer in {}{}{}", stage_words(cause.stage), in_place(place),
                          starved_words(cause, several))
                     : tr("it needs longer in {}{}{}", stage_words(cause.stage), in_place(place),
                          starved_words(cause, several));
    case SlowCause::network:
      return tr("the collectives take longer after all ranks have arrived");
    case SlowCause::throttling:
      return tr("the GPU's clock is lowered");
    case SlowCause::gpu_shared:
      return tr("another program computes on the GPU");
    case SlowCause::checkpoint:
      return (several ? tr("they write checkpoints") : tr("it writes checkpoints")) + in_place(place);
    case SlowCause::evaluation:
      return (several ? tr("they evaluate the model") : tr("it evaluates the model")) + in_place(place);
    case SlowCause::unknown:
      break;
  }
  // A capture may tell the cause (report/build/speed/capture_causes.h); else that says that it is not known.
  return several ? tr("they arrive after the others") : tr("it arrives after the others");
}

std::string change_reason(const model::SpeedFinding& finding, const Cause& cause, RanksCompared compared) {
  if (!finding.ranks.empty()) {
    return finding.ranks.size() > 1 ? tr("ranks {} became slow", finding.ranks.brief())
                                    : tr("rank {} became slow", finding.ranks.brief());
  }
  constexpr std::array<std::string_view, 4> kWho = {"", later("all ranks alike"),
                                                    later("all ranks, some more than others"), ""};
  const std::string out = tr(kWho[static_cast<size_t>(compared)]);
  std::string why;
  switch (cause.kind) {
    case SlowCause::input:
      why = tr("the next batch arrives later") + in_place(finding.place);
      break;
    case SlowCause::gc:
      why = tr("Python's garbage collection takes more time");
      break;
    case SlowCause::cpu_contention:
      why = cause.taker == CpuTaker::others ? tr("threads that are ready to run get no CPU")
                                            : taker_words(cause, true);
      break;
    case SlowCause::more_work:
      why = tr("each rank calls {:.0f} collectives a step, {:.0f} before{}", cause.calls, cause.usual_calls,
               in_place(finding.place));
      break;
    case SlowCause::network:
      why = tr("collectives take longer");
      break;
    case SlowCause::gpu_compute:
      why = tr("the same matmuls take {} longer than before", percent(cause.slowdown));
      break;
    case SlowCause::memory:
      why = tr("the ranks wait for memory pages from disk");
      break;
    case SlowCause::host_issue:
      why =
          tr("the GPUs wait for work: calls start on the GPU after {}, before after {}; most of the time is "
             "added in {}",
             brief_seconds(cause.launch_s), brief_seconds(cause.others_launch_s), stage_words(cause.stage));
      break;
    default:
      why = cause.excess_s > 0 ? tr("most of the additional time is in {}", stage_words(cause.stage)) : "";
  }
  if (cause.no_cpu_s > 0) {
    why += tr("; threads that are ready to run have no CPU for {} of a step, {} before",
              short_seconds(cause.no_cpu_s), short_seconds(cause.no_cpu_before_s));
  }
  return out + (out.empty() || why.empty() ? "" : tr("; ")) + why;
}

// "rank 1 was slow in the forward pass (model.py:30 (forward))"
std::string spell_of_ranks(const model::SpeedFinding& finding, const Cause& cause) {
  std::string slow = finding.ranks.size() == 1 ? tr("rank {} was slow", finding.ranks.brief())
                                               : tr("ranks {} were slow", finding.ranks.brief());
  switch (cause.kind) {
    case SlowCause::input:
    case SlowCause::host_issue:
      return tr("{} in {}{}", slow, stage_words(cause.stage), in_place(finding.place));
    case SlowCause::gc:
      return tr("{} in Python's garbage collection", slow);
    default:
      return slow;
  }
}

std::string after_the_end(const model::SpeedFinding& finding) {
  return finding.function.empty()
             ? tr("no capture shows the function: run the job again, with xpurun capture "
                  "while the rank is slow")
             : tr("look at {}: the table of the capture has the stack that calls it, for "
                  "each rank",
                  finding.function);
}

std::string since_words(const model::SpeedFinding& finding) {
  const std::string when =
      finding.since_wall_ns > 0 ? fmt::format(" ({})", time_of_day(finding.since_wall_ns)) : "";
  return finding.since < 0 ? "" : tr(" since step {}{}", grouped(finding.since), when);
}

}  // namespace

std::string short_seconds(double seconds) {
  const double ms = seconds * 1e3;
  const double size = std::abs(ms);
  return size < 0.05     ? "0"
         : size < 9.95   ? fmt::format("{:.1f} ms", ms)
         : size < 999.5  ? fmt::format("{:.0f} ms", ms)
         : size < 9995.0 ? fmt::format("{:.2f} s", seconds)
                         : fmt::format("{:.1f} s", seconds);
}

std::string brief_seconds(double seconds) {
  return seconds > 0 && seconds < 1e-3 ? fmt::format("{:.3g} us", seconds * 1e6) : short_seconds(seconds);
}

std::string grouped(int64_t number) {
  std::string out = fmt::format("{}", number);
  for (size_t at = out.size(); at > 3 && out[at - 4] != '-';) {
    at -= 3;
    out.insert(at, ",");
  }
  return out;
}

std::string percent(double share) {
  return fmt::format("{:.0f} %", share * 100);
}

std::string time_of_day(int64_t wall_ns) {
  const std::string text = base::utc_iso8601(wall_ns);  // "2026-11-23T14:03:07Z"
  return text.size() >= 19 ? text.substr(11, 8) + " UTC" : text;
}

std::string call_words(const std::string& call, const std::string& place) {
  return call.empty() ? "" : call + in_place(place);
}

std::string late_words(const model::RankSet& ranks, double share) {
  return tr("rank {} keeps the others waiting for {} of the time", ranks.brief(), percent(share));
}

std::string slow_rank_sentence(const model::SpeedFinding& finding, const SlowRankWords& words) {
  const bool several = finding.ranks.size() > 1;
  std::string who = words.whole_host ? tr("host {} (ranks {})", words.host, finding.ranks.brief())
                    : several        ? tr("ranks {}", finding.ranks.brief())
                                     : tr("rank {}", finding.ranks.brief());
  if (!several && !words.host.empty()) {
    who += words.gpu.empty() ? tr(" (host {})", words.host) : tr(" (host {}, GPU {})", words.host, words.gpu);
  }
  std::string out =
      tr("{} cost{} {} of every step ({}){}: {}{}", who, several && !words.whole_host ? "" : "s",
         percent(finding.share), short_seconds(finding.lost_s), since_words(finding),
         words.only_part ? tr("mostly, ") : "", reason(words.cause, finding.place, several));
  if (!words.others_wait_in.empty()) {
    out += tr("; the others wait in {}", words.others_wait_in);
  }
  if (words.shown_until >= 0) {
    out += tr("; the steps before step {} show it", grouped(words.shown_until));
  }
  return out;
}

std::string slower_sentence(const model::SpeedFinding& finding, const model::StepChange& change,
                            const Cause& cause, RanksCompared compared) {
  const std::string when = change.wall_ns > 0 ? fmt::format(" ({})", time_of_day(change.wall_ns)) : "";
  const std::string why = change_reason(finding, cause, compared);
  return tr("the job has been {} slower since step {}{}: {} instead of {} per step{}{}",
            percent(change.share), grouped(change.step), when, short_seconds(change.after_s),
            short_seconds(change.before_s), why.empty() ? "" : tr(": "), why);
}

std::string spell_sentence(const model::SpeedFinding& finding, const SpellWords& words) {
  const double lost_s =
      (words.during_s - words.before_s) * static_cast<double>(finding.until - finding.since);
  const std::string who = finding.ranks.empty() ? change_reason(finding, words.cause, words.compared)
                                                : spell_of_ranks(finding, words.cause);
  return tr(
      "the job was {} slower from step {} to step {} ({} to {}): {} instead of {} per step, {} in all{}",
      percent(words.during_s / words.before_s - 1), grouped(finding.since), grouped(finding.until),
      time_of_day(finding.since_wall_ns), time_of_day(finding.until_wall_ns), short_seconds(words.during_s),
      short_seconds(words.before_s), short_seconds(lost_s), who.empty() ? "" : tr(": {}", who));
}

std::string pattern_sentence(const model::SpeedFinding& finding, const StepPattern& pattern) {
  const std::string slow = short_seconds(pattern.slow_s);
  const std::string usual = short_seconds(pattern.usual_s);
  if (finding.ranks.empty()) {
    return tr("every {}th step takes {} instead of {}", pattern.period, slow, usual) + since_words(finding);
  }
  return (finding.ranks.size() == 1 ? tr("rank {} is slow in every {}th step: {} instead of {}",
                                         finding.ranks.brief(), pattern.period, slow, usual)
                                    : tr("ranks {} are slow in every {}th step: {} instead of {}",
                                         finding.ranks.brief(), pattern.period, slow, usual)) +
         since_words(finding) +
         (finding.cause == SlowCause::unknown
              ? std::string()
              : tr("; ") + reason({.kind = finding.cause}, finding.place, finding.ranks.size() > 1));
}

std::string cause_sentence(const model::SpeedFinding& finding, RanksCompared compared) {
  const std::string who = compared == RanksCompared::none_slow ? tr("all ranks alike: ") : "";
  return finding.cause == SlowCause::gc
             ? tr("{}Python's garbage collection costs {} of every step ({})", who, percent(finding.share),
                  short_seconds(finding.lost_s))
             : tr("{}waiting for the next batch costs {} of every step ({}){}", who, percent(finding.share),
                  short_seconds(finding.lost_s), in_place(finding.place));
}

std::string lost_cpu_sentence(const model::SpeedFinding& finding, const Cause& cause) {
  const std::string share = percent(cause.taken);
  const std::string lost = short_seconds(finding.lost_s);
  return cause.taker == CpuTaker::limit
             ? tr("the container's CPU limit throttles all ranks {} of the time ({} of a step)", share, lost)
             : tr("the hypervisor takes {} of the CPU time of all ranks ({} of a step)", share, lost);
}

std::string pause_sentence(const model::StagePause& pause) {
  const std::string where = pause.name.empty() || pause.place.empty()
                                ? pause.name + pause.place
                                : tr("{} at {}", pause.name, pause.place);
  const std::string often = pause.count == 1   ? tr(", once")
                            : pause.every == 1 ? tr(" in every step")
                                               : tr(" every {} steps", grouped(pause.every));
  const std::string in = where.empty()      ? ""
                         : pause.call_s > 0 ? tr(", {} of them in {}", short_seconds(pause.call_s), where)
                                            : tr(", in {}", where);
  std::string out = tr("{} of {}{}{}, {} of the time", word_of(pause.stage), short_seconds(pause.median_s),
                       often, in, percent(pause.share));
  if (!pause.slow.empty()) {
    const std::string slow = short_seconds(pause.slow_s);
    const std::string others = short_seconds(pause.others_s);
    out += pause.slow.size() > 1 ? tr("; ranks {} need {}, the others {}", pause.slow.brief(), slow, others)
                                 : tr("; rank {} needs {}, the others {}", pause.slow.brief(), slow, others);
  }
  return out;
}

std::string slow_pause_sentence(const model::StagePause& pause) {
  const bool several = pause.slow.size() > 1;
  const std::string place = in_place(pause.place);
  return tr("{} need{} {} for {} {}, the others {}{}",
            several ? tr("ranks {}", pause.slow.brief()) : tr("rank {}", pause.slow.brief()),
            several ? "" : "s", short_seconds(pause.slow_s), pause.stage == Stage::checkpoint ? "a" : "an",
            word_of(pause.stage), short_seconds(pause.others_s), place);
}

std::string void_words(const model::RankSet& ranks, double share, double others, const std::string& dir) {
  return ranks.size() > 1 ? tr("no work ran on their GPUs {} of the time, on the others {} ({})",
                               percent(share), percent(others), dir)
                          : tr("no work ran on its GPU {} of the time, on the others {} ({})", percent(share),
                               percent(others), dir);
}

std::string what_if_words(const model::CauseShare& cause) {
  const std::string part = percent(cause.share);
  switch (cause.cause) {
    case SlowCause::input:
      return tr("a step takes {} less without the wait for the next batch", part);
    case SlowCause::gc:
      return tr("a step takes {} less without Python's garbage collection", part);
    case SlowCause::cpu_contention:
      return tr("a step takes {} less if threads that are ready to run get a CPU", part);
    case SlowCause::gpu_compute:
      return tr("a step takes {} less if the slow GPUs are as fast as the others", part);
    case SlowCause::more_work:
      return tr("a step takes {} less if all ranks have equal work", part);
    case SlowCause::network:
      return tr("a step takes {} less if collectives are as fast as usual", part);
    case SlowCause::memory:
      return tr("a step takes {} less without memory pages from disk", part);
    case SlowCause::host_issue:
      return tr("a step takes {} less without the additional time of the program on the CPU", part);
    case SlowCause::throttling:
      return tr("a step takes {} less without the lowered clock", part);
    case SlowCause::gpu_shared:
      return tr("a step takes {} less without the other program on the GPU", part);
    case SlowCause::checkpoint:
      return tr("a step takes {} less without checkpoints", part);
    case SlowCause::evaluation:
      return tr("a step takes {} less without evaluations", part);
    case SlowCause::unknown:
      break;
  }
  return tr("a step takes {} less if no rank is late", part);
}

std::string next_step(const model::SpeedFinding& finding, JobState state) {
  switch (finding.cause) {
    case SlowCause::input:
      return tr("give the data loader more workers or move its work out of the training process");
    case SlowCause::gc:
      return tr(
          "collect garbage at chosen steps (gc.disable, gc.collect), the same on all ranks, or gc.freeze "
          "after the set-up");
    case SlowCause::cpu_contention:
      return tr("look for other processes on the CPUs of these ranks, and for CPU limits that are too small");
    case SlowCause::gpu_compute:
      return tr(
          "compare the GPUs' clocks, temperatures and power limits: nvidia-smi -q -d PERFORMANCE,CLOCK");
    case SlowCause::more_work:
      if (finding.ranks.empty()) {
        return tr("call fewer collectives: one for several values, or not in every step");
      }
      return tr("compare the batches of the ranks: number of samples, length of the sequences");
    case SlowCause::network:
      return tr("compare the links: nvidia-smi nvlink -s, ibstat, and NCCL_DEBUG=INFO");
    case SlowCause::memory:
      return tr("look at the free memory of the host and at the memory limit of the job");
    case SlowCause::host_issue:
      if (state == JobState::ended) {
        return after_the_end(finding);
      }
      return tr(
          "see the functions and lines of each rank: xpurun analyze, or xpurun capture while the job runs");
    case SlowCause::throttling:
      return tr("check the cooling and the power limit of the GPU");
    case SlowCause::gpu_shared:
      return tr("end the other program, or give each program a GPU of its own: nvidia-smi shows all of them");
    case SlowCause::checkpoint:
      return finding.ranks.empty() || finding.period > 0
                 ? tr("write checkpoints in the background")
                 : tr("compare the storage that these ranks write to with that of the others");
    case SlowCause::evaluation:
      return tr("compare the data that these ranks evaluate with that of the others");
    case SlowCause::unknown:
      break;
  }
  if (state == JobState::ended) {
    return finding.function.empty()
               ? tr("run the job again with --timeline every:2m, which traces ten steps of all ranks")
               : after_the_end(finding);
  }
  return tr(
      "record a trace of slow steps while the job runs: xpurun ctl trace, or start the job with --timeline");
}

std::string clock_words(const model::SpeedReport& report) {
  switch (report.clock) {
    case model::ClockSource::gpu:
      return tr(", by the GPU's clock");
    case model::ClockSource::windows:
      return tr(", means of {:.0f} steps", report.clock_steps);
    default:
      return "";
  }
}

std::string summary_sentence(const model::SpeedReport& report) {
  if (report.source == model::StepSource::none) {
    return report.why.empty() ? tr("no stable step") : tr("no stable step: {}", tr(report.why));
  }
  for (const model::SpeedFinding& finding : report.findings) {
    if (finding.severity == model::SpeedSeverity::warning) {
      return finding.sentence;
    }
  }
  std::string out =
      tr("{} steps of {}; nothing is slow", grouped(report.steps), short_seconds(report.step_s));
  for (const model::SpeedFinding& finding : report.findings) {
    out += finding.period > 0 ? tr("; ") + finding.sentence : "";
  }
  for (const model::StagePause& pause : report.stage_pauses) {
    out += pause.share >= kToldPause ? tr("; ") + pause.sentence : "";
  }
  return out;
}

}  // namespace xpurun::report
