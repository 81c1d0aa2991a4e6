// Input: a byte with the kind, then bytes that come from the server or from an archive: a message between
// helpers, the text inside a packed one, an archive, the text inside an archive, a line between supervisor
// and helper. What can be read can be written and read again; the logic of a node takes everything and never
// does what a stranger says.
#include "launcher/nodes/agent/protocol/archive.h"
#include "launcher/nodes/agent/protocol/node_logic.h"
#include "launcher/nodes/agent/protocol/packed.h"
#include "launcher/nodes/agent/protocol/wire.h"
#include "launcher/nodes/node_limits.h"
#include "launcher/nodes/node_messages.h"

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

using namespace xpurun;
using namespace xpurun::nodes;

namespace {

constexpr base::MonoNs kNow = 1'000'000'000'000;
constexpr int64_t kWall = 1'700'000'000'000'000'000;

void require(bool good) {
  if (!good) {
    std::abort();
  }
}

// A node that knows one other, elected node n0, whose messages the input may imitate.
void drive(const std::string& bytes) {
  base::MonoNs now = kNow;
  std::vector<std::function<void()>> later;
  Outlet outlet{
      .now = [&now] { return now; },
      .wall_ns = [] { return kWall; },
      .to_supervisor =
          [](const launcher::FromHelper& m) {
            require(launcher::from_helper_from_line(to_line(m)).has_value());
          },
      .to_node =
          [](const std::string&, const Body& body) {
            require(decode(encode({.from = "n1", .instance = 2, .body = body})).has_value());
          },
      .to_all = [](const Body&) {},
      .publish_state = [](const NodeState&, bool) {},
      .pack =
          [&later](const ArchiveContent&, const std::function<void(std::string)>& done) {
            later.push_back([done] { done("archive"); });
          },
      .unpack = [&later](
                    const std::string&, const std::string&,
                    const std::function<void(base::Status)>& done) { later.push_back([done] { done({}); }); },
      .pack_job =
          [&later](const JobContent&, const std::function<void(std::string)>& done) {
            later.push_back([done] { done("archive"); });
          },
      .unpack_job =
          [&later](const std::string& judge, const std::string& archive,
                   const std::function<void(base::Result<launcher::GatheredMessage>)>& done) {
            const auto job = read_job({.self = "n1", .judge = judge}, archive);
            later.push_back([done, job] {
              done(job ? base::Result<launcher::GatheredMessage>(job->gathered) : base::fail(job.error()));
            });
          }};
  NodeLogic node({.run = "job", .node = "n1", .node_rank = 1, .nodes = 3, .directory = "/run"}, 2, outlet);
  node.connected("nats://h", 1 << 20);
  node.from_server(encode({.from = "n0", .instance = 1, .body = NodeState{.node_rank = 0, .eligible = true}}),
                   now, kWall);
  node.from_supervisor(launcher::StalledMessage{.stall = 1});
  node.tick();
  node.from_server(bytes, now, kWall);
  for (int i = 0; i < 4; ++i) {
    now += base::s_to_ns(5);
    for (const auto& done : std::exchange(later, {})) {
      done();
    }
    node.tick();
    node.from_server(bytes, now, kWall);
    node.after_messages();
  }
}

void read_message(const std::string& bytes) {
  const auto message = decode(bytes);
  if (message) {
    const std::string written = encode(*message);
    const auto again = decode(written);
    require(again && encode(*again) == written);
  }
  drive(bytes);
}

void read_archive(const std::string& bytes) {
  const auto files = unpack_files(bytes);
  if (!files) {
    return;
  }
  for (const ArchiveFile& file : *files) {
    require(safe_path(file.path) && file.path[0] != '/' &&
            ("/" + file.path + "/").find("/../") == std::string::npos);
  }
  const auto again = unpack_files(pack_files(*files));
  require(again && again->size() == files->size());
  if (const auto job = read_job({.self = "n1", .judge = "n0"}, bytes)) {
    for (const ArchiveFile& file : job->files) {
      const std::string node = file.path.substr(0, file.path.find('/'));
      require(safe_path(file.path) && valid_node_name(node) && node != "n1");
    }
  }
}

void read_line(const std::string& text) {
  if (const auto message = launcher::to_helper_from_line(text)) {
    require(launcher::to_helper_from_line(to_line(*message)).has_value());
  }
  if (const auto message = launcher::from_helper_from_line(text)) {
    require(launcher::from_helper_from_line(to_line(*message)).has_value());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0]) {
    case 'p':
      read_message("Z" + pack(text));
      break;
    case 'a':
      read_archive(text);
      break;
    case 't':
      read_archive(pack(text));
      break;
    case 'l':
      read_line(text);
      break;
    default:
      read_message(text);
  }
  return 0;
}
