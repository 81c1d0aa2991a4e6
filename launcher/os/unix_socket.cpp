#include "launcher/os/unix_socket.h"

#include <fmt/format.h>

#include <cstring>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace xpurun::launcher {

base::Result<base::UniqueFd> listen_unix(const std::string& path, int type) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() > kMaxSocketPath) {
    return base::fail(fmt::format("socket path is longer than {} bytes: {}", kMaxSocketPath, path));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  base::UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    return base::fail_errno("cannot create a socket");
  }
  // bind() creates the file with the mode of the umask, so no other user can connect, not even between bind()
  // and a chmod().
  const mode_t old_mask = ::umask(0177);
  const int rc = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const int err = errno;
  ::umask(old_mask);
  if (rc != 0) {
    return base::fail_errno(fmt::format("cannot bind {}", path), err);
  }
  if (::listen(fd.get(), 128) != 0) {
    return base::fail_errno(fmt::format("cannot listen on {}", path));
  }
  return fd;
}

std::optional<Peer> peer_of(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return std::nullopt;
  }
  return Peer{.pid = peer.pid, .uid = peer.uid};
}

bool send_descriptor(int connection, int descriptor, char byte) {
  // A descriptor travels only together with at least one byte of data on a stream socket.
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
  return ::sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1;
}

}  // namespace xpurun::launcher
