#include "launcher/control/control_client.h"

#include "common/base/clock.h"
#include "common/base/os/fd.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/json_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace xpurun::launcher {

namespace {

// A status of ten thousand ranks has a few MiB.
constexpr size_t kMaxReply = size_t{32} << 20;

base::Error nobody_there(base::Error e) {
  e.id = "E-CONTROL";
  e.cause = base::cli_text("the xpurun of this run has ended, or was killed");
  return e;
}

base::Result<base::UniqueFd> connect_to(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return base::fail(base::Error{.what = base::cli_text("'{}' is not the path of a control socket", path),
                                  .id = "E-CONTROL"});
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  base::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) {
    return base::fail_errno(base::cli_text("cannot create a socket"));
  }
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return base::fail(nobody_there(base::fail_errno(base::cli_text("cannot connect to {}", path)).value()));
  }
  return fd;
}

base::Result<std::string> read_line(int fd, double timeout_s) {
  const base::MonoNs end = base::mono_ns() + base::s_to_ns(timeout_s);
  std::string line;
  for (;;) {
    const int64_t left_ms = (end - base::mono_ns()) / 1'000'000;
    pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::clamp<int64_t>(left_ms, 0, 1'000'000)));
    if (ready < 0 && errno == EINTR) {
      continue;
    }
    if (ready <= 0) {
      return base::fail(base::Error{
          .what = base::cli_text("no answer from xpurun within {}", base::human_duration(timeout_s)),
          .id = "E-CONTROL",
          .hint = "see whether it is stopped: ps -o pid,stat,args -C xpurun"});
    }
    char buf[4096];
    const ssize_t n = ::recv(fd, buf, sizeof buf, 0);
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n <= 0 || line.size() > kMaxReply) {
      return base::fail(
          nobody_there({.what = base::cli_text("xpurun closed the connection without an answer")}));
    }
    line.append(buf, static_cast<size_t>(n));
    if (const size_t newline = line.find('\n'); newline != std::string::npos) {
      line.resize(newline);
      return line;
    }
  }
}

}  // namespace

base::Result<std::string> ControlClient::ask(const std::string& request, double timeout_s) const {
  XPURUN_TRY_ASSIGN(const base::UniqueFd fd, connect_to(path_));
  const std::string line = request + "\n";
  // Requests are far smaller than a socket buffer: one send takes all of it or fails.
  if (::send(fd.get(), line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size())) {
    return base::fail(nobody_there(base::fail_errno(base::cli_text("cannot send the request")).value()));
  }
  XPURUN_TRY_ASSIGN(std::string reply, read_line(fd.get(), timeout_s));
  const auto json = model::parse_json(reply);
  if (!json.is_object() || !json.contains("ok") || !json["ok"].is_boolean()) {
    return base::fail(
        base::Error{.what = base::cli_text("xpurun sent an invalid answer"), .id = "E-CONTROL"});
  }
  if (!json["ok"].get<bool>()) {
    const auto why = json.find("error");
    const std::string text =
        why != json.end() && why->is_string() ? why->get<std::string>() : "no reason given";
    return base::fail(
        base::Error{.what = base::cli_text("xpurun refused: {}", base::sanitize(text)), .id = "E-CONTROL"});
  }
  return reply;
}

base::Result<std::string> ControlClient::dump(double timeout_s) const {
  XPURUN_TRY_ASSIGN(const std::string reply, ask(R"({"cmd":"dump","why":"request"})", timeout_s));
  const auto json = model::parse_json(reply);
  const auto dir = json.find("dir");
  if (dir == json.end() || !dir->is_string()) {
    return base::fail(
        base::Error{.what = base::cli_text("xpurun did not report where the dump is"), .id = "E-CONTROL"});
  }
  return dir->get<std::string>();
}

base::Result<std::string> ControlClient::status(double timeout_s) const {
  return ask(R"({"cmd":"status","job":true})", timeout_s);
}

}  // namespace xpurun::launcher
