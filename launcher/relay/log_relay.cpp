#include "launcher/relay/log_relay.h"

#include "common/base/os/child.h"
#include "common/base/os/random.h"
#include "common/base/output/log.h"
#include "launcher/relay/relay_keeper.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace xpurun::launcher {

namespace {

constexpr int kBacklog = 1024;

// An abstract socket needs no file system and leaves nothing behind. Its name is random, so that no other
// user can guess it.
base::Result<base::UniqueFd> listen_abstract(std::string& name) {
  XPURUN_TRY_ASSIGN(const std::string token, base::random_token());
  name = "xpurun-logs-" + token;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    return base::fail_errno("cannot create a socket for the ranks' output");
  }
  return fd;
}

}  // namespace

LogRelay::~LogRelay() {
  if (channel_) {
    loop_.remove(channel_.get());
  }
}

base::Result<std::string> LogRelay::start(const std::string& directory, LinePrefix prefix) {
  struct stat out {};
  struct stat err {};
  if (::fstat(STDOUT_FILENO, &out) != 0 || ::fstat(STDERR_FILENO, &err) != 0) {
    return base::fail_errno("no standard output or error to read logs from");
  }
  std::string name;
  XPURUN_TRY_ASSIGN(base::UniqueFd listener, listen_abstract(name));
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
    return base::fail_errno("cannot create a socket to the relay");
  }
  base::UniqueFd ours(pair[0]);
  base::UniqueFd theirs(pair[1]);
  // The supervisor has no other thread, so a fork without exec is safe. A fork needs neither a program file
  // nor much memory.
  memory_.emplace(listener.get(), theirs.get());
  auto pid = base::fork_child(base::ChildLife::outlives_parent, [&]() -> int {
    keep_relay({std::move(listener), std::move(theirs), directory, prefix}, *memory_);
  });
  if (!pid) {
    return base::fail(std::move(pid.error()).context("the relay"));
  }
  pid_ = *pid;
  started_(pid_);
  channel_ = std::move(ours);
  XPURUN_TRY(loop_.add(channel_.get(), EPOLLIN, [this](uint32_t) { hear(); }));
  // The ranks compare device and inode with their streams: a stream that a wrapper has redirected stays as it
  // is.
  return fmt::format("{}:{}:{}:{}:{}", out.st_dev, out.st_ino, err.st_dev, err.st_ino, name);
}

bool LogRelay::helper_ended(base::Pid pid, base::WaitStatus status) {
  if (pid_ == 0 || pid != pid_) {
    return false;
  }
  pid_ = 0;
  if (status.succeeded()) {
    finished();
    return true;
  }
  base::log_warn("the keeper of the ranks' output {}", status.text());
  // The deputy is or becomes the keeper. Deputy and relay are xpurun's children now, and no part of the job.
  // Once all three are dead, the channel ends.
  const base::Pid deputy = memory_->pid(RelayMemory::Part::deputy);
  for (const base::Pid heir : {deputy, memory_->pid(RelayMemory::Part::relay)}) {
    if (heir > 0) {
      started_(heir);
    }
  }
  if (deputy > 0 && deputy != pid) {
    pid_ = deputy;
  } else {
    finished();
  }
  return true;
}

void LogRelay::finish(std::function<void()> done) {
  done_ = std::move(done);
  if (!channel_ || ::send(channel_.get(), &kRelayFinish, 1, MSG_NOSIGNAL | MSG_DONTWAIT) != 1) {
    loop_.after(0, [this] { finished(); });
  }
}

void LogRelay::hear() {
  char word = 0;
  const ssize_t n = ::recv(channel_.get(), &word, 1, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  finished();
}

void LogRelay::finished() {
  if (channel_) {
    loop_.remove(channel_.get());
    channel_.reset();
  }
  if (auto done = std::exchange(done_, nullptr)) {
    done();
  }
}

}  // namespace xpurun::launcher
