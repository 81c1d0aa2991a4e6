#include "report/tree/folded.h"

#include "common/base/strings.h"

#include <fmt/format.h>

namespace xpurun::report {

namespace {

// `prefix` is the path so far. It is restored on return.
void write_below(const FrameTree& tree, const FrameTable& frames, FrameTree::NodeId id, std::string& prefix,
                 std::string& out) {
  const FrameTree::Node& node = tree[id];
  if (const size_t n = node.self.weight(); n > 0) {
    out += fmt::format("{} {}\n", prefix, n);
  }
  for (FrameTree::NodeId c : node.children) {
    const size_t length = prefix.size();
    prefix += ';';
    prefix += folded_name(frames[tree[c].frame].label);
    write_below(tree, frames, c, prefix, out);
    prefix.resize(length);
  }
}

}  // namespace

std::string folded_name(std::string_view label) {
  std::string out = base::sanitize(label);
  for (char& c : out) {
    if (c == ';') {
      c = ',';
    }
  }
  return out;
}

std::string folded_text(const StackForest& forest, Layer layer) {
  std::string out;
  for (const RoleTree* role : forest.roles()) {
    std::string prefix = folded_name(fmt::format("{}/{}", name_of(role->process), role->thread));
    write_below(role->tree(layer), forest.frames(), FrameTree::kRoot, prefix, out);
  }
  return out;
}

}  // namespace xpurun::report
