// The interposed libc functions through which a program sets and reads signal dispositions. All of them
// follow disposition.h. exports.map lists the visible ones.

#include "preload/process/disposition.h"
#include "preload/process/real.h"

#include <signal.h>

#define XPURUN_EXPORT extern "C" __attribute__((visibility("default")))

using xpurun::preload::guarded_sigaction;
using xpurun::preload::is_guarded;
using xpurun::preload::is_ours;
using xpurun::preload::Real;
using xpurun::preload::reclaim;

namespace {

using SignalCall = decltype(&::signal);

// signal(3) and its relatives differ in the flags of a handler (SA_RESTART, SA_RESETHAND), not in the effect
// of SIG_DFL.
sighandler_t guarded_signal(Real<SignalCall>& real, int signal, sighandler_t handler) {
  if (is_guarded(signal) && (handler == SIG_DFL || is_ours(handler))) {
    struct sigaction action = {};
    struct sigaction previous = {};
    return guarded_sigaction(signal, &action, &previous) == 0 ? previous.sa_handler : SIG_ERR;
  }
  const sighandler_t previous = real.call(signal, handler);
  return is_ours(previous) ? SIG_DFL : previous;
}

constinit Real<SignalCall> g_signal{"signal"};
constinit Real<SignalCall> g_sysv_signal{"sysv_signal"};
constinit Real<SignalCall> g_sigset{"sigset"};

}  // namespace

extern "C" {
int __sigaction(int, const struct sigaction*, struct sigaction*) __THROW;
sighandler_t bsd_signal(int, sighandler_t) __THROW;
sighandler_t __sysv_signal(int, sighandler_t) __THROW;
}

XPURUN_EXPORT int sigaction(int signal, const struct sigaction* action, struct sigaction* previous) __THROW {
  return guarded_sigaction(signal, action, previous);
}

XPURUN_EXPORT int __sigaction(int signal, const struct sigaction* action,
                              struct sigaction* previous) __THROW {
  return guarded_sigaction(signal, action, previous);
}

XPURUN_EXPORT sighandler_t signal(int number, sighandler_t handler) __THROW {
  return guarded_signal(g_signal, number, handler);
}

XPURUN_EXPORT sighandler_t bsd_signal(int number, sighandler_t handler) __THROW {
  return guarded_signal(g_signal, number, handler);
}

XPURUN_EXPORT sighandler_t ssignal(int number, sighandler_t handler) __THROW {
  return guarded_signal(g_signal, number, handler);
}

XPURUN_EXPORT sighandler_t sysv_signal(int number, sighandler_t handler) __THROW {
  return guarded_signal(g_sysv_signal, number, handler);
}

XPURUN_EXPORT sighandler_t __sysv_signal(int number, sighandler_t handler) __THROW {
  return guarded_signal(g_sysv_signal, number, handler);
}

// sigset(3) also unblocks the signal, so the real function runs in every case.
XPURUN_EXPORT sighandler_t sigset(int number, sighandler_t handler) __THROW {
  const sighandler_t previous = g_sigset.call(number, is_ours(handler) ? SIG_DFL : handler);
  if (is_guarded(number)) {
    reclaim(number);
  }
  return is_ours(previous) ? SIG_DFL : previous;
}
