#include "report/profile/function_stacks.h"

#include "report/tree/roles.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace xpurun::report {

namespace {

// Of a deep recursion, the innermost frames are named.
constexpr size_t kMostNamed = 64;

// A tree of the functions that called each other, regardless of lines. Node 0 is the root.
class CallTree {
 public:
  size_t child(size_t parent, uint32_t function) {
    const auto [at, is_new] = children_.emplace(std::pair(parent, function), nodes_.size());
    if (is_new) {
      nodes_.push_back({parent, function});
    }
    return at->second;
  }
  // Functions from the outermost one to that of `node`.
  std::vector<uint32_t> path(size_t node) const {
    std::vector<uint32_t> out;
    for (; node != 0; node = nodes_[node].parent) {
      out.push_back(nodes_[node].function);
    }
    std::reverse(out.begin(), out.end());
    return out;
  }

 private:
  struct Node {
    size_t parent = 0;
    uint32_t function = 0;
  };
  std::vector<Node> nodes_{{}};
  std::map<std::pair<size_t, uint32_t>, size_t> children_;
};

class StackCounts {
 public:
  StackCounts(const std::vector<model::CapturedFunction>& rows, const Profile& profile)
      : rows_(rows), profile_(profile), counts_(rows.size()) {
    std::map<std::pair<std::string, std::string>, uint32_t> ids;
    for (size_t i = 0; i < profile.frames.size(); ++i) {
      const ProfileFrame& frame = profile.frames[i];
      const auto [at, is_new] =
          ids.emplace(std::pair(frame.function, frame.file), static_cast<uint32_t>(ids.size()));
      function_of_frame_.push_back(at->second);
      if (is_new) {
        example_.push_back(i);
      }
    }
    for (size_t row = 0; row < rows.size(); ++row) {
      if (const auto id = ids.find({rows[row].function, rows[row].file}); id != ids.end()) {
        rows_of_[{id->second, rows[row].worker}].push_back(row);
      }
    }
  }

  void add(const ProfileTrack& track) {
    for (const auto& [stack, samples] : track.stacks) {
      add_stack(track, stack, samples);
    }
  }

  std::string most_often(size_t row) const {
    const auto most = std::max_element(counts_[row].begin(), counts_[row].end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == counts_[row].end()) {
      return {};
    }
    const std::vector<uint32_t> path = tree_.path(most->first);
    const size_t first = path.size() - std::min(path.size(), kMostNamed);
    std::string out = first > 0 ? "... > " : "";
    for (size_t i = first; i < path.size(); ++i) {
      out += (i > first ? " > " : "") + full_name(profile_.frames[example_[path[i]]]);
    }
    return out;
  }

 private:
  void add_stack(const ProfileTrack& track, const ProfileTrack::Stack& stack, uint64_t samples) {
    const auto own = std::find_if(stack.begin(), stack.end(),
                                  [&](uint32_t frame) { return is_own_code(profile_.frames[frame]); });
    size_t node = 0;
    std::set<uint32_t> seen;
    for (auto at = own == stack.end() ? stack.begin() : own; at != stack.end(); ++at) {
      const uint32_t function = function_of_frame_[*at];
      node = tree_.child(node, function);
      const auto found = rows_of_.find({function, track.worker});
      if (found == rows_of_.end() || !seen.insert(function).second) {
        continue;
      }
      for (const size_t row : found->second) {
        if (rows_[row].ranks.empty() || rows_[row].ranks.contains(track.rank)) {
          counts_[row][node] += samples;
        }
      }
    }
  }

  const std::vector<model::CapturedFunction>& rows_;
  const Profile& profile_;
  std::vector<std::map<size_t, uint64_t>> counts_;  // of each row, by node
  CallTree tree_;
  std::vector<uint32_t> function_of_frame_;
  std::vector<size_t> example_;  // a frame of each function
  std::map<std::pair<uint32_t, bool>, std::vector<size_t>> rows_of_;
};

}  // namespace

bool is_own_code(const ProfileFrame& frame) {
  return is_user_code({.kind = model::FrameKind::python, .file = frame.file});
}

std::string full_name(const ProfileFrame& frame) {
  if (frame.function.starts_with("nn.Module: ")) {
    return frame.function;
  }
  std::string module = path_below_packages(frame.file);
  for (const std::string_view ending : {".py", "/__init__"}) {
    if (module.ends_with(ending)) {
      module.resize(module.size() - ending.size());
    }
  }
  std::replace(module.begin(), module.end(), '/', '.');
  return module.empty() ? frame.function : module + "." + frame.function;
}

void set_stacks(std::vector<model::CapturedFunction>& rows, const Profile& profile) {
  StackCounts counts(rows, profile);
  for (const ProfileTrack& track : profile.tracks) {
    if (track.rank != base::kNoRank) {
      counts.add(track);
    }
  }
  for (size_t row = 0; row < rows.size(); ++row) {
    rows[row].stack = counts.most_often(row);
  }
}

}  // namespace xpurun::report
