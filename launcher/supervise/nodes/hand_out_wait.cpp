#include "launcher/supervise/nodes/hand_out_wait.h"

namespace xpurun::launcher {

namespace {

// The caller waits for the exit status. Usually the archives are handed out within a fraction of a second.
constexpr double kHandOutAfterTheEndS = 3;

}  // namespace

void HandOutWait::expect(const std::string& request) {
  request_ = request;
  look();
}

void HandOutWait::command_ended() {
  ended_ = true;
  look();
}

void HandOutWait::look() {
  if (ended_ && !request_.empty() && !timer_.running()) {
    timer_.after(kHandOutAfterTheEndS, [this] { end(); });
  }
}

void HandOutWait::done(const std::string& request) {
  if (request == request_) {
    lost();
  }
}

void HandOutWait::lost() {
  request_.clear();
  if (active()) {
    end();
  }
}

void HandOutWait::end() {
  request_.clear();
  timer_.stop();
  loop_.after(0, [over = over_] { over(); });
}

}  // namespace xpurun::launcher
