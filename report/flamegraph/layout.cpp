#include "report/flamegraph/layout.h"

#include "common/base/tr.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <set>

namespace xpurun::report {

namespace {

using NodeId = FrameTree::NodeId;

constexpr double kLeastWidth = 0.02;

// A tree that stands in a panel, with or without a separate box for the thread role.
struct Root {
  const FrameTree* tree;
  std::string label;  // empty: the tree's first frames are the panel's first row
};

// Which nodes of a tree are drawn, and which children of them are folded together.
struct Selection {
  std::set<NodeId> kept;
  std::map<NodeId, std::vector<NodeId>> folded;  // parent -> children not kept
};

std::vector<size_t> subtree_sizes(const FrameTree& tree) {
  std::vector<size_t> sizes(tree.size() + 1, 1);
  for (size_t i = sizes.size(); i-- > 0;) {
    for (NodeId c : tree[static_cast<NodeId>(i)].children) {
      sizes[i] += sizes[c];
    }
  }
  return sizes;
}

// Opens the heaviest nodes first until `budget` boxes are used. A node with children reserves one box, so
// that the remainder is always shown as "(other)".
Selection select(const FrameTree& tree, size_t budget) {
  Selection s;
  const auto cost = [&tree](NodeId id) { return size_t{1} + (tree[id].children.empty() ? 0 : 1); };
  const auto lighter = [&tree](NodeId a, NodeId b) {
    return std::pair(tree[a].total.weight(), b) < std::pair(tree[b].total.weight(), a);
  };
  std::priority_queue<NodeId, std::vector<NodeId>, decltype(lighter)> open(lighter);
  open.push(FrameTree::kRoot);
  size_t used = 1;
  while (!open.empty()) {
    const NodeId id = open.top();
    open.pop();
    std::vector<NodeId> children = tree[id].children;
    if (children.empty()) {
      continue;
    }
    --used;
    std::sort(children.begin(), children.end(), [&](NodeId a, NodeId b) { return lighter(b, a); });
    size_t needed = 0;
    for (NodeId c : children) {
      needed += cost(c);
    }
    const size_t limit = used + needed <= budget ? budget : budget - std::min<size_t>(budget, 1);
    for (NodeId c : children) {
      if (used + cost(c) <= limit) {
        used += cost(c);
        s.kept.insert(c);
        open.push(c);
      } else {
        s.folded[id].push_back(c);
      }
    }
    used += s.folded.contains(id) ? 1 : 0;
  }
  return s;
}

Box box_of(const FrameTree& tree, const FrameTable& frames, NodeId id, double x, double width, int depth) {
  const FrameTree::Node& node = tree[id];
  const TreeFrame& frame = frames[node.frame];
  return {.x = x,
          .width = width,
          .depth = depth,
          .label = frame.label,
          .detail = frame.detail,
          .kind = frame.kind,
          .ranks = node.total.ranks,
          .n = node.total.weight(),
          .threads = node.total.threads,
          .states = node.total.states.text()};
}

// Widths by weight. Threads of one rank may be at several places of one role, so that the ranks of siblings
// overlap: then siblings share the parent's width. One rank of a thousand, often the culprit, would be too
// narrow to see: if there are few siblings, each gets a minimum width at the cost of the wide ones.
// templates/stackmodel.js does the same; tests/unit/report/forest_test.py compares both.
std::vector<double> shared_widths(std::vector<double> weights, size_t parent_weight, double width) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  const double unit = width / std::max({sum, static_cast<double>(parent_weight), 1.0});
  double raised = 0;
  double wide = 0;
  for (double& w : weights) {
    w *= unit;
    (w < kLeastWidth ? raised : wide) += w < kLeastWidth ? kLeastWidth : w;
  }
  if (raised == 0 || raised > width / 3 || wide < width / 2) {
    return weights;
  }
  for (double& w : weights) {
    w = w < kLeastWidth ? kLeastWidth : w * (width - raised) / width;
  }
  return weights;
}

std::vector<double> child_widths(const FrameTree& tree, const FrameTree::Node& node, double width) {
  std::vector<double> weights;
  for (NodeId c : node.children) {
    weights.push_back(static_cast<double>(tree[c].total.weight()));
  }
  return shared_widths(std::move(weights), node.total.weight(), width);
}

class PanelBuilder {
 public:
  PanelBuilder(Panel& panel, const FrameTable& frames) : panel_(panel), frames_(frames) {}

  // Returns how many frames were folded.
  size_t add(const Root& root, size_t budget, double x, double width) {
    const FrameTree& tree = *root.tree;
    int depth = 0;
    if (!root.label.empty()) {
      const StackOwners& all = tree.root().total;
      push({.x = x,
            .width = width,
            .label = root.label,
            .kind = model::FrameKind::marker,
            .ranks = all.ranks,
            .n = all.weight(),
            .threads = all.threads,
            .states = all.states.text()});
      depth = 1;
    }
    sizes_ = subtree_sizes(tree);
    selection_ = select(tree, budget);
    add_below(tree, FrameTree::kRoot, x, width, depth);
    return folded_;
  }

 private:
  void push(Box box) {
    panel_.depth = std::max(panel_.depth, box.depth + 1);
    panel_.boxes.push_back(std::move(box));
  }

