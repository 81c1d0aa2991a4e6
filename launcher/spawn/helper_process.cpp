#include "launcher/spawn/helper_process.h"

#include "common/base/os/program.h"
#include "launcher/spawn/environment.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace xpurun::launcher {

HelperProcess::HelperProcess(HelperProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      input_(std::move(other.input_)),
      output_(std::move(other.output_)) {}

HelperProcess& HelperProcess::operator=(HelperProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(input_, other.input_);
  std::swap(output_, other.output_);
  return *this;
}

base::Result<HelperProcess> HelperProcess::start(const std::vector<std::string>& argv,
                                                 const sigset_t& signal_mask, int stderr_fd) {
  XPURUN_TRY_ASSIGN(base::Pipe in, base::make_pipe());
  XPURUN_TRY_ASSIGN(base::Pipe out, base::make_pipe());
  ::fcntl(out.read_end.get(), F_SETFL, O_NONBLOCK);
  HelperProcess helper;
  XPURUN_TRY_ASSIGN(helper.pid_, base::start_program({.path = argv.at(0),
                                                      .argv = argv,
                                                      .env = current_environment(),
                                                      .in = in.read_end.get(),
                                                      .out = out.write_end.get(),
                                                      .err = stderr_fd,
                                                      .own_group = true,
                                                      .signal_mask = signal_mask}));
  helper.input_ = std::move(in.write_end);
  helper.output_ = std::move(out.read_end);
  return helper;
}

// A helper that waits for a dead file system cannot be killed, so that the wait is bounded.
void HelperProcess::wait_briefly() const {
  constexpr int kTries = 100;
  for (int i = 0; pid_ > 0 && i < kTries && ::waitpid(pid_, nullptr, WNOHANG) == 0; ++i) {
    ::usleep(1000);
  }
}

void HelperProcess::kill() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
  }
}

bool HelperProcess::read_lines(std::string& rest, size_t longest,
                               const std::function<void(std::string_view)>& take) const {
  char bytes[16 * 1024];
  for (;;) {
    const ssize_t got = ::read(output_.get(), bytes, sizeof bytes);
    if (got < 0) {
      return true;  // nothing more at the moment
    }
    if (got == 0) {
      return false;
    }
    rest.append(bytes, static_cast<size_t>(got));
    for (size_t end = rest.find('\n'); end != std::string::npos; end = rest.find('\n')) {
      take(std::string_view(rest).substr(0, end));
      rest.erase(0, end + 1);
    }
    if (rest.size() > longest) {
      rest.clear();
    }
  }
}

}  // namespace xpurun::launcher
