// FooterRecord: whether a status line is on the terminal, in memory that forks share. A fork that outlives a
// killed supervisor removes the line (launcher/output/footer.h). The fork opens the terminal by name instead
// of keeping it open: readers who wait for the end of the job's output would wait for the fork.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

namespace xpurun::launcher {

class FooterRecord {
 public:
  // `fd` may be a terminal. If it is not, all functions do nothing.
  explicit FooterRecord(int fd);
  ~FooterRecord();
  FooterRecord(const FooterRecord&) = delete;
  FooterRecord& operator=(const FooterRecord&) = delete;

  // The line is in this row, below the scrolling region; 0: there is no line.
  void set_row(int row);
  int row() const { return row_ == nullptr ? 0 : row_->load(); }
  // Removes the line and restores the scrolling region. Waits at most kRemovalMs for a stopped terminal.
  void remove_line() const;

 private:
  std::string terminal_;
  std::atomic<int>* row_ = nullptr;  // shared memory
};

constexpr int kRemovalMs = 2000;

// Writes all of `bytes` to a terminal that was opened with O_NONBLOCK; false if it has not accepted all of
// them within this time. A terminal that accepts nothing is stopped, or another process writes to it.
bool put_on_terminal(int fd, std::string_view bytes, int patience_ms);

// Erases the line in this row and makes the whole terminal scroll; the cursor stays.
std::string line_removal(int row);

}  // namespace xpurun::launcher
