// The profile as a flame graph.
#include "common/base/strings.h"
#include "report/flamegraph/svg.h"
#include "report/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

namespace xpurun::report {

namespace {

constexpr double kNarrowestBox = 0.0005;  // of the width; narrower boxes are left out

struct Node {
  std::string file;
  uint64_t samples = 0;
  model::RankSet ranks;
  std::map<std::string, Node> children;  // by label
};

Node tree_of(const Profile& profile) {
  Node root;
  for (const ProfileTrack& track : profile.tracks) {
    for (const auto& [stack, samples] : track.stacks) {
      Node* at = &root;
      at->samples += samples;
      for (const uint32_t index : stack) {
        const ProfileFrame& frame = profile.frames[index];
        at = &at->children[fmt::format("{} ({})", frame.function, base::base_name(frame.file))];
        at->file = frame.file;
        at->samples += samples;
        if (track.rank != base::kNoRank) {
          at->ranks.insert(track.rank);
        }
      }
    }
  }
  return root;
}

void put_boxes(const Node& node, double x, int depth, double whole, size_t all_ranks, Panel& panel) {
  std::vector<std::pair<const std::string*, const Node*>> children;
  for (const auto& [label, child] : node.children) {
    children.emplace_back(&label, &child);
  }
  std::stable_sort(children.begin(), children.end(),
                   [](const auto& a, const auto& b) { return a.second->samples > b.second->samples; });
  for (const auto& [label, child] : children) {
    const double width = static_cast<double>(child->samples) / whole;
    if (width >= kNarrowestBox) {
      panel.depth = std::max(panel.depth, depth + 1);
      panel.boxes.push_back({.x = x,
                             .width = width,
                             .depth = depth,
                             .label = *label,
                             .detail = child->file,
                             .kind = model::FrameKind::python,
                             .ranks = child->ranks,
                             .n = child->samples,
                             .diverges = child->ranks.size() < all_ranks});
      put_boxes(*child, x, depth + 1, whole, all_ranks, panel);
    }
    x += width;
  }
}

}  // namespace

std::string profile_svg(const Profile& profile) {
  const model::RankSet ranks = profile.ranks();
  const Node root = tree_of(profile);
  Layout layout;
  if (root.samples > 0) {
    Panel panel{.title = fmt::format("{} samples", root.samples), .unit = "samples", .total = root.samples};
    put_boxes(root, 0, 0, static_cast<double>(root.samples), ranks.size(), panel);
    layout.panels.push_back(std::move(panel));
  }
  const Palette palette(layout, ranks, {});
  const std::string title =
      ranks.empty() ? fmt::format("Profile of {}", profile.about)
                    : fmt::format("Profile of {} rank{}", ranks.size(), ranks.size() == 1 ? "" : "s");
  return svg_file(layout, palette,
                  {.layer = Layer::python,
                   .title = title,
                   .subtitle = fmt::format("{}, {}", profile.about, base::human_duration(profile.seconds)),
                   .width_is = "samples"});
}

}  // namespace xpurun::report
