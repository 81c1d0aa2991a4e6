// FrameTree: a prefix tree of stacks, outermost frame first. Every node has the set of ranks that pass
// through it and the set that end in it. add() changes only the last node; finish() computes the sums. The
// result does not depend on the order of add() calls.
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

// The display form of one frame. Frames of one kind with equal labels are one frame.
struct TreeFrame {
  std::string label;
  model::FrameKind kind = model::FrameKind::native;
  std::string detail;  // full path or full symbol, if longer than the label
  FrameGroup group = FrameGroup::user;
  bool eval = false;  // native frame that stands for the Python frames inside it
};

class FrameTable {
 public:
  // The id of the frame; equal labels of one kind get the same id.
  FrameId intern(const model::Frame& frame);
  FrameId intern_marker(const std::string& text);
  const TreeFrame& operator[](FrameId id) const { return frames_[id]; }
  size_t size() const { return frames_.size(); }

 private:
  FrameId intern(TreeFrame frame);
  std::vector<TreeFrame> frames_;
  std::unordered_map<std::string, FrameId> by_key_;
  // From the parts of a label to its frame, so that labels are not built again for every thread.
  std::unordered_map<std::string, FrameId> by_source_;
  std::string source_;
};

// The number of threads in each state of proc(5).
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

// The ranks and processes behind a node. Processes without a rank have numbers that the caller assigns.
struct StackOwners {
  model::RankSet ranks;
  model::RankSet unranked;
  uint32_t threads = 0;
  StateTally states;

  void add(const StackOwners& other);
  // The node's width: ranks, plus processes without a rank.
  size_t weight() const { return ranks.size() + unranked.size(); }
};

class FrameTree {
 public:
  using NodeId = uint32_t;
  static constexpr NodeId kRoot = 0;  // represents no frame

  struct Node {
    FrameId frame = 0;
    std::vector<NodeId> children;  // after finish(): smallest weight first, then lowest rank, then label
    StackOwners self;              // stacks that end here
    StackOwners total;             // self and all descendants; valid after finish()
  };

  FrameTree() : nodes_(1) {}

  // `path` starts with the outermost frame.
  void add(std::span<const FrameId> path, const StackOwners& who);
  // Computes the sums and orders the children. Call once, after the last add().
  void finish(const FrameTable& frames);

  const Node& operator[](NodeId id) const { return nodes_[id]; }
  const Node& root() const { return nodes_[kRoot]; }
  size_t size() const { return nodes_.size() - 1; }
  bool empty() const { return nodes_.size() == 1; }

 private:
  NodeId child(NodeId parent, FrameId frame);

  std::vector<Node> nodes_;  // a child always comes after its parent
  std::unordered_map<uint64_t, NodeId> edges_;
};

}  // namespace xpurun::report
