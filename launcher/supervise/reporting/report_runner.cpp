#include "launcher/supervise/reporting/report_runner.h"

#include "common/base/output/log.h"
#include "common/model/json_fields.h"
#include "common/model/language/verdict_translation.h"
#include "report/run/collect.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sys/epoll.h>
#include <unistd.h>
#include <utility>

namespace xpurun::launcher {

namespace {

constexpr double kDeadlineS = 60;
// Time from killing the process until xpurun continues without it.
constexpr double kLastWaitS = 1;
// Longest wait for the disk.
constexpr double kPatienceS = 2;
constexpr size_t kLongestVerdict = size_t{4} << 20;

// The verdict is one line of JSON, the first output of the process.
void read_verdict(const std::string& output, ReportResult& result) {
  const auto j = model::parse_json(output.substr(0, output.find('\n')));
  if (!j.is_object()) {
    return;
  }
  if (auto verdict = model::verdict_from_json(j)) {
    result.spoken = model::translated(*verdict, j);
    result.verdict = std::move(*verdict);
  }
}

}  // namespace

ReportRunner::ReportRunner(Parts parts, std::string run_dir, sigset_t mask)
    : loop_(parts.loop),
      storage_(parts.storage),
      complaints_(parts.complaints),
      run_dir_(std::move(run_dir)),
      mask_(mask) {}

ReportRunner::~ReportRunner() {
  if (reading_) {
    loop_.remove(helper_.output());
  }
}

void ReportRunner::set_handlers(std::function<void(base::Pid)> started,
                                std::function<void(const ReportResult&)> ended, std::function<void()> done) {
  started_ = std::move(started);
  ended_ = std::move(ended);
  done_ = std::move(done);
}

void ReportRunner::request() {
  if (busy()) {
    again_ = true;
    return;
  }
  again_ = false;
  waiting_ = true;
  storage_.when_written(kPatienceS, [this, round = ++round_](Written how) {
    if (waiting_ && round == round_) {
      written(how);
    }
  });
}

void ReportRunner::written(Written how) {
  if (how == Written::all) {
    start();
  } else if (how == Written::stalled) {
    finish(fmt::format("the file system of {} does not answer", run_dir_));
  } else {
    // The process would find an old run.json, or none.
    finish(storage_.problem());
  }
}

void ReportRunner::start() {
  output_.clear();
  has_verdict_ = !judged_;
  complaints_.forget_last_line();
  std::vector<std::string> argv = {program_,
                                   "report",
                                   run_dir_,
                                   "--quiet",
                                   "--json",
                                   options_.source ? "--source" : "--no-source",
                                   options_.shared ? "--share=group" : "--share=private",
                                   fmt::format("--lang={}", base::name_of(options_.language))};
  if (options_.of_steps) {
    argv.emplace_back("--steps-only");
  } else if (!options_.page) {
    argv.emplace_back("--verdict-only");
  }
  auto helper = HelperProcess::start(argv, mask_, complaints_.fd());
  if (!helper) {
    finish(base::to_line(helper.error()));
    return;
  }
  waiting_ = false;
  helper_ = std::move(*helper);
  helper_.close_input();
  reading_ = loop_.add(helper_.output(), EPOLLIN, [this](uint32_t) { read_output(); }).has_value();
  started_(helper_.pid());
  deadline_.after(kDeadlineS, [this] { expire(); });
}

void ReportRunner::read_output() {
  char buf[16384];
  ssize_t n = 0;
  while ((n = ::read(helper_.output(), buf, sizeof buf)) > 0) {
    if (output_.size() < kLongestVerdict) {
      output_.append(buf, static_cast<size_t>(n));
    }
  }
  if (n == 0 && std::exchange(reading_, false)) {
    loop_.remove(helper_.output());
  }
  report_verdict();
}

// Reports the verdict before the process ends, because the page may take seconds longer.
void ReportRunner::report_verdict() {
  if (has_verdict_ || output_.find('\n') == std::string::npos) {
    return;
  }
  has_verdict_ = true;
  ReportResult result{.unfinished = true};
  read_verdict(output_, result);
  if (result.verdict) {
    judged_(result);
  }
}

void ReportRunner::expire() {
  const std::string why =
      fmt::format("it takes longer than {} s; later: xpurun report {}", kDeadlineS, run_dir_);
  helper_.kill();
  // SIGKILL has no effect on a process in uninterruptible sleep (a stalled disk), so the wait for its end is
  // bounded.
  deadline_.after(kLastWaitS, [this, why] { give_up(why); });
}

void ReportRunner::give_up(const std::string& why) {
  if (busy()) {
    helper_.kill();
    finish(why);
  }
}

bool ReportRunner::helper_ended(base::Pid pid, base::WaitStatus status) {
  if (helper_.pid() <= 0 || pid != helper_.pid()) {
    return false;
  }
  helper_.forget();
  has_verdict_ = true;  // the verdict is part of the result
  read_output();
  std::string problem;
  if (!status.succeeded()) {
    const std::string said = complaints_.last_line();
    problem = said.empty() ? fmt::format("the process that makes it {}", status.text()) : said;
  }
  finish(std::move(problem));
  return true;
}

void ReportRunner::finish(std::string problem) {
  deadline_.stop();
  waiting_ = false;
  if (std::exchange(reading_, false)) {
    loop_.remove(helper_.output());
  }
  helper_ = HelperProcess();
  if (!problem.empty()) {
    base::log_info("no report: {}", problem);
  }
  ReportResult result{.problem = std::move(problem)};
  read_verdict(std::exchange(output_, {}), result);
  ended_(result);
  if (again_) {
    request();
  } else if (!busy()) {
    done_();
  }
}

}  // namespace xpurun::launcher
