// Hook: what stands between a program's call of a vendor function and that function. The exported name is one
// indirect jump through a slot (entries.cpp), which holds
//   first    until the function is called for the first time: starts timing, looks up the real function;
//   wrapped  while timing is on: counts and times the call;
//   the real function itself while timing is off, so that off costs a load and a jump.
// Any thread. A vendor function that nobody provides answers "not supported".
#pragma once

#include "common/wire/api.h"
#include "preload/timing/host_span.h"
#include "preload/timing/runtime.h"

#include <atomic>

namespace xpurun::preload {

// The function of that name behind us, wherever it was loaded from; nullptr if nowhere.
void* find_real(wire::Api api);
void* find_in_library(const char* library_prefix, const char* name);

// What a missing function of that library returns.
int missing_result(wire::Api api);

template <wire::Api kApi, typename Function, typename Policy, std::atomic<Function*>& kSlot>
struct Hook;

template <wire::Api kApi, typename Policy, typename... A, std::atomic<int (*)(A...)>& kSlot>
struct Hook<kApi, int(A...), Policy, kSlot> {
  using Pointer = int (*)(A...);

  static int first(A... args) {
    start_timing();
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

// Puts every hook on or off.
void set_all_hooks(bool on);

}  // namespace xpurun::preload
