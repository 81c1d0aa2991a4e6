// A descriptor that came with one byte over a Unix socket (SCM_RIGHTS).
#pragma once

#include "common/base/os/fd.h"

#include <cstring>
#include <sys/socket.h>

namespace xpurun::test {

struct ReceivedDescriptor {
  char byte = 0;
  base::UniqueFd fd;  // empty: the socket was closed, or the byte came alone
};

inline ReceivedDescriptor receive_descriptor(int socket) {
  ReceivedDescriptor out;
  iovec data{&out.byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message) != nullptr) {
    int got = -1;
    std::memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
    out.fd.reset(got);
  }
  return out;
}

}  // namespace xpurun::test
