#include "report/speed/wording.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <cmath>

namespace xpurun::report {

namespace {

using model::SlowCause;
using model::Stage;

constexpr double kToldPause = 0.01;  // of the time

std::string in_place(const std::string& place) {
  return place.empty() ? "" : fmt::format(" ({})", place);
}

std::string stage_words(Stage stage) {
  switch (stage) {
    case Stage::forward:
      return "the forward pass";
    case Stage::backward:
      return "the backward pass";
    case Stage::optimizer:
      return "the optimizer";
    case Stage::data:
      return "the data loader";
    default:
      return "its own code between the stages";
  }
}

// ", and its GPU waits for work: calls start after 12 us there, after 2.1 ms on the others"
std::string starved_words(const Cause& cause, bool several) {
  return cause.launch_s < 0 ? ""
                            : fmt::format(
                                  ", and {} for work: calls start on the GPU after {}, on the other "
                                  "ranks after {}",
                                  several ? "their GPUs wait" : "its GPU waits",
                                  brief_seconds(cause.launch_s), brief_seconds(cause.others_launch_s));
}

// "it waits longer for the next batch (data.py:40)"
std::string reason(const Cause& cause, const std::string& place, bool several) {
  const std::string they = several ? "they" : "it";
  const std::string s = several ? "" : "s";
  switch (cause.kind) {
    case SlowCause::input:
      return fmt::format("{} wait{} longer for the next batch{}", they, s, in_place(place));
    case SlowCause::gc:
      return fmt::format("{} spend{} more time in Python's garbage collection", they, s);
    case SlowCause::cpu_contention:
      return fmt::format("{} {} ready to run and get{} no CPU", they, several ? "are" : "is", s);
    case SlowCause::gpu_compute:
      return fmt::format("the same matmuls take {} longer there", percent(cause.slowdown));
    case SlowCause::memory:
      return fmt::format("{} wait{} for memory pages from disk", they, s);
    case SlowCause::host_issue:
      return fmt::format("{} need{} longer in {}{}{}", they, s, stage_words(cause.stage), in_place(place),
                         starved_words(cause, several));
    case SlowCause::network:
      return "the collectives take longer after all ranks have arrived";
    case SlowCause::throttling:
      return "the GPU's clock is lowered";
    case SlowCause::checkpoint:
      return fmt::format("{} write{} checkpoints", they, s);
    case SlowCause::evaluation:
      return fmt::format("{} evaluate{} the model", they, s);
    case SlowCause::unknown:
      break;
  }
  return fmt::format("{} arrive{} after the others, the cause is not known", they, s);
}

std::string time_of_day(int64_t wall_ns) {
  const std::string text = base::utc_iso8601(wall_ns);  // "2026-11-23T14:03:07Z"
  return text.size() >= 19 ? text.substr(11, 8) + " UTC" : text;
}

std::string change_reason(const model::SpeedFinding& finding, const Cause& cause, RanksCompared compared) {
  if (!finding.ranks.empty()) {
    return fmt::format("rank{} {} became slow", finding.ranks.size() > 1 ? "s" : "", finding.ranks.brief());
  }
  constexpr std::array<std::string_view, 4> kWho = {"", "on all ranks, no rank stands out",
                                                    "most of it on all ranks", ""};
  const std::string out(kWho[static_cast<size_t>(compared)]);
  std::string why;
  switch (cause.kind) {
    case SlowCause::input:
      why = "the next batch comes later" + in_place(finding.place);
      break;
    case SlowCause::gc:
      why = "Python's garbage collection takes more time";
      break;
    case SlowCause::cpu_contention:
      why = "threads that are ready to run get no CPU";
      break;
    case SlowCause::network:
      why = "collectives take longer";
      break;
    default:
      why =
          cause.excess_s > 0 ? fmt::format("most of the time is added in {}", stage_words(cause.stage)) : "";
  }
  return out + (out.empty() || why.empty() ? "" : "; ") + why;
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

std::string slow_rank_sentence(const model::SpeedFinding& finding, const SlowRankWords& words) {
  const bool several = finding.ranks.size() > 1;
  std::string who = words.whole_host ? fmt::format("host {} (ranks {})", words.host, finding.ranks.brief())
                                     : fmt::format("rank{} {}", several ? "s" : "", finding.ranks.brief());
  if (!several && !words.host.empty()) {
    who += words.gpu.empty() ? fmt::format(" (host {})", words.host)
                             : fmt::format(" (host {}, GPU {})", words.host, words.gpu);
  }
  const std::string since = finding.since < 0 ? "" : fmt::format(" since step {}", grouped(finding.since));
  std::string out =
      fmt::format("{} cost{} every step {} ({}){}: {}{}", who, several && !words.whole_host ? "" : "s",
                  percent(finding.share), short_seconds(finding.lost_s), since,
                  words.only_part ? "mostly, " : "", reason(words.cause, finding.place, several));
  if (!words.others_wait_in.empty()) {
    out += fmt::format("; the others wait in {}", words.others_wait_in);
  }
  return out;
}

std::string slower_sentence(const model::SpeedFinding& finding, const model::StepChange& change,
                            const Cause& cause, RanksCompared compared) {
  const std::string when = change.wall_ns > 0 ? fmt::format(" ({})", time_of_day(change.wall_ns)) : "";
  const std::string why = change_reason(finding, cause, compared);
  return fmt::format("the job is {} slower since step {}{}, {} instead of {} a step{}{}",
                     percent(change.share), grouped(change.step), when, short_seconds(change.after_s),
                     short_seconds(change.before_s), why.empty() ? "" : ": ", why);
}

std::string cause_sentence(const model::SpeedFinding& finding, RanksCompared compared) {
  const std::string who = compared == RanksCompared::none_slow ? "all ranks; no rank stands out: " : "";
  return finding.cause == SlowCause::gc
             ? fmt::format("{}Python's garbage collection costs every step {} ({})", who,
                           percent(finding.share), short_seconds(finding.lost_s))
             : fmt::format("{}waiting for the next batch costs every step {} ({}){}", who,
                           percent(finding.share), short_seconds(finding.lost_s), in_place(finding.place));
}

std::string pause_sentence(const model::StagePause& pause) {
  const std::string place = pause.place.substr(0, pause.place.find(" ("));
  const std::string where =
      pause.name.empty() || place.empty() ? pause.name + place : fmt::format("{} at {}", pause.name, place);
  std::string out = fmt::format("{} of {}", name_of(pause.stage), short_seconds(pause.median_s));
  out += pause.count == 1   ? ", once"
         : pause.every == 1 ? " in every step"
                            : fmt::format(" every {} steps", grouped(pause.every));
  out += in_place(where) + fmt::format(", {} of the time", percent(pause.share));
  if (!pause.slow.empty()) {
    out += fmt::format("; rank{} {} need{} {}, the others {}", pause.slow.size() > 1 ? "s" : "",
                       pause.slow.brief(), pause.slow.size() > 1 ? "" : "s", short_seconds(pause.slow_s),
                       short_seconds(pause.others_s));
  }
  return out;
}

std::string slow_pause_sentence(const model::StagePause& pause) {
  const bool several = pause.slow.size() > 1;
  const std::string place = pause.place.empty() ? "" : " (" + pause.place + ")";
  return fmt::format("rank{} {} need{} {} for {} {}, the others {}{}", several ? "s" : "", pause.slow.brief(),
                     several ? "" : "s", short_seconds(pause.slow_s),
                     pause.stage == Stage::checkpoint ? "a" : "an", name_of(pause.stage),
                     short_seconds(pause.others_s), place);
}

std::string next_step(const model::SpeedFinding& finding) {
  switch (finding.cause) {
    case SlowCause::input:
      return "give the data loader more workers or move its work out of the training process";
    case SlowCause::gc:
      return "collect garbage at chosen steps (gc.disable, gc.collect), the same on all ranks, or gc.freeze "
             "after "
             "the set-up";
    case SlowCause::cpu_contention:
      return "look for other processes on the CPUs of these ranks, and for too small CPU limits";
    case SlowCause::gpu_compute:
      return "compare the GPUs' clocks, temperatures and power limits: nvidia-smi -q -d PERFORMANCE,CLOCK";
    case SlowCause::network:
      return "compare the links: nvidia-smi nvlink -s, ibstat, and NCCL_DEBUG=INFO";
    case SlowCause::memory:
      return "look at the free memory of the host and at the memory limit of the job";
    case SlowCause::host_issue:
      return "profile the named code on these ranks";
    case SlowCause::throttling:
      return "look at the cooling and at the power limit of the GPU";
    case SlowCause::checkpoint:
      return finding.ranks.empty() ? "write checkpoints in the background"
                                   : "compare the storage that these ranks write to with that of the others";
    case SlowCause::evaluation:
      return "compare the data that these ranks evaluate with that of the others";
    case SlowCause::unknown:
      break;
  }
  return "record a trace of the slow steps: xpurun ctl trace";
}

std::string summary_sentence(const model::SpeedReport& report) {
  if (report.source == model::StepSource::none) {
    return report.why.empty() ? "no stable step" : fmt::format("no stable step: {}", report.why);
  }
  for (const model::SpeedFinding& finding : report.findings) {
    if (finding.severity == model::SpeedSeverity::warning) {
      return finding.sentence;
    }
  }
  std::string out =
      fmt::format("{} steps of {}; nothing is slow", grouped(report.steps), short_seconds(report.step_s));
  for (const model::StagePause& pause : report.stage_pauses) {
    out += pause.share >= kToldPause ? "; " + pause.sentence : "";
  }
  return out;
}

}  // namespace xpurun::report
