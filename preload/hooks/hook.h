// Hook: the code between a program's call of a vendor function and that function. The exported name is one
// indirect jump through a slot (entries.cpp). The slot holds
//   first              until the function's first call, which starts timing and looks up the real function;
//   wrapped            while timing is on: counts and times the call;
//   the real function  while timing is off, so that a call costs one extra load and jump.
// Any thread. A vendor function that no library provides returns "not supported".
#pragma once

#include "common/wire/api.h"
#include "preload/core/resolve.h"
#include "preload/core/state.h"
#include "preload/record/host_span.h"

#include <atomic>

namespace xpurun::preload {

template <wire::Api kApi, typename Function, typename Policy, std::atomic<Function*>& kSlot>
struct Hook;

template <wire::Api kApi, typename Policy, typename... A, std::atomic<int (*)(A...)>& kSlot>
struct Hook<kApi, int(A...), Policy, kSlot> {
  using Pointer = int (*)(A...);

  static int first(A... args) {
    hooked_for_the_first_time();
    const Pointer real = look_up();
    if (real == nullptr) {
      return missing_result(kApi);
    }
    set(is_timing_on());
    return kSlot.load(std::memory_order_relaxed)(args...);
  }

  static int wrapped(A... args) {
    const Pointer real = look_up();
    if (real == nullptr) {
      return missing_result(kApi);
    }
    if (!may_record()) {
      return real(args...);
    }
    const HostSpan span(kApi);
    return Policy::template call<kApi>(real, args...);
  }

  static void set(bool on) {
    const Pointer real = real_.load(std::memory_order_acquire);
    const Pointer target = on ? wrapped : (real != nullptr ? real : first);
    kSlot.store(target, std::memory_order_release);
  }

  static Pointer look_up() {
    Pointer real = real_.load(std::memory_order_acquire);
    if (real == nullptr) {
      real = reinterpret_cast<Pointer>(find_real(kApi));
      real_.store(real, std::memory_order_release);
    }
    return real;
  }

  static inline std::atomic<Pointer> real_{nullptr};
};

// Switches every hook on or off.
void set_all_hooks(bool on);

}  // namespace xpurun::preload
