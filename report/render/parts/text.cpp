#include "report/render/parts/text.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/frame_text.h"
#include "report/flamegraph/palette.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace xpurun::report {

using base::tr;

namespace {

std::string who_text(const StackOwners& who) {
  if (who.ranks.empty()) {
    return who.unranked.size() == 1 ? tr("{} process", who.unranked.size())
                                    : tr("{} processes", who.unranked.size());
  }
  return ranks_text(who.ranks);
}

class TreeWriter {
 public:
  TreeWriter(const FrameTree& tree, const FrameTable& frames, size_t max_lines)
      : tree_(tree), frames_(frames), max_lines_(max_lines) {}

  std::string write() {
    const auto& roots = tree_.root().children;
    for (FrameTree::NodeId id : roots) {
      chain(id, "", "");
    }
    if (left_out_ > 0) {
      out_ += tr("({} more frames)\n", left_out_);
    }
    return std::move(out_);
  }

 private:
  void line(const std::string& prefix, const std::string& text) {
    if (++lines_ > max_lines_) {
      ++left_out_;
      return;
    }
    out_ += prefix + text + '\n';
  }

  // Writes `id` and its only children in one column; `first` stands before its first line, `rest` before
  // the others.
  void chain(FrameTree::NodeId id, const std::string& first, const std::string& rest) {
    const StackOwners& who = tree_[id].total;
    line(first, fmt::format("{}", who_text(who)));
    for (;;) {
      const FrameTree::Node& node = tree_[id];
      line(rest, fmt::format("  {}", frames_[node.frame].label));
      const bool goes_on =
          node.children.size() == 1 && tree_[node.children[0]].total.weight() == who.weight();
      if (!goes_on) {
        break;
      }
      id = node.children[0];
    }
    const auto& children = tree_[id].children;
    for (size_t i = 0; i < children.size(); ++i) {
      const bool last = i + 1 == children.size();
      chain(children[i], rest + (last ? "  └─ " : "  ├─ "), rest + (last ? "     " : "  │  "));
    }
  }

  const FrameTree& tree_;
  const FrameTable& frames_;
  size_t max_lines_;
  std::string out_;
  size_t lines_ = 0;
  size_t left_out_ = 0;
};

}  // namespace

std::string class_title(const StackClass& c) {
  std::string who = ranks_text(c.ranks);
  who[0] = who[0] == 'r' ? 'R' : who[0];
  return who;
}

std::string tree_text(const FrameTree& tree, const FrameTable& frames, size_t max_lines) {
  return TreeWriter(tree, frames, max_lines).write();
}

std::string stacks_text(const std::string& title, const StackForest& forest,
                        const std::vector<StackClass>& classes, Layer layer) {
  std::string out = title + "\n";
  if (!classes.empty()) {
    out +=
        "\n" + tr("Ranks by where their main thread is, innermost frame first, smallest group first") + "\n";
  }
  for (const StackClass& c : classes) {
    out += tr("\n{} ({} of {})\n", class_title(c), c.ranks.size(), forest.ranks().size());
    if (!c.missing.empty()) {
      out += tr("  no stacks: {}\n", tr(base::sanitize(c.missing)));
    }
    for (const model::Frame& f : c.frames) {
      if (f.kind == model::FrameKind::marker || layer == Layer::merged ||
          (f.kind == model::FrameKind::python) == (layer == Layer::python)) {
        out += fmt::format("  {}\n", model::frame_label(f));
      }
    }
  }
  std::vector<const RoleTree*> roles = forest.roles();
  // Processes that belong to no job: the main thread first.
  const bool alone = std::all_of(roles.begin(), roles.end(), [](const RoleTree* role) {
    return role->process == model::ProcessRole::other;
  });
  if (alone) {
    std::stable_partition(roles.begin(), roles.end(),
                          [](const RoleTree* role) { return role->thread == "main"; });
  }
  for (const RoleTree* role : roles) {
    if (const FrameTree& tree = role->tree(layer); !tree.empty()) {
      const std::string frames = tree_text(tree, forest.frames());
      out += alone ? tr("\n{}, outermost frame first\n{}", role->thread, frames)
                   : tr("\n{}: {}, outermost frame first\n{}", name_of(role->process), role->thread, frames);
    }
  }
  return out;
}

}  // namespace xpurun::report
