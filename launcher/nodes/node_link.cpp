#include "launcher/nodes/node_link.h"

#include "common/base/os/program.h"
#include "common/base/os/random.h"
#include "common/base/output/log.h"
#include "launcher/nodes/node_limits.h"
#include "launcher/os/pidfd.h"
#include "launcher/spawn/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <string_view>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace xpurun::launcher {

namespace {

constexpr int kHelperFd = 3;
// The wait before the helper is started again; it doubles after each early death.
constexpr double kFirstWaitS = 1;
constexpr double kLongestWaitS = 60;
// A helper that has lived for this time starts again after the first wait.
constexpr double kLongLifeS = 60;
constexpr int kStepMs = 20;
// The time in seconds that the helper needs to end after it has closed its socket.
constexpr double kReapS = 0.1;

// The helper takes its settings from the socket alone, so that its /proc/PID/environ does not contain a token
// of XPURUN_NATS_TOKEN.
std::vector<std::string> helper_environment() {
  std::vector<std::string> env = current_environment();
  std::erase_if(env, [](const std::string& entry) { return entry.starts_with("XPURUN_"); });
  return env;
}

// The first helper's number; 0 without random numbers: then the helper chooses.
uint64_t first_instance() {
  const auto random = base::random_number();
  return random ? (*random >> 32 << 32) + 1 : 0;
}

}  // namespace

NodeLink::~NodeLink() {
  disconnect();
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
  }
}

void NodeLink::start(std::string program, StartMessage message) {
  program_ = std::move(program);
  start_ = std::move(message);
  start_.instance = first_instance();
  spawn();
}

void NodeLink::spawn() {
  if (auto spawned = spawn_or_fail(); !spawned) {
    fail(base::to_line(spawned.error()));
    return;
  }
  started_ = parts_.loop.now();
  hooks_.started(pid_);
  send(start_);
  // The next helper has the next number, by which the other nodes recognise it as this node's successor.
  start_.instance += start_.instance != 0 ? 1 : 0;
  hooks_.up();
}

base::Status NodeLink::spawn_or_fail() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return base::fail_errno("cannot make a socket pair");
  }
  base::UniqueFd ours(ends[0]);
  const base::UniqueFd theirs(ends[1]);
  ::fcntl(ours.get(), F_SETFL, O_NONBLOCK);
  const base::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const int fd = theirs.get();
  XPURUN_TRY_ASSIGN(pid_, base::start_program({.path = program_,
                                               .argv = {program_},
                                               .env = helper_environment(),
                                               .in = null.get(),
                                               .out = null.get(),
                                               .err = parts_.stderr_fd,
                                               .own_group = true,
                                               .signal_mask = parts_.signal_mask,
                                               .before_exec = [fd] {
                                                 // dup2(2) of a descriptor to itself keeps FD_CLOEXEC.
                                                 fd == kHelperFd ? ::fcntl(fd, F_SETFD, 0)
                                                                 : ::dup2(fd, kHelperFd);
                                               }}));
  socket_ = std::move(ours);
  watch();
  return {};
}

void NodeLink::disconnect() {
  if (socket_) {
    parts_.loop.remove(socket_.get());
    socket_.reset();
  }
  incoming_.clear();
  queue_.clear();
  queued_bytes_ = 0;
  sent_of_first_ = 0;
}

void NodeLink::fail(const std::string& reason) {
  disconnect();
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
  }
  if (given_up_) {
    return;
  }
  const bool long_life = started_ != 0 && parts_.loop.now() - started_ >= base::s_to_ns(kLongLifeS);
  wait_s_ = wait_s_ == 0 || long_life ? kFirstWaitS : std::min(2 * wait_s_, kLongestWaitS);
  base::log_info("the helper for other nodes is started again in {} s: {}", wait_s_, reason);
  again_.after(wait_s_, [this] { spawn(); });
  hooks_.lost(reason);
}

void NodeLink::send(const ToHelper& message) {
  if (!socket_) {
    return;
  }
  std::string line = to_line(message);
  queued_bytes_ += line.size();
  queue_.push_back({std::move(line), std::holds_alternative<StateMessage>(message)});
  make_room();
  flush();
}

