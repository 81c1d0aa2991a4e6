#include "launcher/output/termination_message.h"

#include "common/base/os/fd.h"
#include "common/base/output/log.h"
#include "common/base/strings.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace xpurun::launcher {

std::string termination_message(const model::Verdict& verdict) {
  // At most half of the limit, so that evidence and next step have room.
  std::string out = base::sanitize(verdict.sentence).substr(0, kTerminationBytes / 2);
  out += '\n';
  std::string last =
      verdict.next.empty() ? std::string() : "next: " + base::sanitize(verdict.next.line()) + "\n";
  if (out.size() + last.size() > kTerminationBytes) {
    last.clear();
  }
  for (const std::string& evidence : verdict.evidence) {
    const std::string line = base::sanitize(evidence) + "\n";
    if (out.size() + line.size() + last.size() > kTerminationBytes) {
      break;
    }
    out += line;
  }
  return out + last;
}

void write_termination_message(const std::string& path, const std::string& message) {
  const base::UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW, 0644));
  struct stat about {};
  if (!fd || ::fstat(fd.get(), &about) != 0 || !S_ISREG(about.st_mode) || ::ftruncate(fd.get(), 0) != 0 ||
      ::write(fd.get(), message.data(), message.size()) < 0) {
    base::log_warn("no termination message in {}: {}", path, std::strerror(errno));
  }
}

}  // namespace xpurun::launcher
