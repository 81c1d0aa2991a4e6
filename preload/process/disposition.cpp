#include "preload/process/disposition.h"

#include "preload/process/crash_handler.h"
#include "preload/process/real.h"

#include <atomic>
#include <stdint.h>

namespace xpurun::preload {

namespace {

constexpr int kGuarded[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGTERM};

constinit std::atomic<bool> g_armed{false};
constinit Real<decltype(&::sigaction)> g_real_sigaction{"sigaction"};

// All signals are blocked in the handler, because a second one would find half a report. If the handler
// itself faults, the signal is blocked, so the kernel ends the process at once. SA_ONSTACK: after a stack
// overflow there is no other stack.
struct sigaction our_action() {
  struct sigaction action = {};
  action.sa_sigaction = on_fatal_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  sigfillset(&action.sa_mask);
  return action;
}

bool is_default_or_ours(const struct sigaction& action) {
  return action.sa_handler == SIG_DFL || is_ours(action.sa_handler);
}

}  // namespace

bool is_guarded(int signal) {
  if (!g_armed.load(std::memory_order_relaxed)) {
    return false;
  }
  for (const int guarded : kGuarded) {
    if (guarded == signal) {
      return true;
    }
  }
  return false;
}

bool is_ours(sighandler_t handler) {
  return reinterpret_cast<uintptr_t>(handler) == reinterpret_cast<uintptr_t>(on_fatal_signal);
}

int guarded_sigaction(int signal, const struct sigaction* action, struct sigaction* previous) {
  if (!is_guarded(signal)) {
    return g_real_sigaction.call(signal, action, previous);
  }
  struct sigaction before = {};
  int result = 0;
  if (action != nullptr && is_default_or_ours(*action)) {
    const struct sigaction ours = our_action();
    result = g_real_sigaction.call(signal, &ours, &before);
  } else {
    result = g_real_sigaction.call(signal, action, &before);
  }
  if (result == 0 && previous != nullptr) {
    const struct sigaction by_default = {};
    *previous = is_ours(before.sa_handler) ? by_default : before;
  }
  return result;
}

void reclaim(int signal) {
  struct sigaction now = {};
  if (g_real_sigaction.call(signal, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) {
    return;
  }
  const struct sigaction ours = our_action();
  struct sigaction replaced = {};
  if (g_real_sigaction.call(signal, &ours, &replaced) == 0 && !is_default_or_ours(replaced)) {
    g_real_sigaction.call(signal, &replaced, nullptr);  // another thread was faster; its handler stays
  }
}

void arm() {
  for (const int signal : kGuarded) {
    reclaim(signal);
  }
  g_armed.store(true);
}

}  // namespace xpurun::preload
