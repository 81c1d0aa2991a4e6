// Footer: a status line at the bottom of a terminal, outside the scrolling region, so that output of the
// ranks appears above the line and never inside it. Footer reads nothing from the terminal and does not
// change its settings. Writes never block: a terminal stopped by Ctrl-S must not stop the supervisor.
#pragma once

#include "common/base/os/fd.h"
#include "launcher/os/footer_record.h"

#include <string>

namespace xpurun::launcher {

class Footer {
 public:
  // `fd` may be a terminal. If it is not, all functions do nothing. The record follows what is shown.
  Footer(int fd, FooterRecord& record);
  ~Footer() { hide(); }
  Footer(const Footer&) = delete;
  Footer& operator=(const Footer&) = delete;

  // Whether fd is a capable terminal and this process is in its foreground process group.
  bool usable() const;
  size_t columns() const;
  // The caller cuts the text to the width. Adapts to a changed terminal size.
  void show(const std::string& text);
  // Removes the line and restores the scrolling region. If the terminal does not accept that, the record
  // keeps the row.
  void hide();

 private:
  bool put(const std::string& bytes) const;

  FooterRecord& record_;
  base::UniqueFd terminal_;
  int rows_ = 0;  // rows of the terminal while the line is shown, else 0
};

}  // namespace xpurun::launcher
