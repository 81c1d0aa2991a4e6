#include "launcher/nodes/joint_decision.h"

#include "common/base/clock.h"
#include "common/base/output/log.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace xpurun::launcher {

namespace {

// An order to dump at a later moment than this comes from a wrong clock.
constexpr double kFarthestMomentS = 5;

}  // namespace

void JointDecision::joined(const JoinedMessage& message) {
  joined_ = true;
  server_ = message.server;
  nodes_at_joining_ = message.nodes;
  why_alone_.clear();
}

void JointDecision::cut_off(const std::string& reason) {
  joined_ = false;
  why_alone_ = reason;
  give_up(reason);
}

size_t JointDecision::others() const {
  if (nodes_.empty()) {
    return static_cast<size_t>(std::max(0, nodes_at_joining_ - 1));
  }
  return static_cast<size_t>(std::count_if(nodes_.begin(), nodes_.end(),
                                           [this](const NodeInfo& n) { return n.alive && n.node != node_; }));
}

bool JointDecision::others_stalled() const {
  return joined_ && std::any_of(nodes_.begin(), nodes_.end(), [this](const NodeInfo& n) {
           return n.alive && n.node != node_ && n.phase == NodePhase::stalled;
         });
}

bool JointDecision::others_work() const {
  return joined_ && std::any_of(nodes_.begin(), nodes_.end(), [this](const NodeInfo& n) {
           return n.alive && n.node != node_ && n.phase < NodePhase::ending;
         });
}

bool JointDecision::claim(ClaimReason why, std::vector<base::Rank> ranks) {
  if (!joined_ || others() == 0) {
    return false;
  }
  claim_ = {.stall = claim_.stall + 1, .why = why, .ranks = std::move(ranks)};
  const bool first = !open_;
  open();
  claimed_ = true;
  failure_ = failure_ || is_failure(why);
  hooks_.send(claim_);
  if (first && why == ClaimReason::hang) {
    order_timer_.after(limits_.order_s, [this] {
      if (open_ && request_.empty()) {
        hooks_.dump({.why = claim_.why, .node = node_, .ranks = claim_.ranks});
      }
    });
  }
  return true;
}

void JointDecision::repeat_claim() {
  if (open_ && claimed_) {
    hooks_.send(claim_);
  }
}

void JointDecision::open() {
  if (!open_) {
    open_ = true;
    request_.clear();
    restart_limit();
  }
}

void JointDecision::restart_limit() {
  limit_timer_.stop();
  base::MonoNs end = loop_.now() + base::s_to_ns(limits_.verdict_s);
  if (hurried_until_ != 0) {
    end = std::min(end, hurried_until_);
  }
  const double seconds = base::ns_to_s(end - loop_.now());
  limit_timer_.at(end, [this, seconds] {
    give_up(fmt::format("no verdict of the job within {}", base::human_duration(seconds)));
  });
}

void JointDecision::hurry(double seconds) {
  if (hurried_until_ == 0) {
    hurried_until_ = loop_.now() + base::s_to_ns(seconds);
    if (open_) {
      restart_limit();
    }
  }
}

void JointDecision::close() {
  open_ = false;
  failure_ = false;
  claimed_ = false;
  merging_ = false;
  order_timer_.stop();
  limit_timer_.stop();
}

void JointDecision::give_up(const std::string& why) {
  if (open_) {
    close();
    hooks_.judge_alone(why);
  }
}

void JointDecision::ordered(const DumpMessage& order) {
  open();
  failure_ = failure_ || is_failure(order.why);
  request_ = order.request;
  order_timer_.stop();
  restart_limit();
  const double ahead_s = base::ns_to_s(order.at_wall_ns - base::wall_ns());
  if (ahead_s > kFarthestMomentS) {
    base::log_warn("{} asks for a dump in {}: taken now", order.node, base::human_duration(ahead_s));
  }
  const double wait_s = ahead_s > kFarthestMomentS ? 0 : std::max(0.0, ahead_s);
  const auto moment = moments_.emplace(moments_.end(), loop_);
  moment->after(wait_s, [this, order, moment] {
    moments_.erase(moment);
    hooks_.dump(order);
  });
}

void JointDecision::dumped(const std::string& request, const std::string& directory) {
  if (request.empty()) {
    return;  // this node's own
  }
  hooks_.send(DumpedMessage{.request = request, .directory = directory});
}

void JointDecision::gathered(const GatheredMessage& message) {
  open();
  request_ = message.request;
  restart_limit();
  merging_ = true;
  hooks_.merge(message);
}

void JointDecision::merged(const std::optional<model::Verdict>& verdict) {
  if (!merging_) {
    return;
  }
  if (!verdict) {
    give_up("the report over all nodes could not be made");
    return;
  }
  hooks_.send(VerdictMessage{.request = request_, .node = node_, .verdict = *verdict});
  close();
  hooks_.decided({.request = request_, .verdict = *verdict});
}

// A verdict that comes after this node has judged alone counts too: it rests on the data of more nodes.
void JointDecision::verdict_came(const VerdictMessage& message) {
  if (message.node == node_) {
    return;
  }
  close();
  hooks_.decided(message);
}

}  // namespace xpurun::launcher
