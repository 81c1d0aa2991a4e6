// Several nodes' logic over a simulated network with a clock of the test's: no sockets, no files, no waiting.
#pragma once

#include "launcher/nodes/agent/protocol/node_logic.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <variant>
#include <vector>

namespace xpurun::nodes {

using namespace launcher;
using base::s_to_ns;

inline constexpr int64_t kWall = 1'700'000'000'000'000'000;
inline constexpr int64_t kMs = 1'000'000;

class Network {
 public:
  struct Node {
    std::string name;
    std::unique_ptr<NodeLogic> logic;
    std::vector<FromHelper> heard;
    std::map<std::string, std::string> unpacked;  // archives by directory
    StartMessage start;
    uint64_t instance = 0;
    int64_t clock_ahead = 0;
    bool running = true;
    bool linked = true;
  };

  explicit Network(int count, int nodes_known = -1) {
    for (int i = 0; i < count; ++i) {
      add(i, nodes_known < 0 ? count : nodes_known);
    }
  }

  Node& add(int rank, int nodes) {
    auto& node = *nodes_.emplace_back(std::make_unique<Node>());
    node.name = "n" + std::to_string(rank);
    node.start = {.run = "job",
                  .node = node.name,
                  .node_rank = rank,
                  .nodes = nodes,
                  .host = "h" + std::to_string(rank),
                  .local_ranks = {rank},
                  .directory = "/run/" + node.name};
    node.instance = (static_cast<uint64_t>(nodes_.size()) << 32) + 1;
    start_helper(node);
    return node;
  }

  // The helper was killed, and is started again by the same supervisor, which is at that phase.
  void restart(size_t i, NodePhase phase) {
    Node& node = at(i);
    node.instance += 1;
    node.running = true;
    start_helper(node, phase);
  }

  Node& at(size_t i) { return *nodes_[i]; }
  NodeLogic& logic(size_t i) { return *nodes_[i]->logic; }
  base::MonoNs now() const { return now_; }

  // Messages per hundred that get lost.
  void lose(unsigned percent) { loss_ = percent; }

  void link(size_t i, bool up) {
    at(i).linked = up;
    if (up) {
      logic(i).connected("nats://server", 1 << 20);
    } else {
      logic(i).disconnected("the server is gone");
    }
  }

  void run(double seconds) {
    const base::MonoNs end = now_ + s_to_ns(seconds);
    while (now_ < end) {
      now_ += 10 * kMs;
      deliver();
      if (now_ % (250 * kMs) == 0) {
        for (auto& node : nodes_) {
          if (node->running) {
            node->logic->tick();
          }
        }
      }
    }
  }

  // The messages of node `i` to its supervisor since the last call.
  template <typename T>
  std::vector<T> heard(size_t i) {
    std::vector<T> out;
    for (const FromHelper& m : at(i).heard) {
      if (const T* found = std::get_if<T>(&m)) {
        out.push_back(*found);
      }
    }
    std::erase_if(at(i).heard, [](const FromHelper& m) { return std::holds_alternative<T>(m); });
    return out;
  }

  std::string elected_by(size_t i) {
    const auto all = heard<NodesMessage>(i);
    if (all.empty()) {
      return "";
    }
    const auto& nodes = all.back().nodes;
    const auto found = std::find_if(nodes.begin(), nodes.end(), [](const NodeInfo& n) { return n.elected; });
    return found == nodes.end() ? "" : found->node;
  }

  void dumped(size_t i, const std::string& request) {
    logic(i).from_supervisor(DumpedMessage{.request = request, .directory = "dumps/1-hang"});
  }

  std::map<std::string, std::string> archives;  // by run directory
  std::string job_file;                         // before the name of the node, in the copy of each run.json
  std::optional<std::string> job_archive;       // instead of one with these files
  uint64_t messages = 0;

