#include "stackdump/ptrace/wait_alarm.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace xpurun::stackdump {

namespace {

constexpr int kSignal = SIGALRM;

void do_nothing(int /*signal*/) {}

}  // namespace

WaitAlarm::WaitAlarm(std::chrono::nanoseconds interval) {
  struct sigaction action {};
  // The signal's only purpose is to interrupt waitpid(), which has no time limit of its own.
  action.sa_handler = do_nothing;  // without SA_RESTART
  ::sigaction(kSignal, &action, &previous_);
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = kSignal;
  event._sigev_un._tid = ::gettid();  // sigev_notify_thread_id, which glibc does not name
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(interval);
  const timespec every{.tv_sec = seconds.count(), .tv_nsec = (interval - seconds).count()};
  const itimerspec times{.it_interval = every, .it_value = every};
  // System calls: the libraries of glibc before 2.34 have timers of two kinds under one name.
  if (::syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer_) == 0) {
    armed_ = true;
    ::syscall(SYS_timer_settime, timer_, 0, &times, nullptr);
  }
}

WaitAlarm::~WaitAlarm() {
  if (armed_) {
    ::syscall(SYS_timer_delete, timer_);
  }
  ::sigaction(kSignal, &previous_, nullptr);
}

}  // namespace xpurun::stackdump
