#include "launcher/control/notice_server.h"

#include "common/base/os/procfs.h"
#include "common/base/output/log.h"
#include "launcher/os/unix_socket.h"

#include <cstring>
#include <sys/socket.h>
#include <utility>

namespace xpurun::launcher {

namespace {

// Each process has one connection while it crashes or attaches. Beyond the limit, a process crashes without
// its dump.
constexpr size_t kMostClients = 4096;
// The notice follows the connection at once.
constexpr double kPatienceS = 30;

// The sender knows its thread by the number in its own PID namespace.
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

NoticeServer::NoticeServer(EventLoop& loop, Handler handler)
    : handler_(std::move(handler)),
      clients_(loop, {.most_clients = kMostClients, .too_many = {}, .request_s = kPatienceS},
               {.received =
                    [this](Id id, std::string& input) {
                      // SOCK_SEQPACKET: one message each time.
                      received(id, std::exchange(input, {}));
                    },
                .input_ended = [this](Id id, const std::string&) { clients_.drop(id); },
                .closed = [this](Id id) { closed(id); }}) {}

base::Status NoticeServer::listen(const std::string& path) {
  XPURUN_TRY_ASSIGN(base::UniqueFd listener, listen_unix(path, SOCK_SEQPACKET));
  return clients_.start(std::move(listener));
}

void NoticeServer::received(Id id, std::string_view message) {
  wire::Notice notice{};
  if (message.size() >= sizeof notice) {
    std::memcpy(&notice, message.data(), sizeof notice);
  }
  const bool has_text = notice.kind == static_cast<uint16_t>(wire::NoticeKind::python);
  const bool whole = message.size() == sizeof notice || has_text;
  // The kernel supplies the pid (SO_PEERCRED), in this process's PID namespace; the message cannot forge it.
  const auto peer = peer_of(clients_.descriptor(id));
  if (!whole || notice.magic != wire::kNoticeMagic || notice.version != wire::kNoticeVersion || !peer ||
      peer->pid <= 0) {
    base::log_debug("ignored a malformed notice of {} bytes", message.size());
    clients_.drop(id);
    return;
  }
  if (has_text) {
    clients_.drop(id);
    text_handler_(peer->pid, message.substr(sizeof notice));
    return;
  }
  const bool crash = notice.kind == static_cast<uint16_t>(wire::NoticeKind::crash);
  const base::Tid tid = crash ? translate_tid(peer->pid, notice.tid) : peer->pid;
  if (crash) {
    // Held until release(). The process stops waiting after its own time limit.
    held_.emplace(peer->pid, id);
    clients_.clear_deadline(id);
  } else if (notice.kind == static_cast<uint16_t>(wire::NoticeKind::attach) ||
             notice.kind == static_cast<uint16_t>(wire::NoticeKind::python_attach) ||
             notice.kind == static_cast<uint16_t>(wire::NoticeKind::marks_attach) ||
             notice.kind == static_cast<uint16_t>(wire::NoticeKind::mpi_attach) ||
             notice.kind == static_cast<uint16_t>(wire::NoticeKind::heap_attach) ||
             notice.kind == static_cast<uint16_t>(wire::NoticeKind::capture_attach)) {
    // The handler answers each of these at once, so that a process never has two of them open here.
    attaching_.emplace(peer->pid, id);
  } else {
    clients_.drop(id);
  }
  handler_(notice, peer->pid, tid);
}

void NoticeServer::closed(Id id) {
  std::erase_if(held_, [id](const auto& entry) { return entry.second == id; });
  std::erase_if(attaching_, [id](const auto& entry) { return entry.second == id; });
}

void NoticeServer::release(base::Pid pid) {
  for (auto it = held_.find(pid); it != held_.end(); it = held_.find(pid)) {
    const Id id = it->second;
    // The sender may have run out of patience.
    clients_.send(id, "\1");
    clients_.drop(id);
  }
}

void NoticeServer::answer_attach(base::Pid pid, int descriptor) {
  for (auto it = attaching_.find(pid); it != attaching_.end(); it = attaching_.find(pid)) {
    const Id id = it->second;
    if (descriptor >= 0) {
      // A process that has died meanwhile needs no segment.
      (void)send_descriptor(clients_.descriptor(id), descriptor, 's');
    }
    clients_.drop(id);
  }
}

void NoticeServer::release_all() {
  while (!held_.empty()) {
    release(held_.begin()->first);
  }
}

}  // namespace xpurun::launcher
