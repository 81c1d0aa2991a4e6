// Footer: one line kept at the bottom of a terminal, outside the region that scrolls, so that whoever writes
// to the terminal, the ranks included, writes above it and never into it. Nothing is read from the terminal
// and its settings are not touched. Writes never block: a terminal stopped by Ctrl-S must not stop us.
#pragma once

#include "common/base/fd.h"

#include <string>

namespace xpurun::launcher {

class Footer {
 public:
  // `fd` is a stream that may be a terminal; if it is none, everything here does nothing.
  explicit Footer(int fd);
  ~Footer() { hide(); }
  Footer(const Footer&) = delete;
  Footer& operator=(const Footer&) = delete;

  // A terminal that understands this, and is ours to write to: we are in its foreground.
  bool usable() const;
  size_t columns() const;
  // Cut to the width by the caller. Follows changes of the terminal's size.
  void show(const std::string& text);
  // Gives the line back to the terminal.
  void hide();

 private:
  void put(const std::string& bytes) const;

  base::UniqueFd terminal_;
  int rows_ = 0;  // of the terminal, while the line is there; 0: it is not
};

}  // namespace xpurun::launcher
