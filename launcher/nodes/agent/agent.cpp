#include "launcher/nodes/agent/agent.h"

#include "common/base/os/host.h"
#include "common/base/os/random.h"
#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "launcher/nodes/agent/secret.h"
#include "launcher/nodes/node_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <sys/epoll.h>
#include <utility>

namespace xpurun::nodes {

using namespace launcher;

namespace {

constexpr double kTickS = 0.25;
constexpr double kSecretS = 0.5;
constexpr double kLastWordsS = 1.5;
// The other nodes still send their last messages through the server of this node.
constexpr double kLingerS = 5;
constexpr int kFlushMs = 1000;

bool known_scheme(const std::string& url) {
  const size_t at = url.find("://");
  return at == std::string::npos || url.starts_with("nats://") || url.starts_with("tls://");
}

}  // namespace

Agent::Agent(EventLoop& loop, base::UniqueFd socket)
    : loop_(loop),
      supervisor_(
          loop, std::move(socket), [this](const ToHelper& m) { from_supervisor(m); },
          [this] {
            if (!leaving_) {
              loop_.stop();
            }
          }) {}

Agent::~Agent() {
  // Callbacks and jobs must end before the objects that they use.
  if (transport_) {
    loop_.remove(transport_->fd());
  }
  if (background_) {
    loop_.remove(background_->fd());
  }
  background_.reset();
  transport_.reset();
  server_.reset();
  if (!secret_file_.empty()) {
    remove_secret(secret_file_, secret_);
  }
}

base::Result<int> Agent::run() {
  XPURUN_TRY(supervisor_.start());
  XPURUN_TRY(loop_.run());
  supervisor_.flush(kFlushMs);
  return 0;
}

void Agent::fail(const std::string& reason) {
  supervisor_.send(FailedMessage{.reason = reason});
  leaving_ = true;
  loop_.stop();
}

void Agent::from_supervisor(const ToHelper& message) {
  if (leaving_) {
    return;
  }
  if (const auto* start = std::get_if<StartMessage>(&message)) {
    if (!logic_) {
      begin(*start);
    }
    return;
  }
  if (!logic_) {
    base::log_warn("the supervisor's first message was no start");
    return;
  }
  logic_->from_supervisor(message);
  if (logic_->ended()) {
    leave();
  }
}

base::Status Agent::prepare(const StartMessage& start) {
  if (!valid_node_name(start.node)) {
    return base::fail(fmt::format("'{}' cannot be the name of a node: letters, digits and _.:@+- are allowed",
                                  base::sanitize(start.node)));
  }
  if (start.run.empty() || start.run.size() > kLongestName) {
    return base::fail(
        "the job has no identifier that its nodes share, or too long a one; give one with --name");
  }
  if (start.node_rank < 0 || start.node_rank >= kMostNodes || start.directory.empty() ||
      start.directory[0] != '/') {
    return base::fail("node_rank or directory of the start message is not valid");
  }
  if (!start.automatic && (start.url.empty() || !known_scheme(start.url))) {
    return base::fail(
        fmt::format("'{}' is not a URL of a NATS server such as nats://HOST:PORT or tls://HOST:PORT",
                    base::sanitize(start.url)));
  }
  if (start.tls_cert.empty() != start.tls_key.empty()) {
    return base::fail("a TLS certificate needs its key, and a key its certificate");
  }
  if (instance_ = start.instance; instance_ == 0) {
    XPURUN_TRY_ASSIGN(instance_, base::random_number());
  }
  return {};
}

void Agent::begin(const StartMessage& start) {
  if (const auto good = prepare(start); !good) {
    fail(to_line(good.error()));
    return;
  }
  start_ = start;
  prefix_ = fmt::format("xpurun.{}.", subject_word(start_.run));
  logic_ = std::make_unique<NodeLogic>(start_, instance_, make_outlet());
  background_ = std::make_unique<Background>();
  transport_ = std::make_unique<Transport>();
  for (const int fd : {background_->fd(), transport_->fd()}) {
    const bool files = fd == background_->fd();
    if (const auto added = loop_.add(
            fd, EPOLLIN, [this, files](uint32_t) { files ? background_->run_done() : take_received(); });
        !added) {
      fail(to_line(added.error()));
      return;
    }
  }
  transport_->subscribe(prefix_ + "all");
  transport_->subscribe(prefix_ + "elected");
  transport_->subscribe(prefix_ + "to." + subject_word(start_.node));
  subscribe_states();
  if (!start_.automatic) {
    connect(start_.url, start_.token);
  } else if (start_.node_rank == 0) {
    start_server();
  } else {
    look_for_secret();
  }
  tick();
}

void Agent::start_server() {
  const auto token = base::random_token();
  if (!token) {
    fail(to_line(token.error()));
    return;
  }
  const std::string secret_file =
      start_.secret_file.empty() ? default_secret_file(start_.directory, start_.run) : start_.secret_file;
  const auto ready = [this, token = *token, secret_file](const std::string& url) {
    // Written only when the server answers: the other nodes connect as soon as they see the file.
    secret_ = {.run = start_.run, .mark = start_.mark, .url = url, .token = token};
    if (const auto written = write_secret(secret_file, secret_); !written) {
      fail(to_line(written.error()));
      return;
    }
    secret_file_ = secret_file;
    connect(url, token);
  };
  server_ = std::make_unique<Server>(
      loop_, start_.mark.address.empty() ? base::host_name() : start_.mark.address,
      start_.directory + "/nats-server", *token,
      Server::Handlers{.ready = ready, .failed = [this](const std::string& reason) { fail(reason); }});
  if (const auto started = server_->start(); !started) {
    fail(to_line(started.error()));
  }
}

void Agent::look_for_secret() {
  const std::string path =
      start_.secret_file.empty() ? default_secret_file(start_.directory, start_.run) : start_.secret_file;
  const auto secret = read_secret(path, start_.run, start_.mark);
  if (!secret) {
    logic_->unreachable(to_line(secret.error()));
  } else if (*secret) {
    connect((*secret)->url, (*secret)->token);
    return;
  } else {
    logic_->unreachable(fmt::format(
        "the node of rank 0 has not written {} yet, which all nodes must share (--nats-secret)", path));
  }
  secret_timer_.after(kSecretS, [this] { look_for_secret(); });
}

void Agent::connect(const std::string& url, const std::string& token) {
  ServerSettings settings{.name = fmt::format("xpurun {}", start_.node),
                          .token = token,
                          .user = start_.user,
                          .password = start_.password,
                          .creds = start_.creds,
                          .tls_ca = start_.tls_ca,
                          .tls_cert = start_.tls_cert,
                          .tls_key = start_.tls_key};
  for (const std::string_view each : base::split(url, ',')) {
    if (const std::string_view trimmed = base::trim(each); !trimmed.empty()) {
      settings.urls.emplace_back(trimmed);
    }
  }
  transport_->configure(std::move(settings));
}

Outlet Agent::make_outlet() {
  return {
      .now = [this] { return loop_.now(); },
      .wall_ns = [] { return base::wall_ns(); },
      .to_supervisor = [this](const FromHelper& m) { supervisor_.send(m); },
      .to_node = [this](const std::string& node,
                        Body body) { send("to." + subject_word(node), std::move(body)); },
      .to_all = [this](Body body) { send("all", std::move(body)); },
      .publish_state = [this](const NodeState& s, bool elected) { publish_state(s, elected); },
      .pack =
          [this](ArchiveContent content, std::function<void(std::string)> done) {
            background_->add([content = std::move(content), done = std::move(done)]() -> Background::Done {
              size_t left_out = 0;
              std::string archive = pack_dump(content, left_out);
              return [archive = std::move(archive), done]() mutable { done(std::move(archive)); };
            });
          },
      .unpack =
          [this](std::string directory, std::string archive, std::function<void(base::Status)> done) {
            background_->add([directory = std::move(directory), archive = std::move(archive),
                              done = std::move(done)]() -> Background::Done {
              return [status = unpack_into(directory, archive), done] { done(status); };
            });
          },
      .pack_job =
          [this](JobContent content, std::function<void(std::string)> done) {
            background_->add([content = std::move(content), done = std::move(done)]() -> Background::Done {
              return [archive = pack_job(content), done]() mutable { done(std::move(archive)); };
            });
          },
      .unpack_job =
          [this](std::string judge, std::string archive,
                 std::function<void(base::Result<GatheredMessage>)> done) {
            background_->add([reader = JobReader{.self = start_.node, .judge = std::move(judge)},
                              directory = start_.directory, archive = std::move(archive),
                              done = std::move(done)]() -> Background::Done {
              return [result = unpack_job(directory, reader, archive), done] { done(result); };
            });
          }};
}

void Agent::send(const std::string& subject, Body body) {
  transport_->publish(prefix_ + subject,
                      encode({.from = start_.node, .instance = instance_, .body = std::move(body)}));
}

void Agent::publish_state(const NodeState& state, bool elected) {
  const std::string bytes = encode({.from = start_.node, .instance = instance_, .body = state});
  transport_->publish(prefix_ + "state." + subject_word(start_.node), bytes);
  if (elected) {
    transport_->publish(prefix_ + "elected", bytes);
  }
}

void Agent::subscribe_states() {
  if (logic_->hears_all() == hears_all_) {
    return;
  }
  hears_all_ = logic_->hears_all();
  if (hears_all_) {
    transport_->subscribe(prefix_ + "state.*");
  } else {
    transport_->unsubscribe(prefix_ + "state.*");
  }
}

void Agent::take_received() {
  for (const Received& received : transport_->take()) {
    take(received);
  }
  logic_->after_messages();
  logic_->count_dropped(transport_->take_dropped());
}

void Agent::take(const Received& received) {
  // The server of `--nats auto` may come back elsewhere with another token.
  const bool other_server = start_.automatic && start_.node_rank != 0;
  switch (received.event) {
    case TransportEvent::message:
      logic_->from_server(received.text, received.at, received.wall_ns);
      break;
    case TransportEvent::connected:
      ever_connected_ = true;
      logic_->connected(received.text, received.number);
      break;
    case TransportEvent::lost:
      logic_->disconnected(received.text);
      break;
    case TransportEvent::refused:
      if (!ever_connected_ && !start_.automatic) {
        fail(fmt::format("the NATS server refuses this node: {}", received.text));
        return;
      }
      [[fallthrough]];
    case TransportEvent::unreachable:
      logic_->unreachable(received.text);
      if (other_server) {
        look_for_secret();
      }
      break;
  }
}

void Agent::tick() {
  if (leaving_ && (loop_.now() >= leave_at_ || !logic_->others_work())) {
    loop_.stop();
    return;
  }
  logic_->tick();
  subscribe_states();
  loop_.after(kTickS, [this] { tick(); });
}

void Agent::leave() {
  leaving_ = true;
  if (server_ && logic_->others_work()) {
    leave_at_ = loop_.now() + base::s_to_ns(kLingerS);
    return;
  }
  transport_->finish(kLastWordsS);
  loop_.stop();
}

}  // namespace xpurun::nodes
