#include "preload/process/shared_memory.h"

#include "preload/core/clock.h"
#include "preload/process/supervisor_link.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {

// The descriptor in the reply, or -1.
int receive_descriptor(int connection) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  // MSG_DONTWAIT: request() has already waited until the reply can be read.
  if (recvmsg(connection, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != 1) {
    return -1;
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return -1;
  }
  int fd = -1;
  memcpy(&fd, CMSG_DATA(header), sizeof(fd));
  return fd;
}

}  // namespace

void* request_memory(const sockaddr_un& socket_address, const wire::Notice& notice, size_t bytes,
                     uint64_t patience_ns) {
  const int connection = request(socket_address, notice, now_ns() + patience_ns);
  if (connection < 0) {
    return nullptr;
  }
  const int fd = receive_descriptor(connection);
  close(connection);
  if (fd < 0) {
    return nullptr;
  }
  void* memory = MAP_FAILED;
  // A mapping longer than its file would end the program with SIGBUS at the first access behind the end.
  if (lseek(fd, 0, SEEK_END) == static_cast<off_t>(bytes)) {
    memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  close(fd);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace xpurun::preload
