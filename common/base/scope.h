// on_scope_exit: runs a function at the end of the scope, however it is left.
#pragma once

#include <utility>

namespace xpurun::base {

template <typename F>
class [[nodiscard]] ScopeExit {
 public:
  explicit ScopeExit(F f) : f_(std::move(f)) {}
  ~ScopeExit() { f_(); }
  ScopeExit(const ScopeExit&) = delete;
  ScopeExit& operator=(const ScopeExit&) = delete;

 private:
  F f_;
};

template <typename F>
ScopeExit<F> on_scope_exit(F f) {
  return ScopeExit<F>(std::move(f));
}

}  // namespace xpurun::base
