// The other end of a server's socket, non-blocking.
#pragma once

#include "common/base/os/fd.h"

#include <doctest/doctest.h>

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace xpurun::test {

class SocketClient {
 public:
  explicit SocketClient(const std::string& path, int type = SOCK_STREAM)
      : fd_(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    REQUIRE(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  explicit SocketClient(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), is_tcp_(true) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }

  int fd() const { return fd_.get(); }
  void say(std::string_view bytes) const {
    REQUIRE(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
    // For TCP: waits until the other end has the bytes; a Unix socket delivers at once.
    int unsent = 0;
    for (int i = 0; is_tcp_ && i < 5000 && ::ioctl(fd_.get(), SIOCOUTQ, &unsent) == 0 && unsent > 0; ++i) {
      (void)::poll(nullptr, 0, 1);
    }
  }
  void stop_sending() const { REQUIRE(::shutdown(fd_.get(), SHUT_WR) == 0); }
  void close() { fd_.reset(); }
  // The data received so far.
  std::string hear() const {
    std::string out;
    char chunk[65536];
    ssize_t n = 0;
    while ((n = ::recv(fd_.get(), chunk, sizeof chunk, MSG_DONTWAIT)) > 0) {
      out.append(chunk, static_cast<size_t>(n));
    }
    return out;
  }
  // Everything up to the end of the connection; waits at most five seconds for it.
  std::string hear_to_the_end() const {
    std::string out;
    pollfd waiting{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    char chunk[4096];
    ssize_t n = 1;
    while (n > 0 && ::poll(&waiting, 1, 5000) == 1 && (n = ::recv(fd_.get(), chunk, sizeof chunk, 0)) > 0) {
      out.append(chunk, static_cast<size_t>(n));
    }
    return n > 0 ? out + " (and no end)" : out;
  }
  // Whether the server has closed the connection. Drops received data.
  bool is_closed() const {
    (void)hear();
    char byte = 0;
    const ssize_t n = ::recv(fd_.get(), &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN);
  }

 private:
  base::UniqueFd fd_;
  bool is_tcp_ = false;
};

}  // namespace xpurun::test
