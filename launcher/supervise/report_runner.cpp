#include "launcher/supervise/report_runner.h"

#include "common/base/log.h"

namespace xpurun::launcher {

namespace {
constexpr double kDeadlineS = 60;
}

ReportRunner::ReportRunner(EventLoop& loop, std::string run_dir, sigset_t mask)
    : loop_(loop), run_dir_(std::move(run_dir)), mask_(mask) {}

void ReportRunner::set_handlers(std::function<void(base::Pid)> started, std::function<void()> ended,
                                std::function<void()> done) {
  started_ = std::move(started);
  ended_ = std::move(ended);
  done_ = std::move(done);
}

void ReportRunner::request() {
  if (busy()) {
    again_ = true;
  } else {
    start();
  }
}

void ReportRunner::start() {
  again_ = false;
  // The link, not what it points to: xpurun may have been installed anew since this run began.
  auto helper = HelperProcess::start({"/proc/self/exe", "report", run_dir_, "--quiet"}, mask_, stderr_fd_);
  if (!helper) {
    base::log_warn("no report: {}", base::to_line(helper.error()));
    loop_.after(0, [this] {
      ended_();
      done_();
    });
    return;
  }
  helper_ = std::move(*helper);
  helper_.close_input();
  helper_.close_output();
  started_(helper_.pid());
  deadline_ = loop_.after(kDeadlineS, [this] {
    base::log_warn("the report takes longer than {} s: given up; later: xpurun report {}", kDeadlineS,
                   run_dir_);
    helper_.kill();
  });
}

bool ReportRunner::helper_ended(base::Pid pid, base::WaitStatus status) {
  if (!busy() || pid != helper_.pid()) {
    return false;
  }
  loop_.cancel(deadline_);
  helper_.forget();
  if (!status.succeeded()) {
    base::log_warn("the report failed ({}); see xpurun.log in {}", status.text(), run_dir_);
  }
  ended_();
  if (again_) {
    start();
  } else {
    done_();
  }
  return true;
}

}  // namespace xpurun::launcher
