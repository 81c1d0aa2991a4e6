// FrameTree: a prefix tree of stacks, outermost frame first. Every node knows which ranks pass through it and
// which end in it. Adding touches the last node only; finish() sums up. The result does not depend on the
// order in which stacks were added.
#pragma once

#include "common/model/rank_set.h"
#include "common/model/stack_snapshot.h"
#include "report/tree/roles.h"

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace xpurun::report {

using FrameId = uint32_t;

// What is shown for one frame; equal labels of one kind are one frame.
struct TreeFrame {
  std::string label;
  model::FrameKind kind = model::FrameKind::native;
  std::string detail;  // full path or full symbol, where it says more than the label
  FrameGroup group = FrameGroup::user;
  bool eval = false;  // native frame that is the Python frames inside it
};

class FrameTable {
 public:
  FrameId intern(const model::Frame& frame);
  FrameId intern_marker(const std::string& text);
  const TreeFrame& operator[](FrameId id) const { return frames_[id]; }
  size_t size() const { return frames_.size(); }

 private:
  FrameId intern(TreeFrame frame);
  std::vector<TreeFrame> frames_;
  std::unordered_map<std::string, FrameId> by_key_;
  // What the label is made of -> the frame, so that it need not be made for every thread.
  std::unordered_map<std::string, FrameId> by_source_;
  std::string source_;
};

// How many threads were in which state of proc(5).
struct StateTally {
  uint32_t running = 0;
  uint32_t sleeping = 0;
  uint32_t uninterruptible = 0;
  uint32_t stopped = 0;
  uint32_t other = 0;
  uint32_t gil_holder = 0;
  uint32_t gil_waiting = 0;
  uint32_t gil_dropping = 0;

  void add(char state, model::GilState gil, uint32_t threads);
  void add(const StateTally& t);
  // "3 sleeping, 1 running, 1 holds the GIL"
  std::string text() const;
};

// Who stands behind a node. Processes without a rank are counted under numbers that their owner gives out.
struct Crowd {
  model::RankSet ranks;
  model::RankSet unranked;
  uint32_t threads = 0;
  StateTally states;

  void add(const Crowd& other);
  // Its width: ranks, or processes where they have no rank.
  size_t weight() const { return ranks.size() + unranked.size(); }
};

class FrameTree {
 public:
  using NodeId = uint32_t;
  static constexpr NodeId kRoot = 0;  // stands for no frame

  struct Node {
    FrameId frame = 0;
    std::vector<NodeId> children;  // after finish(): smallest weight first, then lowest rank, then label
    Crowd self;                    // stacks that end here
    Crowd total;                   // self and everything below; valid after finish()
  };

  FrameTree() : nodes_(1) {}

  // `path` begins with the outermost frame.
  void add(std::span<const FrameId> path, const Crowd& who);
  void finish(const FrameTable& frames);

  const Node& operator[](NodeId id) const { return nodes_[id]; }
  const Node& root() const { return nodes_[kRoot]; }
  size_t size() const { return nodes_.size() - 1; }
  bool empty() const { return nodes_.size() == 1; }

 private:
  NodeId child(NodeId parent, FrameId frame);

  std::vector<Node> nodes_;  // a child always stands behind its parent
  std::unordered_map<uint64_t, NodeId> edges_;
};

}  // namespace xpurun::report
