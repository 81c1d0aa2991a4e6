#include "launcher/capture/capture_runner.h"

#include "common/base/output/log.h"
#include "common/base/strings.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace xpurun::launcher {

namespace {

constexpr double kShortestCaptureS = 0.1;
constexpr int kMostSlowCaptures = 3;
constexpr double kPatienceS = 2;      // without an answer of the disk
constexpr double kTimeToWriteS = 20;  // in addition to the capture itself
// Timed calls of each rank; more are left out.
constexpr uint32_t kMostCalls = 100'000;

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

// While the job is slow, so that an analysis can say where the time goes.
void CaptureRunner::job_is_slower(double seconds) {
  if (seconds > 0 && slow_count_ < kMostSlowCaptures && start({.seconds = seconds, .reason = "slow"}, {})) {
    ++slow_count_;
  }
}

void CaptureRunner::begin() {
  const CaptureRequest& request = current_->request;
  auto helper =
      HelperProcess::start({program_, "record", "--run", run_dir_, "--workers", "--quiet", "--duration",
                            fmt::format("{}ms", static_cast<int64_t>(request.seconds * 1000)), "--rate",
                            fmt::format("{}", request.rate), "--reason", request.reason, "--format", "json",
                            "--out", fmt::format("{}/{}/profile.json", run_dir_, current_->dir)},
                           mask_, stderr_fd_);
  if (!helper) {
    finish(base::to_line(helper.error()));
    return;
  }
  helper_ = std::move(*helper);
  helper_.close_input();
  helper_.close_output();
  hooks_.started(helper_.pid());
  if (hooks_.uses_gpu() && !parts_.trace.active()) {
    parts_.trace.start(
        {.count = kMostCalls, .timeout_s = request.seconds, .name = fmt::format("capture-{}", count_)}, {});
  }
  deadline_ = parts_.loop.after(request.seconds + kTimeToWriteS, [this] {
    helper_.kill();
    finish("the recording does not end");
  });
}

bool CaptureRunner::helper_ended(base::Pid pid, base::WaitStatus status) {
  if (helper_.pid() <= 0 || pid != helper_.pid()) {
    return false;
  }
  helper_.forget();
  if (current_) {
    finish(status.succeeded() ? "" : fmt::format("the process that records {}", status.text()));
  }
  return true;
}

void CaptureRunner::finish(const std::string& problem) {
  parts_.loop.cancel(deadline_);
  const Current ended = std::move(*std::exchange(current_, std::nullopt));
  if (!problem.empty()) {
    base::log_info("no capture: {}", problem);
  }
  if (ended.done) {
    ended.done(ended.dir, problem);
  }
}

}  // namespace xpurun::launcher
