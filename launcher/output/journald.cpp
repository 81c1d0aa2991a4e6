#include "launcher/output/journald.h"

#include "common/base/os/fd.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstring>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace xpurun::launcher {

namespace {

constexpr size_t kMostValue = 4096;  // so that the entry fits into one datagram

// Priorities of syslog(3).
int priority_of(const model::Verdict& v) {
  const bool well = v.kind == model::VerdictKind::none || v.kind == model::VerdictKind::running;
  return well ? 6 : v.level == model::VerdictLevel::suspected ? 4 : 3;
}

// A value with line breaks is preceded by its length, 64 bits, little-endian.
void add(std::string& entry, std::string_view name, std::string_view value) {
  value = value.substr(0, kMostValue);
  if (value.empty()) {
    return;
  }
  entry += name;
  if (value.find('\n') == std::string_view::npos) {
    entry += '=';
  } else {
    entry += '\n';
    for (unsigned shift = 0; shift < 64; shift += 8) {
      entry += static_cast<char>(static_cast<uint64_t>(value.size()) >> shift & 0xff);
    }
  }
  entry += value;
  entry += '\n';
}

}  // namespace

bool logs_to_journal(const char* journal_stream, int stderr_fd) {
  struct stat about {};
  unsigned long long device = 0;
  unsigned long long inode = 0;
  // Programs inherit JOURNAL_STREAM even if their standard error has been redirected (systemd.exec(5)).
  return journal_stream != nullptr && std::sscanf(journal_stream, "%llu:%llu", &device, &inode) == 2 &&
         ::fstat(stderr_fd, &about) == 0 && about.st_dev == device && about.st_ino == inode;
}

std::string journal_entry(const model::Verdict& v, std::string_view run_dir) {
  std::string out;
  add(out, "MESSAGE", base::sanitize(v.sentence));
  add(out, "PRIORITY", std::to_string(priority_of(v)));
  add(out, "SYSLOG_IDENTIFIER", "xpurun");
  add(out, "MESSAGE_ID", kVerdictMessageId);
  add(out, "XPURUN_VERDICT", v.id);
  add(out, "XPURUN_KIND", name_of(v.kind));
  add(out, "XPURUN_CONFIDENCE", name_of(v.confidence));
  for (const base::Rank rank : v.ranks.ranks()) {
    if (out.size() < 4 * kMostValue) {
      add(out, "XPURUN_RANK", std::to_string(rank));
    }
  }
  add(out, "XPURUN_RUN_DIR", run_dir);
  std::string evidence;
  for (const std::string& line : v.evidence) {
    evidence += (evidence.empty() ? "" : "\n") + base::sanitize(line);
  }
  add(out, "XPURUN_EVIDENCE", evidence);
  add(out, "XPURUN_NEXT", base::sanitize(v.next.line()));
  add(out, "CODE_FILE", base::sanitize(v.where.file));
  add(out, "CODE_LINE", v.where.line > 0 ? std::to_string(v.where.line) : std::string());
  add(out, "CODE_FUNC", base::sanitize(v.where.function));
  return out;
}

void send_to_journal(const std::string& entry, const char* socket_path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (std::strlen(socket_path) >= sizeof(address.sun_path)) {
    return;
  }
  std::strcpy(address.sun_path, socket_path);
  const base::UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd) {
    (void)::sendto(fd.get(), entry.data(), entry.size(), MSG_NOSIGNAL,
                   reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  }
}

}  // namespace xpurun::launcher
