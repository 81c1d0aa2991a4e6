#include "launcher/os/signals.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <string>
#include <sys/signalfd.h>

namespace xpurun::launcher {

namespace {
constexpr std::array kForwarded = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
}

base::Result<SignalInbox> SignalInbox::open(std::initializer_list<int> extra) {
  sigset_t set;
  sigemptyset(&set);
  for (int s : kForwarded) {
    sigaddset(&set, s);
  }
  sigaddset(&set, SIGCHLD);
  for (int s : extra) {
    if (s != 0) {
      sigaddset(&set, s);
    }
  }
  SignalInbox inbox;
  // signalfd(2) reads only blocked signals. Others still run their default action.
  if (::sigprocmask(SIG_BLOCK, &set, &inbox.original_mask_) != 0) {
    return base::fail_errno("cannot block signals");
  }
  inbox.fd_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!inbox.fd_) {
    return base::fail_errno("cannot create a signalfd");
  }
  return inbox;
}

void SignalInbox::drain(const std::function<void(const ReceivedSignal&)>& handler) const {
  // Standard signals do not queue: one record of SIGCHLD may stand for any number of ended children.
  signalfd_siginfo info{};
  while (::read(fd_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    handler({.number = static_cast<int>(info.ssi_signo),
             .code = info.ssi_code,
             .sender = static_cast<int>(info.ssi_pid)});
  }
}

int signal_number(std::string_view name) {
  if (const auto n = base::parse_int(name); n && *n > 0 && *n < SIGRTMAX) {
    return static_cast<int>(*n);
  }
  if (name.starts_with("SIG")) {
    name.remove_prefix(3);
  }
  for (int s = 1; s < SIGRTMIN; ++s) {
    const char* abbreviation = ::sigabbrev_np(s);
    if (abbreviation != nullptr && name == abbreviation) {
      return s;
    }
  }
  return 0;
}

}  // namespace xpurun::launcher
