// WaitStatus: how a process ended, as reported by waitpid(2), or "unknown" for another process's child with
// an unreadable status. A value type.
#pragma once

#include <string>
#include <sys/wait.h>

namespace xpurun::base {

// "SIGTERM"; "signal 42" for a signal without a name.
std::string signal_name(int number);

class WaitStatus {
 public:
  static constexpr int kUnknown = -1;

  constexpr WaitStatus() = default;
  // `raw` is the status from waitpid(2); negative means unknown.
  explicit constexpr WaitStatus(int raw) : raw_(raw < 0 ? kUnknown : raw) {}
  static constexpr WaitStatus of_exit(int code) { return WaitStatus(code << 8); }
  static constexpr WaitStatus of_signal(int number) { return WaitStatus(number); }

  [[nodiscard]] constexpr bool known() const { return raw_ != kUnknown; }
  [[nodiscard]] constexpr bool exited() const { return known() && WIFEXITED(raw_); }
  [[nodiscard]] constexpr bool signaled() const { return known() && WIFSIGNALED(raw_); }
  [[nodiscard]] constexpr bool succeeded() const { return raw_ == 0; }
  [[nodiscard]] constexpr bool failed() const { return known() && raw_ != 0; }
  // -1 unless exited().
  [[nodiscard]] constexpr int exit_code() const { return exited() ? WEXITSTATUS(raw_) : -1; }
  // 0 unless signaled().
  [[nodiscard]] constexpr int signal() const { return signaled() ? WTERMSIG(raw_) : 0; }
  // For files; kUnknown if unknown.
  [[nodiscard]] constexpr int raw() const { return raw_; }

  // "exited with status 1", "killed by SIGKILL", "ended" if unknown.
  [[nodiscard]] std::string text() const;

  friend constexpr bool operator==(WaitStatus, WaitStatus) = default;

 private:
  int raw_ = kUnknown;
};

}  // namespace xpurun::base
