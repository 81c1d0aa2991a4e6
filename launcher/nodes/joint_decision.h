// JointDecision: one verdict for all nodes. A state machine between this node's claims, the messages of the
// helper, and time limits: who is asked, when this node dumps, whose verdict counts, and when this node
// judges alone. Knows no process and no file. Event loop's thread only.
#pragma once

#include "launcher/nodes/node_messages.h"
#include "launcher/os/timer.h"

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace xpurun::launcher {

class JointDecision {
 public:
  struct Limits {
    double order_s = 1;     // from a claim to the order to dump; then this node dumps by itself
    double verdict_s = 35;  // from a claim, or from the last order, to the verdict
  };
  struct Hooks {
    std::function<void(const ToHelper&)> send;
    // Take a dump now, then call dumped() with `request`. Without a request this is this node's own dump,
    // because the others may not answer.
    std::function<void(const DumpMessage&)> dump;
    // Elected node: make the report over all nodes, and call merged().
    std::function<void(const GatheredMessage&)> merge;
    // The job's verdict. The message names the node that has judged; no name: this node.
    std::function<void(const VerdictMessage&)> decided;
    std::function<void(const ActMessage&)> act;
    // No verdict of the job will come: this node judges alone.
    std::function<void(const std::string& why)> judge_alone;
  };

  JointDecision(EventLoop& loop, Limits limits, Hooks hooks)
      : loop_(loop), limits_(limits), hooks_(std::move(hooks)) {}
  JointDecision(const JointDecision&) = delete;
  JointDecision& operator=(const JointDecision&) = delete;

  // From the helper.
  void joined(const JoinedMessage& message);
  void cut_off(const std::string& reason);
  void nodes_changed(NodesMessage message) { nodes_ = std::move(message.nodes); }
  void ordered(const DumpMessage& order);
  void gathered(const GatheredMessage& message);
  void verdict_came(const VerdictMessage& message);
  void act_came(const ActMessage& message) { hooks_.act(message); }

  // This node has a reason for a dump of all nodes. False: there is no other node to ask.
  bool claim(ClaimReason why, std::vector<base::Rank> ranks);
  // The dump for `request` is on disk with its evidence.
  void dumped(const std::string& request, const std::string& directory);
  // The report over all nodes has been made, or, without a verdict, could not be made.
  void merged(const std::optional<model::Verdict>& verdict);
  // The helper has been restarted: an open claim is sent again.
  void repeat_claim();
  // The job has ended, and the caller of xpurun waits for the exit status: the verdict must come within this
  // time.
  void hurry(double seconds);

  // A claim or an order is open: no verdict of this node may be reported.
  bool is_open() const { return open_; }
  // The same, and a failure is the reason.
  bool is_open_on_failure() const { return open_ && failure_; }
  bool is_joined() const { return joined_; }
  const std::string& why_alone() const { return why_alone_; }
  const std::string& server() const { return server_; }
  const std::vector<NodeInfo>& nodes() const { return nodes_; }
  // The living nodes, without this node.
  size_t others() const;
  // Whether a living node other than this one has ranks that have been still for the timeout.
  bool others_stalled() const;
  // Whether a living node other than this one has ranks that neither have ended nor are being ended.
  bool others_work() const;

  void set_node(std::string name) { node_ = std::move(name); }
  const std::string& node() const { return node_; }

 private:
  void open();
  void close();
  void give_up(const std::string& why);
  void restart_limit();

  EventLoop& loop_;
  Limits limits_;
  Hooks hooks_;
  std::string node_;
  bool joined_ = false;
  std::string server_;
  std::string why_alone_;
  int nodes_at_joining_ = 0;
  std::vector<NodeInfo> nodes_;

  bool open_ = false;
  bool failure_ = false;  // since open, of a claim or the last order
  bool claimed_ = false;  // by this node, since open
  StalledMessage claim_;  // the last one
  std::string request_;   // of the last order
  bool merging_ = false;
  base::MonoNs hurried_until_ = 0;  // 0: no hurry
  Timer order_timer_{loop_};
  Timer limit_timer_{loop_};
  std::list<Timer> moments_;  // ordered dumps that are to come
};

}  // namespace xpurun::launcher
