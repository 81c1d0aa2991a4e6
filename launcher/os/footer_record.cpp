#include "launcher/os/footer_record.h"

#include "common/base/clock.h"
#include "common/base/os/fd.h"
#include "common/base/output/terminal.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <new>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

namespace xpurun::launcher {

static_assert(std::atomic<int>::is_always_lock_free);

FooterRecord::FooterRecord(int fd) {
  std::array<char, PATH_MAX> name{};
  if (!base::is_terminal(fd) || ::ttyname_r(fd, name.data(), name.size()) != 0) {
    return;
  }
  void* shared =
      ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared != MAP_FAILED) {
    terminal_ = name.data();
    row_ = new (shared) std::atomic<int>(0);
  }
}

FooterRecord::~FooterRecord() {
  if (row_ != nullptr) {
    ::munmap(row_, sizeof(std::atomic<int>));
  }
}

void FooterRecord::set_row(int row) {
  if (row_ != nullptr) {
    row_->store(row);
  }
}

void FooterRecord::remove_line() const {
  if (row() == 0) {
    return;
  }
  // O_NONBLOCK: a terminal stopped with Ctrl-S would block the write. O_NOCTTY: it must not become the
  // controlling terminal.
  const base::UniqueFd terminal(::open(terminal_.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (terminal) {
    (void)put_on_terminal(terminal.get(), line_removal(row()), kRemovalMs);
  }
}

bool put_on_terminal(int fd, std::string_view bytes, int patience_ms) {
  constexpr int kRetryMs = 2;
  constexpr base::MonoNs kMs = 1'000'000;
  const base::MonoNs end = base::mono_ns() + patience_ms * kMs;
  pollfd ready{.fd = fd, .events = POLLOUT, .revents = 0};
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n > 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
    } else if (const base::MonoNs left = end - base::mono_ns(); n < 0 && errno == EAGAIN && left > 0) {
      // While another process writes, write() refuses, although poll() says that the terminal is ready.
      (void)::poll(&ready, 1, static_cast<int>(left / kMs));
      (void)::poll(nullptr, 0, kRetryMs);
    } else if (n >= 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

// Saves the cursor, makes the whole terminal scroll, erases the row, restores the cursor (DECSC, DECSTBM,
// CUP, EL, DECRC). The literals are split because "\x1b7" would be read as one escape.
std::string line_removal(int row) {
  return fmt::format(
      "\x1b"
      "7\x1b[r\x1b[{};1H\x1b[2K\x1b"
      "8",
      row);
}

}  // namespace xpurun::launcher
