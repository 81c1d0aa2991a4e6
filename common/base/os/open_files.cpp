#include "common/base/os/open_files.h"

#include "common/base/os/fd.h"
#include "common/base/os/io.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <iterator>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <memory>
#include <sys/socket.h>

namespace xpurun::base {

namespace {

constexpr size_t kMostDescriptors = 512;  // of one process
constexpr size_t kMostEnds = 16;          // processes with one file open
constexpr std::string_view kPipe = "pipe:[";
constexpr std::string_view kSocket = "socket:[";

struct FdListCloser {
  void operator()(DIR* d) const { ::closedir(d); }
};

// "flags:\t0100001" of /proc/PID/fdinfo/FD, in octal.
bool is_open_for(const ProcFs& proc, Pid pid, std::string_view fd, OpenFor purpose) {
  if (purpose == OpenFor::anything) {
    return true;
  }
  const std::string text = proc.text(pid, fmt::format("fdinfo/{}", fd));
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with("flags:")) {
      continue;
    }
    const int mode = (line.back() - '0') & O_ACCMODE;
    return mode == O_RDWR || mode == (purpose == OpenFor::reading ? O_RDONLY : O_WRONLY);
  }
  return false;
}

}  // namespace

bool has_open(const ProcFs& proc, Pid pid, const std::set<std::string>& files, OpenFor purpose) {
  const std::unique_ptr<DIR, FdListCloser> dir(::opendir(proc.path(pid, "fd").c_str()));
  size_t looked_at = 0;
  // A process may have a million descriptors, and each costs a readlink().
  while (dir != nullptr && looked_at++ < kMostDescriptors) {
    const dirent* entry = ::readdir(dir.get());
    if (entry == nullptr) {
      break;
    }
    const std::string target = read_link(proc.path(pid, fmt::format("fd/{}", entry->d_name))).value_or("");
    if (files.contains(target) && is_open_for(proc, pid, entry->d_name, purpose)) {
      return true;
    }
  }
  return false;
}

std::vector<Pid> with_open(const ProcFs& proc, const std::set<std::string>& files, OpenFor purpose) {
  std::vector<Pid> out;
  const std::vector<Pid> all = proc.processes();
  std::copy_if(all.begin(), all.end(), std::back_inserter(out),
               [&](Pid pid) { return has_open(proc, pid, files, purpose); });
  std::sort(out.begin(), out.end());
  out.resize(std::min(out.size(), kMostEnds));
  return out;
}

std::vector<Pid> other_end(const ProcFs& proc, std::string_view file, OpenFor purpose) {
  const bool pipe = file.starts_with(kPipe);
  const std::set<std::string> ends = {pipe ? std::string(file) : peer_of_local_socket(file)};
  return ends.begin()->empty() ? std::vector<Pid>()
                               : with_open(proc, ends, pipe ? purpose : OpenFor::anything);
}

// The kernel answers about one socket (sock_diag(7)); /proc/net/unix has no peers.
std::string peer_of_local_socket(std::string_view socket) {
  const auto inode = socket.starts_with(kSocket) && socket.ends_with(']')
                         ? parse_int(socket.substr(kSocket.size(), socket.size() - kSocket.size() - 1))
                         : std::nullopt;
  const UniqueFd link(inode ? ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG) : -1);
  if (!link.valid()) {
    return {};
  }
  struct Request {
    nlmsghdr head;
    unix_diag_req body;
  } request{};
  request.head = {
      .nlmsg_len = sizeof request, .nlmsg_type = SOCK_DIAG_BY_FAMILY, .nlmsg_flags = NLM_F_REQUEST};
  request.body.sdiag_family = AF_UNIX;
  request.body.udiag_states = ~0U;
  request.body.udiag_ino = static_cast<uint32_t>(*inode);
  request.body.udiag_show = UDIAG_SHOW_PEER;
  request.body.udiag_cookie[0] = request.body.udiag_cookie[1] = ~0U;
  alignas(nlmsghdr) std::array<char, 1024> answer{};
  if (::send(link.get(), &request, sizeof request, 0) < 0) {
    return {};
  }
  const ssize_t got = ::recv(link.get(), answer.data(), answer.size(), MSG_DONTWAIT);
  nlmsghdr head{};
  constexpr size_t kBody = NLMSG_HDRLEN + NLMSG_ALIGN(sizeof(unix_diag_msg));
  if (got < static_cast<ssize_t>(kBody)) {
    return {};
  }
  std::memcpy(&head, answer.data(), sizeof head);
  const size_t end = std::min<size_t>(head.nlmsg_len, static_cast<size_t>(got));
  for (size_t at = kBody; head.nlmsg_type == SOCK_DIAG_BY_FAMILY && at + sizeof(rtattr) <= end;) {
    rtattr attribute{};
    std::memcpy(&attribute, answer.data() + at, sizeof attribute);
    uint32_t peer = 0;
    if (attribute.rta_len < RTA_LENGTH(0) || at + attribute.rta_len > end) {
      break;
    }
    if (attribute.rta_type == UNIX_DIAG_PEER && attribute.rta_len >= RTA_LENGTH(sizeof peer)) {
      std::memcpy(&peer, answer.data() + at + RTA_LENGTH(0), sizeof peer);
      return fmt::format("{}{}]", kSocket, peer);
    }
    at += RTA_ALIGN(attribute.rta_len);
  }
  return {};
}

}  // namespace xpurun::base
