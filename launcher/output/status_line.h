// StatusLine: draws the job's state at the bottom of the terminal twice a second. Event loop's thread only.
#pragma once

#include "launcher/os/timer.h"
#include "launcher/output/footer.h"

#include <functional>
#include <string>

namespace xpurun::launcher {

class StatusLine {
 public:
  // `text` makes the line, at most `columns` wide; empty: no line for now. `fd` may be a terminal. If it is
  // not, nothing is drawn.
  using Text = std::function<std::string(size_t columns)>;
  StatusLine(EventLoop& loop, int fd, FooterRecord& record, Text text)
      : timer_(loop), footer_(fd, record), text_(std::move(text)) {}
  ~StatusLine() { stop(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  // The first line appears after 1 s, so a job that ends at once shows none.
  void start();
  // Removes the line for good.
  void stop();
  // Removes the line until it is drawn again.
  void hide() { footer_.hide(); }

 private:
  void draw();

  Timer timer_;
  Footer footer_;
  Text text_;
};

}  // namespace xpurun::launcher