  void add_below(const FrameTree& tree, NodeId id, double x, double width, int depth) {
    const FrameTree::Node& node = tree[id];
    const std::vector<double> widths = child_widths(tree, node, width);
    double other = 0;
    for (size_t i = 0; i < node.children.size(); ++i) {
      const NodeId c = node.children[i];
      if (!selection_.kept.contains(c)) {
        other += widths[i];
        continue;
      }
      Box box = box_of(tree, frames_, c, x, widths[i], depth);
      box.diverges = box.n < node.total.weight();
      push(std::move(box));
      add_below(tree, c, x, widths[i], depth + 1);
      x += widths[i];
    }
    if (const auto rest = selection_.folded.find(id); rest != selection_.folded.end()) {
      push_other(tree, rest->second, x, other, depth);
    }
  }

  void push_other(const FrameTree& tree, const std::vector<NodeId>& rest, double x, double width, int depth) {
    StackOwners all;
    size_t frames = 0;
    for (NodeId c : rest) {
      all.add(tree[c].total);
      frames += sizes_[c];
    }
    folded_ += frames;
    push({.x = x,
          .width = width,
          .depth = depth,
          .label = fmt::format("(other, {} frame{})", frames, frames == 1 ? "" : "s"),
          .kind = model::FrameKind::marker,
          .ranks = all.ranks,
          .n = all.weight(),
          .threads = all.threads,
          .states = all.states.text()});
  }

  Panel& panel_;
  const FrameTable& frames_;
  std::vector<size_t> sizes_;
  Selection selection_;
  size_t folded_ = 0;
};

struct Plan {
  Panel panel;
  std::vector<Root> roots;
  size_t frames = 0;
};

// The threads of processes that belong to no job: the main thread first.
void put_alone(Plan& plan) {
  std::stable_partition(plan.roots.begin(), plan.roots.end(),
                        [](const Root& r) { return r.label == "main"; });
  size_t processes = 0;
  for (const Root& r : plan.roots) {
    processes = std::max(processes, r.tree->root().total.unranked.size());
  }
  plan.panel.title = processes == 1 ? std::string(base::later("Threads of the process"))
                                    : base::tr("Threads of {} processes", processes);
}

std::vector<Plan> plan_panels(const StackForest& forest, Layer layer) {
  const auto roles = forest.roles();
  const bool alone = std::all_of(roles.begin(), roles.end(), [](const RoleTree* role) {
    return role->process == model::ProcessRole::other;
  });
  std::vector<Plan> plans(4);
  plans[0].panel = {.title = "Main threads of the ranks", .unit = "ranks"};
  plans[1].panel = {.title = "Other threads of the ranks", .unit = "ranks"};
  plans[2].panel = {.title = "Dataloader workers", .unit = "ranks"};
  plans[3].panel = {.title = "Launcher and other processes", .unit = "processes"};
  for (const RoleTree* role : roles) {
    const FrameTree& tree = role->tree(layer);
    if (tree.empty()) {
      continue;
    }
    const bool main_of_rank = role->process == model::ProcessRole::rank && role->thread == "main";
    Plan& plan = plans[main_of_rank                                  ? 0
                       : role->process == model::ProcessRole::rank   ? 1
                       : role->process == model::ProcessRole::worker ? 2
                                                                     : 3];
    const bool named =
        role->process == model::ProcessRole::agent || (role->process == model::ProcessRole::other && !alone);
    plan.roots.push_back(
        {&tree, main_of_rank
                    ? ""
                    : (named ? fmt::format("{}: {}", name_of(role->process), role->thread) : role->thread)});
    plan.panel.total += tree.root().total.weight();
    plan.frames += tree.size() + 1;
  }
  if (const size_t n = plans[0].panel.total; n > 0) {
    plans[0].panel.title =
        n == 1 ? base::tr("Main thread of the rank") : base::tr("Main threads of {} ranks", n);
  }
  if (alone && !plans[3].roots.empty()) {
    put_alone(plans[3]);
  }
  std::erase_if(plans, [](const Plan& p) { return p.roots.empty(); });
  return plans;
}

}  // namespace

Layout lay_out(const StackForest& forest, Layer layer, const LayoutOptions& options) {
  Layout out;
  std::vector<Plan> plans = plan_panels(forest, layer);
  size_t left = options.max_boxes;
  for (size_t i = 0; i < plans.size(); ++i) {
    Plan& plan = plans[i];
    // The first panel may take most of the boxes, but never all of them.
    const size_t later = plans.size() - 1 - i;
    const size_t budget = std::min(plan.frames, left - std::min(left, later * left / 6));
    size_t spare = budget;
    size_t frames_left = plan.frames;
    double x = 0;
    std::vector<double> weights;
    for (const Root& root : plan.roots) {
      weights.push_back(static_cast<double>(root.tree->root().total.weight()));
    }
    const std::vector<double> widths = shared_widths(std::move(weights), plan.panel.total, 1);
    for (size_t r = 0; r < plan.roots.size(); ++r) {
      const Root& root = plan.roots[r];
      const size_t need = root.tree->size() + 1;
      const size_t share = frames_left <= spare ? need : spare * need / std::max<size_t>(frames_left, 1);
      const size_t before = plan.panel.boxes.size();
      // One box goes to the root itself, one at least to what is below it.
      out.folded +=
          PanelBuilder(plan.panel, forest.frames()).add(root, std::max<size_t>(share, 2) - 1, x, widths[r]);
      x += widths[r];
      spare -= std::min(spare, plan.panel.boxes.size() - before);
      frames_left -= need;
    }
    left -= std::min(left, plan.panel.boxes.size());
    out.panels.push_back(std::move(plan.panel));
  }
  return out;
}

}  // namespace xpurun::report
