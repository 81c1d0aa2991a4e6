#include "launcher/dumps/native_looks.h"

#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "launcher/os/pidfd.h"
#include "launcher/spawn/install_paths.h"

#include <algorithm>
#include <poll.h>
#include <sys/epoll.h>
#include <utility>
#include <vector>

namespace xpurun::launcher {

namespace {

constexpr size_t kLongestLine = size_t{1} << 16;
constexpr size_t kMostFrames = 128;
constexpr double kDeadlineS = 5;

}  // namespace

void NativeLooks::look_at(base::Pid pid, LookFor wanted) {
  if (helper_.pid() > 0) {
    return;
  }
  const auto program = stackdump_program();
  const char* mode = wanted == LookFor::stack ? "--look-at-stack" : "--look";
  auto helper = program
                    ? HelperProcess::start({*program, "--pid", std::to_string(pid), mode, "--lines-ms", "0"},
                                           setup_.signal_mask, setup_.stderr_fd)
                    : base::Result<HelperProcess>(base::fail(program.error()));
  if (!helper) {
    base::log_debug("pid {} is not looked at: {}", pid, base::to_line(helper.error()));
    return;
  }
  helper_ = std::move(*helper);
  target_ = pid;
  setup_.started(helper_.pid());
  if (!setup_.loop.add(helper_.output(), EPOLLIN, [this](uint32_t) { read_output(); })) {
    helper_.kill();
    return;
  }
  deadline_.after(kDeadlineS, [this] { helper_.kill(); });
}

void NativeLooks::read_output() {
  if (helper_.output() >= 0 &&
      !helper_.read_lines(text_, kLongestLine, [this](std::string_view line) { take(line); })) {
    setup_.loop.remove(helper_.output());
    helper_.close_output();
  }
}

// "frame 0x401136 spin wait_flag", "circles"
void NativeLooks::take(std::string_view line) {
  constexpr std::string_view kFrame = "frame 0x";
  if (line == "circles") {
    look_.circles = true;
  }
  const auto words = base::split(line, ' ');
  if (!line.starts_with(kFrame) || words.size() < 4 || look_.frames.size() >= kMostFrames) {
    return;
  }
  const auto pc = base::parse_hex(words[1].substr(2));
  const size_t name = kFrame.size() - 2 + words[1].size() + 1 + words[2].size() + 1;
  look_.frames.push_back({.func = base::sanitize(line.substr(std::min(name, line.size()))),
                          .module = base::sanitize(words[2]),
                          .pc = pc.value_or(0)});
}

void NativeLooks::give_up() {
  constexpr int kMostMs = 300;
  if (helper_.pid() <= 0) {
    return;
  }
  look_ = {.given_up = true};
  const auto ended = Pidfd::open(helper_.pid());
  helper_.kill();
  if (ended) {
    pollfd until{.fd = ended->fd(), .events = POLLIN, .revents = 0};
    ::poll(&until, 1, kMostMs);
  }
}

bool NativeLooks::helper_ended(base::Pid pid, base::WaitStatus) {
  if (!is_helper(pid)) {
    return false;
  }
  read_output();  // the last lines are still in the pipe
  stop();
  NativeLook look = std::exchange(look_, {});
  setup_.looked(target_, look.given_up ? NativeLook{.given_up = true} : std::move(look));
  return true;
}

void NativeLooks::stop() {
  deadline_.stop();
  if (helper_.output() >= 0) {
    setup_.loop.remove(helper_.output());
    helper_.close_output();
  }
  helper_ = HelperProcess();
  text_.clear();
}

}  // namespace xpurun::launcher
