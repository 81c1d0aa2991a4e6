#include "launcher/nodes/agent/server.h"

#include "common/base/os/io.h"
#include "common/base/os/program.h"
#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "common/model/json/json_text.h"
#include "common/model/json_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace xpurun::nodes {

namespace {

constexpr double kLookS = 0.05;
constexpr double kLookLaterS = 1;
constexpr double kStartS = 10;

// Letters, digits and what addresses and zones of IPv6 contain: nothing that could change the configuration
// file.
bool plain_address(const std::string& address) {
  return !address.empty() && std::all_of(address.begin(), address.end(), [](unsigned char c) {
    return c < 0x80 && (std::isalnum(c) != 0 ||
                        std::string_view(".:-_%").find(static_cast<char>(c)) != std::string_view::npos);
  });
}

// Debian installs the server in /usr/sbin, which is not in the PATH of a user.
base::Result<std::string> find_server() {
  auto found = base::find_program("nats-server");
  for (const char* place : {"/usr/sbin/nats-server", "/usr/local/sbin/nats-server"}) {
    if (!found) {
      found = base::find_program(place);
    }
  }
  return found;
}

std::string tail_of(const std::string& path) {
  const auto text = base::read_regular_file(path);
  if (!text) {
    return "";
  }
  const auto lines = base::split(base::trim(*text), '\n');
  return lines.empty() ? "" : base::sanitize(lines.back());
}

}  // namespace

Server::Server(launcher::EventLoop& loop, std::string address, std::string directory, std::string token,
               Handlers handlers)
    : loop_(loop),
      address_(std::move(address)),
      directory_(std::move(directory)),
      token_(std::move(token)),
      handlers_(std::move(handlers)) {}

Server::~Server() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

base::Status Server::start() {
  if (!plain_address(address_)) {
    return base::fail(fmt::format("'{}' is not an address for the server", base::sanitize(address_)));
  }
  auto program = find_server();
  if (!program) {
    return base::fail(
        "--nats auto needs the program nats-server (Debian package nats-server) on the node of rank 0");
  }
  program_ = *program;
  XPURUN_TRY(base::make_dirs(directory_));
  return spawn();
}

base::Status Server::spawn() {
  const std::string config = directory_ + "/nats-server.conf";
  const std::string log = directory_ + "/nats-server.log";
  // The token is in a file of mode 0600, because all users can read a process's arguments.
  XPURUN_TRY(base::write_file_atomic(
      config, fmt::format("host: \"{}\"\nport: {}\nauthorization {{ token: \"{}\" }}\nports_file_dir: {}\n",
                          address_, port_, token_, model::json_text(nlohmann::json(directory_)))));
  const base::UniqueFd out(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!out) {
    return base::fail_errno("cannot open " + log);
  }
  std::vector<std::string> env;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    env.emplace_back(*variable);
  }
  // PDEATHSIG: the server must not outlive the helper, not even a killed helper. The kernel sends the signal
  // when the thread that forked ends, which is the loop's thread and lives as long as the helper.
  XPURUN_TRY_ASSIGN(pid_, base::start_program({.path = program_,
                                               .argv = {program_, "-c", config},
                                               .env = std::move(env),
                                               .out = out.get(),
                                               .err = out.get(),
                                               .own_group = true,
                                               .before_exec = [] { ::prctl(PR_SET_PDEATHSIG, SIGTERM); }}));
  started_ = loop_.now();
  listens_ = false;
  timer_.after(kLookS, [this] { look(); });
  return {};
}

std::string Server::url_when_ready() const {
  const std::string ports = fmt::format("{}/nats-server_{}.ports", directory_, pid_);
  const auto text = base::read_regular_file(ports);
  const nlohmann::json j = text ? model::parse_json(*text) : nlohmann::json();
  const nlohmann::json* urls = j.is_object() ? model::member(j, "nats") : nullptr;
  if (urls == nullptr || !urls->is_array() || urls->empty() || !urls->front().is_string()) {
    return "";
  }
  const auto& url = urls->front().get_ref<const std::string&>();
  const std::string port = url.substr(url.rfind(':') + 1);
  const bool six = address_.find(':') != std::string::npos;
  return fmt::format("nats://{}{}{}:{}", six ? "[" : "", address_, six ? "]" : "", port);
}

void Server::look() {
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) == pid_) {
    pid_ = 0;
    const std::string why = tail_of(directory_ + "/nats-server.log");
    if (!ever_listened_) {
      handlers_.failed(fmt::format("nats-server cannot listen on {}: {}", address_, why));
      return;
    }
    base::log_warn("nats-server has ended and is started again: {}", why);
    timer_.after(kLookLaterS, [this] {
      if (const auto again = spawn(); !again) {
        handlers_.failed(to_line(again.error()));
      }
    });
    return;
  }
  if (!listens_) {
    const std::string url = url_when_ready();
    if (!url.empty()) {
      listens_ = true;
      ever_listened_ = true;
      port_ = url.substr(url.rfind(':') + 1);
      handlers_.ready(url);
    } else if (loop_.now() - started_ > base::s_to_ns(kStartS)) {
      handlers_.failed(fmt::format("nats-server did not begin to listen within {:.0f} s", kStartS));
      return;
    }
  }
  timer_.after(listens_ ? kLookLaterS : kLookS, [this] { look(); });
}

}  // namespace xpurun::nodes
