#include "launcher/control/notice_server.h"

#include "common/base/os/procfs.h"
#include "common/base/output/log.h"
#include "launcher/os/unix_socket.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// The sender knows its thread by the number of its own PID namespace.
base::Tid translate_tid(base::Pid pid, base::Tid inner) {
  const base::ProcFs proc;
  for (base::Tid tid : proc.threads(pid)) {
    const auto st = proc.thread_status(pid, tid);
    if (st && !st->ns_pid.empty() && st->ns_pid.back() == inner) {
      return tid;
    }
  }
  return pid;
}

}  // namespace

NoticeServer::~NoticeServer() {
  for (const auto& [fd, owned] : connections_) {
    loop_.remove(fd);
  }
}

base::Status NoticeServer::listen(const std::string& path) {
  XPURUN_TRY_ASSIGN(base::UniqueFd listener, listen_unix(path, SOCK_SEQPACKET));
  return acceptor_.start(std::move(listener));
}

void NoticeServer::take(base::UniqueFd connection) {
  const int fd = connection.get();
  connections_.emplace(fd, std::move(connection));
  if (!loop_.add(fd, EPOLLIN, [this, fd](uint32_t) { read_from(fd); })) {
    connections_.erase(fd);
  }
}

void NoticeServer::read_from(int fd) {
  wire::Notice notice{};
  const ssize_t n = ::recv(fd, &notice, sizeof notice, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return;
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  const bool valid = n == static_cast<ssize_t>(sizeof notice) && notice.magic == wire::kNoticeMagic &&
                     notice.version == wire::kNoticeVersion &&
                     ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0;
  if (!valid) {
    if (n > 0) {
      base::log_debug("ignored a malformed notice of {} bytes", n);
    }
    drop(fd);
    return;
  }
  const bool crash = notice.kind == static_cast<uint16_t>(wire::NoticeKind::crash);
  const base::Tid tid = crash ? translate_tid(peer.pid, notice.tid) : peer.pid;
  if (crash) {
    held_.emplace(peer.pid, fd);
  } else if (notice.kind == static_cast<uint16_t>(wire::NoticeKind::attach)) {
    attaching_.emplace(peer.pid, fd);
  } else {
    drop(fd);
  }
  handler_(notice, peer.pid, tid);
}

void NoticeServer::drop(int fd) {
  loop_.remove(fd);
  connections_.erase(fd);
  std::erase_if(held_, [fd](const auto& entry) { return entry.second == fd; });
  std::erase_if(attaching_, [fd](const auto& entry) { return entry.second == fd; });
}

void NoticeServer::release(base::Pid pid) {
  for (auto it = held_.find(pid); it != held_.end(); it = held_.find(pid)) {
    const int fd = it->second;
    const char go = 1;
    // The sender may have run out of patience: no signal, no error.
    (void)!::send(fd, &go, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    drop(fd);
  }
}

void NoticeServer::answer_attach(base::Pid pid, int descriptor) {
  for (auto it = attaching_.find(pid); it != attaching_.end(); it = attaching_.find(pid)) {
    const int fd = it->second;
    if (descriptor >= 0) {
      char byte = 's';
      iovec data{&byte, 1};
      alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
      msghdr message{};
      message.msg_iov = &data;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
      // A process that has died meanwhile needs no segment.
      (void)!::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    drop(fd);
  }
}

void NoticeServer::release_all() {
  while (!held_.empty()) {
    release(held_.begin()->first);
  }
}

}  // namespace xpurun::launcher
