#include "preload/core/state.h"

namespace xpurun::preload {

constinit State g_state;
__thread ThreadState t_thread = {};

namespace {

Actions g_actions{};
constinit std::atomic<bool> g_stopped{false};

void set_hooks(bool on) {
  if (g_actions.set_hooks != nullptr) {
    g_actions.set_hooks(on);
  }
}

}  // namespace

void follow_capture_request(uint32_t wanted) {
  if (g_actions.follow_capture != nullptr) {
    g_actions.follow_capture(wanted);
  }
}

void register_actions(const Actions& actions) {
  g_actions = actions;
}

void hooked_for_the_first_time() {
  // Null if a library's constructor calls a hooked function before this library's constructor has run.
  if (g_actions.start != nullptr) {
    g_actions.start();
  }
}

void set_level(wire::Level level) {
  if (g_stopped.load() || level > wire::Level::full || level == g_state.level.load()) {
    return;
  }
  // Counted before the level changes: a thread that later sees timing on also sees that calls were missed.
  if (level == wire::Level::off) {
    g_state.times_off.fetch_add(1);
  }
  g_state.level.store(level);
  segment()->header.level.store(static_cast<uint32_t>(level));
  set_hooks(level != wire::Level::off);
}

bool has_stopped() {
  return g_stopped.load();
}

void stop_timing_after_fork() {
  g_stopped.store(true);
  g_state.level.store(wire::Level::off);
  set_hooks(false);
}

void stop_timing(wire::OffReason reason) {
  if (g_stopped.exchange(true)) {
    return;
  }
  g_state.times_off.fetch_add(1);
  g_state.level.store(wire::Level::off);
  set_hooks(false);
  if (wire::Segment* shared = segment()) {
    shared->header.off_reason.store(static_cast<uint32_t>(reason));
    shared->header.level.store(0);
    shared->header.state.store(static_cast<uint32_t>(wire::RankState::off));
  }
}

}  // namespace xpurun::preload
