#include "launcher/processes/error_stream.h"

#include "common/base/strings.h"

namespace xpurun::launcher {

using model::StreamKind;

model::ErrorStream error_stream_of(const base::ProcFs& proc, base::Pid pid) {
  std::string target = proc.link(pid, "fd/2");
  if (target.starts_with("pipe:") || target.starts_with("socket:")) {
    return {.kind = StreamKind::pipe};
  }
  if (target.starts_with("/dev/pts/") || target.starts_with("/dev/tty") || target == "/dev/console") {
    return {.kind = StreamKind::terminal};
  }
  if (!target.starts_with('/') || target.starts_with("/dev/") || target.ends_with(" (deleted)")) {
    return {.kind = target.empty() ? StreamKind::unknown : StreamKind::other};
  }
  return {.kind = StreamKind::file, .path = std::move(target)};
}

// The descriptor shares its offset with all processes that have inherited it.
int64_t error_position_of(const base::ProcFs& proc, base::Pid pid) {
  const std::string text = proc.text(pid, "fdinfo/2");
  for (const std::string_view line : base::split(text, '\n')) {
    if (line.starts_with("pos:")) {
      return base::parse_int(base::trim(line.substr(4))).value_or(-1);
    }
  }
  return -1;
}

}  // namespace xpurun::launcher