// The first line may be half sent.
void NodeLink::make_room() {
  while (queued_bytes_ > kMostQueued) {
    const auto oldest = std::find_if(queue_.begin() + (sent_of_first_ > 0 ? 1 : 0), queue_.end(),
                                     [](const Line& line) { return line.droppable; });
    if (oldest == queue_.end()) {
      return;
    }
    queued_bytes_ -= oldest->text.size();
    queue_.erase(oldest);
    ++dropped_states_;
  }
}

void NodeLink::flush() {
  while (!queue_.empty()) {
    const std::string_view rest = std::string_view(queue_.front().text).substr(sent_of_first_);
    const ssize_t n = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      // The helper has closed its end. The next read reports that, after the helper's last messages.
      break;
    }
    sent_of_first_ += static_cast<size_t>(n);
    if (sent_of_first_ == queue_.front().text.size()) {
      queued_bytes_ -= sent_of_first_;
      sent_of_first_ = 0;
      queue_.pop_front();
    }
  }
  watch();
}

void NodeLink::watch() {
  const uint32_t events = queue_.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT;
  (void)parts_.loop.add(socket_.get(), events, [this](uint32_t ready) {
    if ((ready & EPOLLOUT) != 0) {
      flush();
    }
    if ((ready & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
      (void)read_some();
    }
  });
}

bool NodeLink::read_some() {
  char buf[16384];
  const ssize_t n = ::recv(socket_.get(), buf, sizeof buf, MSG_DONTWAIT);
  if (n > 0) {
    const size_t before = incoming_.size();
    incoming_.append(buf, static_cast<size_t>(n));
    take_lines(before);
    return socket_.valid();
  }
  if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
    fail("it has closed its connection");
  }
  return false;
}

void NodeLink::take_lines(size_t unsearched) {
  size_t begin = 0;
  for (size_t end = incoming_.find('\n', unsearched); end != std::string::npos;
       begin = end + 1, end = incoming_.find('\n', begin)) {
    auto message = from_helper_from_line(std::string_view(incoming_).substr(begin, end - begin));
    if (message) {
      hooks_.received(std::move(*message));
      if (!socket_) {
        return;
      }
    } else {
      base::log_warn("a message of the helper for other nodes is dropped: {}",
                     base::to_line(message.error()));
    }
  }
  incoming_.erase(0, begin);
  if (incoming_.size() > kLongestLine) {
    fail("it sends a line without an end");
  }
}

bool NodeLink::helper_ended(base::Pid pid, base::WaitStatus status) {
  if (pid_ <= 0 || pid != pid_) {
    return false;
  }
  pid_ = 0;
  // The helper's last messages are still in the socket.
  while (socket_ && read_some()) {
  }
  if (socket_) {
    fail(status.text());
  }
  return true;
}

void NodeLink::finish(int exit_status, double seconds) {
  given_up_ = true;
  again_.stop();
  if (!socket_) {
    return;
  }
  send(EndMessage{.exit_status = exit_status});
  const base::Pid pid = std::exchange(pid_, 0);  // the destructor must not kill it
  const base::MonoNs end = base::mono_ns() + base::s_to_ns(seconds);
  while (socket_ && base::mono_ns() < end) {
    pollfd waiting{.fd = socket_.get(),
                   .events = static_cast<short>(queue_.empty() ? POLLIN : POLLIN | POLLOUT),
                   .revents = 0};
    if (::poll(&waiting, 1, kStepMs) <= 0) {
      continue;
    }
    if ((waiting.revents & POLLOUT) != 0) {
      flush();
    }
    char buf[16384];
    const bool input = (waiting.revents & (POLLIN | POLLHUP | POLLERR)) != 0;
    if (input && ::recv(socket_.get(), buf, sizeof buf, MSG_DONTWAIT) == 0) {
      disconnect();
    }
  }
  if (!socket_) {
    reap_soon(pid, kReapS);
  }
}

}  // namespace xpurun::launcher
