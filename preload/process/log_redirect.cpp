#include "preload/process/log_redirect.h"

#include "common/wire/logs.h"
#include "preload/process/rank_identity.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

namespace xpurun::preload {

namespace {

// Time limit for the relay's reply, in seconds; afterwards the stream stays unchanged.
constexpr time_t kPatienceS = 5;

struct FileId {
  uint64_t device;
  uint64_t inode;
};

// Digits up to a colon; nullptr if there are none.
const char* parse_number(const char* text, uint64_t* value) {
  char* end = nullptr;
  *value = strtoull(text, &end, 10);
  return end != text && *end == ':' ? end + 1 : nullptr;
}

// After the relay's end, another user's process could take the abstract name.
bool is_of_our_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == geteuid() || peer.uid == 0);
}

int receive_descriptor(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) {
    return -1;
  }
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
    return -1;
  }
  int out = -1;
  memcpy(&out, CMSG_DATA(header), sizeof(out));
  return out;
}

// The write end of a pipe to the relay, or -1.
int ask_for_pipe(const char* name, const wire::LogRequest& request) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t length = strlen(name);
  if (length == 0 || length >= sizeof(address.sun_path)) {
    return -1;
  }
  // An abstract name begins with a zero byte.
  memcpy(address.sun_path + 1, name, length);
  const int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (connection < 0) {
    return -1;
  }
  const timeval patience{kPatienceS, 0};
  setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  const socklen_t size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  int pipe = -1;
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
      is_of_our_user(connection) &&
      send(connection, &request, sizeof(request), MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof(request))) {
    pipe = receive_descriptor(connection);
  }
  close(connection);
  return pipe;
}

void redirect(int fd, const FileId& original, const char* name, const char* rank, wire::LogStream stream) {
  struct stat st;
  // A wrapper may have redirected the stream to a file of its own. Such a stream stays as it is. glibc
  // before 2.33 has no fstat().
  if (syscall(SYS_fstat, fd, &st) != 0 || st.st_dev != original.device || st.st_ino != original.inode) {
    return;
  }
  const wire::LogRequest request{wire::kLogRequestMagic, wire::kLogRequestVersion,
                                 static_cast<uint16_t>(stream),
                                 static_cast<uint32_t>(strtoul(rank, nullptr, 10)), 0};
  const int pipe = ask_for_pipe(name, request);
  if (pipe >= 0) {
    // dup2(2) clears close-on-exec, so the children of the rank write into the same log.
    dup2(pipe, fd);
    close(pipe);
  }
}

}  // namespace

void redirect_output(const char* text) {
  const char* rank = own_rank();
  if (text == nullptr || rank == nullptr) {
    return;
  }
  FileId out{};
  FileId err{};
  uint64_t* const numbers[] = {&out.device, &out.inode, &err.device, &err.inode};
  for (uint64_t* number : numbers) {
    text = parse_number(text, number);
    if (text == nullptr) {
      return;
    }
  }
  redirect(1, out, text, rank, wire::LogStream::out);
  redirect(2, err, text, rank, wire::LogStream::err);
}

}  // namespace xpurun::preload
