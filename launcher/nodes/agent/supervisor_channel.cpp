#include "launcher/nodes/agent/supervisor_channel.h"

#include "common/base/output/log.h"
#include "launcher/nodes/node_limits.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utility>

namespace xpurun::nodes {

using namespace launcher;

SupervisorChannel::SupervisorChannel(EventLoop& loop, base::UniqueFd socket, Handler handler,
                                     std::function<void()> gone)
    : loop_(loop), socket_(std::move(socket)), handler_(std::move(handler)), gone_(std::move(gone)) {}

SupervisorChannel::~SupervisorChannel() {
  if (watched_ != 0) {
    loop_.remove(socket_.get());
  }
}

base::Status SupervisorChannel::start() {
  const int flags = ::fcntl(socket_.get(), F_GETFL);
  if (flags < 0 || ::fcntl(socket_.get(), F_SETFL, flags | O_NONBLOCK) < 0 ||
      ::fcntl(socket_.get(), F_SETFD, FD_CLOEXEC) < 0) {
    return base::fail_errno("cannot use descriptor 3, the supervisor's socket");
  }
  watch();
  return {};
}

void SupervisorChannel::watch() {
  const uint32_t wanted = EPOLLIN | (sent_ < output_.size() ? static_cast<uint32_t>(EPOLLOUT) : 0U);
  if (wanted == watched_ || !socket_) {
    return;
  }
  if (watched_ != 0) {
    loop_.remove(socket_.get());
  }
  watched_ = wanted;
  if (const auto added = loop_.add(socket_.get(), wanted, [this](uint32_t events) { ready(events); });
      !added) {
    base::log_warn("{}", to_line(added.error()));
  }
}

void SupervisorChannel::ready(uint32_t events) {
  if ((events & EPOLLOUT) != 0) {
    write_some();
  }
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
    read_some();
  }
}

void SupervisorChannel::read_some() {
  std::array<char, size_t{64} << 10> buffer{};
  const ssize_t n = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  if (n <= 0 || input_.size() > kLongestLine) {
    loop_.remove(socket_.get());
    watched_ = 0;
    socket_.reset();
    gone_();
    return;
  }
  const size_t old = input_.size();
  input_.append(buffer.data(), static_cast<size_t>(n));
  size_t begin = 0;
  for (size_t end = input_.find('\n', old); end != std::string::npos; end = input_.find('\n', begin)) {
    const std::string line = input_.substr(begin, end - begin);
    begin = end + 1;
    if (const auto message = to_helper_from_line(line)) {
      handler_(*message);
    } else {
      base::log_warn("a message of the supervisor was not understood: {}", to_line(message.error()));
    }
  }
  input_.erase(0, begin);
}

void SupervisorChannel::send(const FromHelper& message) {
  if (!socket_) {
    return;
  }
  const bool state = std::holds_alternative<NodesMessage>(message);
  const size_t queued = output_.size() - sent_;
  // The next list of nodes replaces this one.
  if ((state && queued > 0) || queued > kMostQueued) {
    return;
  }
  output_ += to_line(message);
  write_some();
}

void SupervisorChannel::write_some() {
  while (socket_ && sent_ < output_.size()) {
    const ssize_t n = ::send(socket_.get(), output_.data() + sent_, output_.size() - sent_, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      // EAGAIN, or an end that read_some() will see.
      break;
    }
    sent_ += static_cast<size_t>(n);
  }
  if (sent_ == output_.size()) {
    output_.clear();
    sent_ = 0;
  }
  watch();
}

void SupervisorChannel::flush(int milliseconds) {
  const base::MonoNs deadline = base::mono_ns() + int64_t{milliseconds} * 1'000'000;
  while (socket_ && sent_ < output_.size() && base::mono_ns() < deadline) {
    pollfd waiting{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
    if (::poll(&waiting, 1, 50) < 0 || (waiting.revents & (POLLERR | POLLHUP)) != 0) {
      return;
    }
    write_some();
  }
}

}  // namespace xpurun::nodes
