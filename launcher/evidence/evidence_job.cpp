#include "launcher/evidence/evidence_job.h"

#include "common/base/output/log.h"

#include <utility>

namespace xpurun::launcher {

void EvidenceJob::start(const EvidenceRequest& request, Done done) {
  give_up("a newer dump needs its evidence");
  done_ = std::move(done);
  std::vector<std::string> argv = evidence_words(request);
  argv.insert(argv.begin(), setup_.program);
  auto helper = HelperProcess::start(argv, setup_.signal_mask, setup_.stderr_fd);
  if (!helper) {
    base::log_warn("no evidence: {}", base::to_line(helper.error()));
    deadline_.after(0, [this] { finish(); });
    return;
  }
  helper_ = std::move(*helper);
  // The request is in the arguments and the results are files, so neither pipe is needed.
  helper_.close_input();
  helper_.close_output();
  if (setup_.started) {
    setup_.started(helper_.pid());
  }
  set_deadline(setup_.loop.now() + base::s_to_ns(request.limit_s + setup_.kill_after_limit_s));
}

void EvidenceJob::hurry(double seconds) {
  if (busy()) {
    const base::MonoNs then = setup_.loop.now() + base::s_to_ns(seconds);
    if (then < deadline_at_) {
      set_deadline(then);
    }
  }
}

void EvidenceJob::set_deadline(base::MonoNs when) {
  deadline_.stop();
  deadline_at_ = when;
  deadline_.at(when, [this] { give_up("the helper has not ended in time"); });
}

void EvidenceJob::give_up(const std::string& why) {
  if (busy()) {
    base::log_info("evidence is incomplete: {}", why);
    helper_.kill();
    finish();
  }
}

bool EvidenceJob::helper_ended(base::Pid pid, base::WaitStatus status) {
  if (helper_.pid() <= 0 || pid != helper_.pid()) {
    return false;
  }
  helper_.forget();
  if (!status.succeeded()) {
    base::log_info("evidence is incomplete: the helper {}", status.text());
  }
  finish();
  return true;
}

void EvidenceJob::finish() {
  deadline_.stop();
  // A killed helper still has to be reaped, but by then this job has released it.
  helper_ = HelperProcess();
  if (const Done done = std::exchange(done_, nullptr)) {
    done();
  }
}

}  // namespace xpurun::launcher
