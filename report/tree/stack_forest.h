// StackForest: all stacks of one dump, one prefix tree per process role, thread role and layer. Processes are
// added one by one. Only distinct stacks are kept, each with its set of ranks, so memory grows with the
// differences between ranks, not with their number.
#pragma once

#include "common/model/stacks/stack_file.h"
#include "report/tree/frame_tree.h"

#include <array>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace xpurun::report {

enum class Layer {
  python,  // Python frames only
  native,  // everything but Python frames, including the interpreter's own
  merged,  // Python frames replace the interpreter's
};
inline constexpr std::array<Layer, 3> kLayers = {Layer::merged, Layer::python, Layer::native};
std::string_view name_of(Layer layer);

struct RoleTree {
  model::ProcessRole process = model::ProcessRole::other;
  std::string thread;  // "main", "pt_autograd_#"
  std::array<FrameTree, 3> layers;

  const FrameTree& tree(Layer layer) const { return layers[static_cast<size_t>(layer)]; }
};

// Stacks as a prefix tree of frame ids only; node 0 represents no frame.
class PathTree {
 public:
  using NodeId = uint32_t;
  struct Node {
    NodeId parent = 0;
    FrameId frame = 0;
  };

  PathTree() : nodes_(1) {}
  NodeId child(NodeId parent, FrameId frame);
  const Node& operator[](NodeId id) const { return nodes_[id]; }
  size_t size() const { return nodes_.size(); }
  // Outermost first.
  std::vector<FrameId> frames_of(NodeId id) const;

 private:
  std::vector<Node> nodes_;
  std::unordered_map<uint64_t, NodeId> edges_;
};

// One distinct stack with all its frames (including the interpreter's), its thread role and state, and the
// ranks that have it.
struct DistinctStack {
  PathTree::NodeId path = 0;
  RoleTree* role = nullptr;
  char state = '?';  // of proc(5)
  model::GilState gil = model::GilState::none;
  uint32_t threads = 0;  // per process; 0: the path says why there is no stack
  model::RankSet ranks;
  model::RankSet unranked;  // numbers of processes without a rank

  uint32_t processes() const { return static_cast<uint32_t>(ranks.size() + unranked.size()); }
};

class StackForest {
 public:
  StackForest() = default;
  StackForest(StackForest&&) = default;  // stacks point to their role, so no copies
  StackForest& operator=(StackForest&&) = default;

  void add(const model::ProcessStacks& p);
  // The same for a compact form; each frame of its table is interned once.
  void add(const model::CompactStacks& s);
  // Builds the trees; add nothing afterwards.
  void finish();

  const FrameTable& frames() const { return frames_; }
  const PathTree& paths() const { return paths_; }
  // Every added rank of role "rank", including ranks without stacks.
  const model::RankSet& ranks() const { return ranks_; }
  // After finish(): the ranks' main threads first, then their other threads, workers, agents, others.
  std::vector<const RoleTree*> roles() const;
  // In the order of roles(); within a role, stacks of the fewest processes first.
  std::vector<DistinctStack> stacks() const;

 private:
  using RoleKey = std::pair<int, std::string>;
  // Role, path, state, GIL state, threads of one process.
  using StackKey = std::tuple<RoleTree*, PathTree::NodeId, char, model::GilState, uint32_t>;
  struct StackHash {
    size_t operator()(const StackKey& key) const;
  };
  struct Who {
    model::RankSet ranks;
    model::RankSet unranked;
  };

  RoleTree& role(model::ProcessRole process, const std::string& thread);
  RoleTree& role_of(model::ProcessRole process, const model::ThreadStack& t);
  template <typename Intern>
  PathTree::NodeId path_of(size_t frames, Intern&& intern);
  template <typename Path>
  void add_threads(const model::ProcessStacks& p, Path&& path);
  void note(const StackKey& key, const model::ProcessStacks& p);
  void grow_trees(const DistinctStack& stack, RoleTree& role);

  FrameTable frames_;
  PathTree paths_;
  std::map<RoleKey, RoleTree> roles_;
  std::unordered_map<StackKey, Who, StackHash> stacks_;
  std::map<std::pair<std::string, base::Pid>, base::Rank> unranked_;
  model::RankSet ranks_;
};

}  // namespace xpurun::report
