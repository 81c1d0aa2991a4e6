#include "launcher/capture/capture_runner.h"

#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "common/model/json_fields.h"
#include "launcher/evidence/clock_helper.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace xpurun::launcher {

namespace {

constexpr double kShortestCaptureS = 0.1;
constexpr double kPatienceS = 2;      // without an answer from the disk
constexpr double kTimeToWriteS = 20;  // in addition to the capture itself
constexpr double kTimeToBeginS = 10;  // until CUPTI records
// Timed calls of each rank; more are left out.
constexpr uint32_t kMostCalls = 100'000;
// Timing of all calls may cost some per cent of a step.
constexpr double kMostTraceS = 3;
// Longest recording by CUPTI in an automatic capture.
constexpr double kMostSlowActivityS = 3;

double number_at(const nlohmann::json& j, const char* key, double fallback) {
  const auto found = j.find(key);
  return found == j.end() ? fallback : found->is_number() ? found->get<double>() : -1;
}

}  // namespace

base::Result<CaptureRequest> capture_request_from(const nlohmann::json& j, double step_s) {
  CaptureRequest out{.reason = "request"};
  out.seconds = number_at(j, "duration_s", out.seconds);
  if (const double steps = number_at(j, "steps", 0); steps != 0) {
    if (!(steps >= 1)) {
      return base::fail("\"steps\" must be 1 or more");
    }
    if (step_s <= 0) {
      return base::fail("no step of this job was seen yet; give a duration instead of steps");
    }
    out.seconds = std::clamp(steps * step_s, kShortestCaptureS, kLongestCaptureS);
  }
  if (!(out.seconds >= kShortestCaptureS && out.seconds <= kLongestCaptureS)) {
    return base::fail(fmt::format("\"duration_s\" must be {} to {}", kShortestCaptureS, kLongestCaptureS));
  }
  const double rate = number_at(j, "rate", out.rate);
  if (!(rate >= 1 && rate <= 1000)) {
    return base::fail("\"rate\" must be 1 to 1000");
  }
  out.rate = static_cast<int>(rate);
  if (const nlohmann::json* ranks = model::member(j, "ranks")) {
    const auto set = ranks->is_string() ? model::RankSet::parse(ranks->get_ref<const std::string&>())
                                        : std::optional<model::RankSet>();
    if (!set || set->empty()) {
      return base::fail("\"ranks\" must be a list of ranks, such as \"2\" or \"0-3,7\"");
    }
    out.ranks = *set;
  }
  return out;
}

base::Result<std::string> CaptureRunner::start(CaptureRequest request, Done done) {
  if (busy()) {
    return base::fail("a capture is not finished");
  }
  hooks_.save_run();
  const std::string dir = fmt::format("captures/{}", ++count_);
  current_.emplace(Current{std::move(request), dir, std::move(done)});
  parts_.storage.make_dirs(run_dir_ + "/" + dir);
  parts_.storage.when_written(kPatienceS, [this, number = count_](Written how) {
    if (!current_ || number != count_) {
      return;
    }
    if (how == Written::all) {
      begin();
    } else {
      finish(how == Written::stalled ? std::string("the file system does not answer")
                                     : parts_.storage.problem());
    }
  });
  return dir;
}

// While the job is slow, so that an analysis can show where the time goes.
bool CaptureRunner::capture_by_itself(double seconds, std::string_view reason) {
  if (seconds <= 0 || !budget_.allows(parts_.loop.now()) ||
      !start({.seconds = seconds, .reason = std::string(reason)},
             [this](const std::string&, const std::string&) { hooks_.captured(); })) {
    return false;
  }
  budget_.use(parts_.loop.now());
  return true;
}

// CUPTI takes a second to begin, and up to five in a rank that does not answer. The Python stacks of a
// requested capture are sampled while it records. In a slow job the timed calls are traced first, and a job
// in which no step ends may end soon.
void CaptureRunner::begin() {
  deadline_.after(current_->request.seconds + kTimeToBeginS + kTimeToWriteS, [this] {
    helper_.kill();
    clocks_.kill();
    finish("the recording does not end");
  });
  const bool gpu = hooks_.uses_gpu() && !parts_.activity.active();
  const std::string& reason = current_->request.reason;
  if (!gpu || reason == kSlowReason || reason == kSilenceReason) {
    begin_recorder();
  }
  if (gpu && current_) {
    begin_gpu();
  }
}