 private:
  void start_helper(Node& node, NodePhase phase = NodePhase::running) {
    node.logic = std::make_unique<NodeLogic>(node.start, node.instance, outlet_of(node));
    node.logic->connected("nats://server", 1 << 20);
    node.logic->from_supervisor(StateMessage{.phase = phase});
  }

  struct Flight {
    std::string to;  // "*": all
    std::string from;
    std::string bytes;
    bool state = false;
    bool elected = false;
  };

  Outlet outlet_of(Node& node) {
    const auto send = [this, &node](const std::string& to, const Body& body) {
      if (node.linked) {
        flights_.push_back({.to = to, .from = node.name, .bytes = encoded(node, body)});
      }
    };
    return {.now = [this] { return now_; },
            .wall_ns = [this, &node] { return kWall + now_ + node.clock_ahead; },
            .to_supervisor = [&node](FromHelper m) { node.heard.push_back(std::move(m)); },
            .to_node = send,
            .to_all = [send](const Body& body) { send("*", body); },
            .publish_state =
                [this, &node](const NodeState& s, bool elected) {
                  flights_.push_back({.to = "*",
                                      .from = node.name,
                                      .bytes = encoded(node, s),
                                      .state = true,
                                      .elected = elected});
                },
            .pack =
                [this](const ArchiveContent& c, const std::function<void(std::string)>& done) {
                  later_.push_back([done, bytes = archives.count(c.run_directory) != 0
                                                      ? archives[c.run_directory]
                                                      : "archive of " + c.run_directory] { done(bytes); });
                },
            .unpack =
                [this, &node](const std::string& directory, std::string archive,
                              const std::function<void(base::Status)>& done) {
                  node.unpacked[directory] = std::move(archive);
                  later_.push_back([done] { done({}); });
                },
            .pack_job =
                [this](const JobContent& c, const std::function<void(std::string)>& done) {
                  std::vector<ArchiveFile> files = {{"gathered", to_line(FromHelper(c.gathered))}};
                  for (const GatheredNode& n : c.gathered.nodes) {
                    files.push_back({n.node + "/run.json", job_file + n.node});
                  }
                  later_.push_back([done, bytes = job_archive.value_or(pack_files(files))] { done(bytes); });
                },
            .unpack_job =
                [this, &node](const std::string& judge, const std::string& archive,
                              const std::function<void(base::Result<GatheredMessage>)>& done) {
                  auto job = read_job({.self = node.name, .judge = judge}, archive);
                  for (const ArchiveFile& file : job ? job->files : std::vector<ArchiveFile>()) {
                    node.unpacked["nodes/" + file.path] = file.bytes;
                  }
                  later_.push_back([done, job = std::move(job)] {
                    done(job ? base::Result<GatheredMessage>(job->gathered) : base::fail(job.error()));
                  });
                }};
  }

  static std::string encoded(const Node& node, const Body& body) {
    return encode({.from = node.name, .instance = node.instance, .body = body});
  }

  void deliver() {
    std::vector<Flight> flights;
    flights.swap(flights_);
    std::vector<std::function<void()>> later;
    later.swap(later_);
    for (const auto& done : later) {
      done();
    }
    for (const Flight& f : flights) {
      for (auto& node : nodes_) {
        const bool addressed = node->name != f.from && (f.to == "*" || f.to == node->name);
        const bool subscribed = !f.state || f.elected || node->logic->hears_all();
        if (addressed && subscribed && node->running && node->linked && random_() % 100 >= loss_) {
          ++messages;
          node->logic->from_server(f.bytes, now_, kWall + now_ + node->clock_ahead);
        }
      }
    }
    for (auto& node : nodes_) {
      if (node->running) {
        node->logic->after_messages();
      }
    }
  }

  base::MonoNs now_ = s_to_ns(1000);
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Flight> flights_;
  std::vector<std::function<void()>> later_;  // results of work in the background
  unsigned loss_ = 0;
  std::mt19937 random_{1};
};

}  // namespace xpurun::nodes
