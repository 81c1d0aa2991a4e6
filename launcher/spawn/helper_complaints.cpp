#include "launcher/spawn/helper_complaints.h"

#include "common/base/os/program.h"
#include "common/base/output/log.h"
#include "common/base/strings.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {
constexpr size_t kLongestLine = 4096;
}

HelperComplaints::HelperComplaints(EventLoop& loop) : loop_(loop) {
  auto pipe = base::make_pipe();
  if (!pipe) {
    return;
  }
  read_ = std::move(pipe->read_end);
  write_ = std::move(pipe->write_end);
  ::fcntl(read_.get(), F_SETFL, O_NONBLOCK);
  (void)loop_.add(read_.get(), EPOLLIN, [this](uint32_t) { read_all(); });
}

HelperComplaints::~HelperComplaints() {
  if (read_) {
    loop_.remove(read_.get());
  }
}

void HelperComplaints::read_all() {
  char buf[4096];
  for (ssize_t n; read_ && (n = ::read(read_.get(), buf, sizeof buf)) > 0;) {
    pending_.append(buf, static_cast<size_t>(n));
    for (size_t end; (end = pending_.find('\n')) != std::string::npos || pending_.size() > kLongestLine;) {
      last_ = base::sanitize(std::string_view(pending_).substr(0, end));
      pending_.erase(0, end == std::string::npos ? end : end + 1);
      base::log_info("{}", last_);
    }
  }
}

std::string HelperComplaints::last_line() {
  read_all();
  return last_;
}

}  // namespace xpurun::launcher
