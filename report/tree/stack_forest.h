// StackForest: all stacks of one moment, one prefix tree per process role, thread role and layer. Processes
// are added one by one, so that a thousand of them never lie in memory together.
#pragma once

#include "common/model/stack_snapshot.h"
#include "report/tree/frame_tree.h"

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

enum class Layer {
  python,  // Python frames only
  native,  // everything but Python frames, the interpreter's own included
  merged,  // Python frames in place of the interpreter's
};
inline constexpr std::array<Layer, 3> kLayers = {Layer::merged, Layer::python, Layer::native};
std::string_view name_of(Layer layer);

struct RoleTree {
  std::string process;  // "rank", "worker", "agent", "other"
  std::string thread;   // "main", "pt_autograd_#"
  std::array<FrameTree, 3> layers;

  const FrameTree& tree(Layer layer) const { return layers[static_cast<size_t>(layer)]; }
};

class StackForest {
 public:
  void add(const model::ProcessStacks& p);
  void finish();

  const FrameTable& frames() const { return frames_; }
  // Every rank that was added in role "rank", those without stacks included.
  const model::RankSet& ranks() const { return ranks_; }
  // After finish(): the ranks' main threads first, then their other threads, workers, agents, others.
  std::vector<const RoleTree*> roles() const;

 private:
  RoleTree& role(const std::string& process, const std::string& thread);
  void add_thread(RoleTree& role, const model::ThreadStack& t, Crowd who);
  Crowd crowd_of(const model::ProcessStacks& p);

  FrameTable frames_;
  std::map<std::pair<int, std::string>, RoleTree> roles_;
  std::map<std::pair<std::string, base::Pid>, base::Rank> unranked_;
  model::RankSet ranks_;
};

}  // namespace xpurun::report
