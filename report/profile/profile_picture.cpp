// The profile as a flame graph.
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/frame_text.h"
#include "report/flamegraph/svg.h"
#include "report/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

namespace xpurun::report {

namespace {

constexpr double kSameShare = 0.01;       // of the time; less is noise
constexpr double kNarrowestBox = 0.0005;  // of the width; narrower boxes are left out

struct Node {
  std::string file;
  uint64_t samples = 0;
  model::RankSet ranks;
  std::map<std::string, Node> children;  // by label
};

std::string box_label(const ProfileFrame& frame) {
  return frame.file.empty() ? frame.function
                            : fmt::format("{} ({})", frame.function, model::source_name(frame.file));
}

// Of all tracks, or of those with these ranks.
Node tree_of(const Profile& profile, const model::RankSet* of = nullptr) {
  Node root;
  for (const ProfileTrack& track : profile.tracks) {
    if (of != nullptr && !of->contains(track.rank)) {
      continue;
    }
    for (const auto& [stack, samples] : track.stacks) {
      Node* at = &root;
      at->samples += samples;
      for (const uint32_t index : stack) {
        const ProfileFrame& frame = profile.frames[index];
        at = &at->children[box_label(frame)];
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

// The same frame in the other group of ranks.
struct Other {
  const Node* node = nullptr;  // null: not seen there
  double whole = 0;            // samples of the group; 0: there is no other group
  std::string ranks;
  bool is_time = true;  // else memory

  Other child(const std::string& label) const {
    const auto found =
        node == nullptr ? std::map<std::string, Node>::const_iterator() : node->children.find(label);
    return {node == nullptr || found == node->children.end() ? nullptr : &found->second, whole, ranks,
            is_time};
  }
};

// Colours a box by the difference of its shares of the time.
void compare(Box& box, const Other& other) {
  const double there = other.node == nullptr ? 0 : static_cast<double>(other.node->samples) / other.whole;
  const double more = box.width - there;
  const int step = std::abs(more) < kSameShare ? 0 : std::abs(more) < 0.1 ? 1 : std::abs(more) < 0.3 ? 2 : 3;
  box.look = step == 0 ? "sa" : fmt::format("{}{}", more > 0 ? "up" : "dn", step);
  box.compared = other.is_time
                     ? base::tr("{:+.1f} % of the time compared with {}", 100 * more, other.ranks)
                     : base::tr("{:+.1f} % of the memory compared with {}", 100 * more, other.ranks);
}

void put_boxes(const Node& node, double x, int depth, double whole, size_t all_ranks, Panel& panel,
               const Other& other = {}) {
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
      const Other there = other.child(*label);
      if (other.whole > 0) {
        compare(panel.boxes.back(), there);
      }
      put_boxes(*child, x, depth + 1, whole, all_ranks, panel, there);
    }
    x += width;
  }
}

// One group of ranks beside the other one.
void put_compared(const Node& node, const model::RankSet& ranks, const Node& other,
                  const model::RankSet& other_ranks, const std::string& unit, Layout& layout) {
  if (node.samples == 0) {
    return;
  }
  Panel panel{.title = fmt::format("{}: {} {}", ranks_text(ranks), node.samples, unit),
              .unit = unit,
              .total = node.samples};
  const Other there{&other, std::max(1.0, static_cast<double>(other.samples)), ranks_text(other_ranks),
                    unit == "samples"};
  put_boxes(node, 0, 0, static_cast<double>(node.samples), ranks.size(), panel, there);
  layout.panels.push_back(std::move(panel));
}

}  // namespace

std::string profile_svg(const Profile& profile, const model::RankSet& compared) {
  const model::RankSet ranks = profile.ranks();
  const Node root = tree_of(profile);
  const bool is_time = profile.unit == "samples";
  Layout layout;
  std::vector<LegendEntry> legend;
  if (!compared.empty()) {
    const model::RankSet others = ranks.minus(compared);
    const Node one = tree_of(profile, &compared);
    const Node two = tree_of(profile, &others);
    put_compared(one, compared, two, others, profile.unit, layout);
    put_compared(two, others, one, compared, profile.unit, layout);
    legend = {{.css = "up2",
               .text = is_time ? base::tr("a larger share of the time than in the other group")
                               : base::tr("a larger share of the memory than in the other group")},
              {.css = "dn2", .text = base::tr("a smaller share")},
              {.css = "sa", .text = base::tr("about the same")}};
  } else if (root.samples > 0) {
    Panel panel{.title = fmt::format("{} {}", root.samples, profile.unit),
                .unit = profile.unit,
                .total = root.samples};
    put_boxes(root, 0, 0, static_cast<double>(root.samples), ranks.size(), panel);
    layout.panels.push_back(std::move(panel));
  }
  const Palette palette(layout, ranks, {});
  const std::string title = ranks.empty() ? fmt::format("Profile of {}", profile.about)
                                          : fmt::format("{} of {} rank{}", is_time ? "Profile" : "Memory",
                                                        ranks.size(), ranks.size() == 1 ? "" : "s");
  return svg_file(
      layout, palette,
      {.layer = Layer::python,
       .title = title,
       .subtitle = is_time ? fmt::format("{}, {}", profile.about, base::human_duration(profile.seconds))
                           : profile.about,
       .width_is = profile.unit,
       .legend = std::move(legend)});
}

}  // namespace xpurun::report
