// Screen: full-screen mode: the alternate screen and single keys without echo. The destructor and the signals
// that stop or end the program restore the terminal. One object at a time; single-threaded.
#pragma once

#include "common/base/os/fd.h"
#include "common/base/result.h"

#include <signal.h>
#include <string>
#include <termios.h>

namespace xpurun::launcher {

class Screen {
 public:
  enum class Event { time, redraw, key, quit, signal };

  // Standard input and output must be terminals.
  static base::Result<Screen> open();
  ~Screen() { close(); }
  Screen(Screen&& other) noexcept;
  Screen& operator=(Screen&&) = delete;
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  size_t columns() const;
  size_t rows() const;
  void show(const std::string& text);
  // Returns after `seconds`, on a changed size, on a key (quit: q or Ctrl-D), or on a terminating signal.
  Event wait(double seconds);
  int signal() const { return signal_; }
  char key() const { return key_; }
  void close();

 private:
  Screen() = default;
  void enter();
  void leave() const;
  void stop();

  bool open_ = false;
  int signal_ = 0;
  char key_ = 0;
  termios saved_{};
  sigset_t old_mask_{};
  base::UniqueFd signals_;
};

}  // namespace xpurun::launcher
