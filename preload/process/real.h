// The next definition of an interposed libc function. Looked up at the first call or by the constructor,
// whichever comes first: dlsym(3) is not async-signal-safe, but every later call is.
#pragma once

#include <atomic>
#include <dlfcn.h>

namespace xpurun::preload {

template <typename Function>
class Real {
 public:
  constexpr explicit Real(const char* name) : name_(name) {}

  template <typename... Args>
  auto call(Args... args) {
    Function function = function_.load(std::memory_order_acquire);
    if (function == nullptr) {
      function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name_));
      function_.store(function, std::memory_order_release);
    }
    return function(args...);
  }

 private:
  const char* name_;  // exported by every glibc, so the look-up finds it
  std::atomic<Function> function_{nullptr};
};

}  // namespace xpurun::preload