void CaptureRunner::begin_recorder() {
  current_->recorder_begun = true;
  const CaptureRequest& request = current_->request;
  std::vector<std::string> words{
      program_,     "record",
      "--run",      run_dir_,
      "--workers",  "--quiet",
      "--duration", fmt::format("{}ms", static_cast<int64_t>(request.seconds * 1000)),
      "--rate",     fmt::format("{}", request.rate),
      "--reason",   request.reason,
      "--format",   "json",
      "--out",      fmt::format("{}/{}/profile.json", run_dir_, current_->dir)};
  if (!request.ranks.empty()) {
    words.insert(words.end(), {"--ranks", request.ranks.text()});
  }
  auto helper = HelperProcess::start(words, mask_, stderr_fd_);
  if (!helper) {
    finish(base::to_line(helper.error()));
    return;
  }
  helper_ = std::move(*helper);
  helper_.close_input();
  helper_.close_output();
  hooks_.started(helper_.pid());
  if (hooks_.uses_gpu()) {
    current_->clocks_done = !begin_clocks();
  }
}

// Its failure is no failure of the capture.
bool CaptureRunner::begin_clocks() {
  std::vector<std::string> words =
      clock_words(current_->request.seconds, fmt::format("{}/{}/clocks.json", run_dir_, current_->dir));
  words.insert(words.begin(), program_);
  auto helper = HelperProcess::start(words, mask_, stderr_fd_);
  if (!helper) {
    base::log_info("no clocks: {}", base::to_line(helper.error()));
    return false;
  }
  clocks_ = std::move(*helper);
  clocks_.close_input();
  clocks_.close_output();
  hooks_.started(clocks_.pid());
  return true;
}

// When the job has become slower, the analysis also wants the timed calls. They come first: timing all calls
// would show in CUPTI's records.
void CaptureRunner::begin_gpu() {
  current_->gpu_done = false;
  if (current_->request.reason != kSlowReason || parts_.trace.active()) {
    begin_activity(current_->request.seconds);
    return;
  }
  trace_calls([this, number = count_](const std::string&, const std::string&) {
    if (current_ && number == count_) {
      begin_activity(std::min(current_->request.seconds, kMostSlowActivityS));
    }
  });
}

void CaptureRunner::begin_activity(double seconds) {
  const CaptureRequest& request = current_->request;
  parts_.activity.start({.seconds = seconds,
                         .directory = fmt::format("{}/{}", run_dir_, current_->dir),
                         .ranks = request.ranks,
                         .recording =
                             [this, number = count_] {
                               if (current_ && number == count_ && !current_->recorder_begun) {
                                 begin_recorder();
                               }
                             }},
                        [this, number = count_](const model::GpuCapture& result) {
                          if (current_ && number == count_) {
                            activity_ended(result);
                          }
                        });
}

void CaptureRunner::activity_ended(const model::GpuCapture& result) {
  const bool all = std::all_of(result.ranks.begin(), result.ranks.end(),
                               [](const model::RankActivity& r) { return r.has_records(); });
  const bool was_traced = current_->request.reason == kSlowReason;
  if ((!all || result.ranks.empty()) && current_->request.ranks.empty() && !was_traced &&
      !parts_.trace.active()) {
    trace_calls({});
  }
  parts_.storage.when_written(kPatienceS, [this, number = count_](Written) {
    if (current_ && number == count_) {
      current_->gpu_done = true;
      finish_if_complete();
    }
  });
}

void CaptureRunner::trace_calls(TraceSession::Ended ended) {
  parts_.trace.start({.count = kMostCalls,
                      .timeout_s = std::min(current_->request.seconds, kMostTraceS),
                      .name = fmt::format("capture-{}", count_),
                      .count_is_limit = true},
                     std::move(ended));
}

void CaptureRunner::finish_if_complete() {
  if (current_->recorded && current_->gpu_done && current_->clocks_done) {
    finish("");
  }
}

bool CaptureRunner::helper_ended(base::Pid pid, base::WaitStatus status) {
  if (clocks_.pid() > 0 && pid == clocks_.pid()) {
    clocks_.forget();
    if (current_) {
      current_->clocks_done = true;
      finish_if_complete();
    }
    return true;
  }
  if (helper_.pid() <= 0 || pid != helper_.pid()) {
    return false;
  }
  helper_.forget();
  if (current_ && !status.succeeded()) {
    finish(fmt::format("the process that records {}", status.text()));
  } else if (current_) {
    current_->recorded = true;
    finish_if_complete();
  }
  return true;
}

void CaptureRunner::finish(const std::string& problem) {
  deadline_.stop();
  const Current ended = std::move(*std::exchange(current_, std::nullopt));
  if (!problem.empty()) {
    base::log_info("no capture: {}", problem);
  }
  if (ended.done) {
    ended.done(ended.dir, problem);
  }
}

}  // namespace xpurun::launcher
