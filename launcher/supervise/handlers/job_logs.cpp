#include "launcher/supervise/handlers/job_logs.h"

#include "common/wire/logs.h"
#include "launcher/spawn/environment.h"

#include <utility>

namespace xpurun::launcher {

base::Status JobLogs::start(std::vector<std::string>& env, const std::string& run_dir, LinePrefix prefix,
                            std::function<void(base::Pid)> helper_started) {
  relay_.emplace(loop_, std::move(helper_started));
  auto variable = relay_->start(run_dir + "/ranks", prefix);
  if (!variable) {
    relay_.reset();
    return base::fail(std::move(variable.error()));
  }
  env = with_variable(std::move(env), wire::kLogsEnv, *variable);
  return {};
}

void JobLogs::finish(std::function<void()> done) {
  relay_ ? relay_->finish(std::move(done)) : done();
}

bool JobLogs::give_up() {
  if (relay_) {
    relay_->give_up();
  }
  return relay_.has_value();
}

}  // namespace xpurun::launcher
