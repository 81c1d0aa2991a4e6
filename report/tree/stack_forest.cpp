#include "report/tree/stack_forest.h"

#include "common/base/hash.h"
#include "report/tree/roles.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace xpurun::report {

namespace {

// Unbounded recursion must not make unbounded pages: deeper stacks lose their middle.
constexpr size_t kMaxDepth = 400;

bool belongs(const TreeFrame& f, Layer layer) {
  switch (layer) {
    case Layer::python:
      return f.kind == model::FrameKind::python;
    case Layer::native:
      return f.kind != model::FrameKind::python;
    case Layer::merged:
      break;
  }
  return !f.eval;
}

const char* nothing_in(Layer layer) {
  return layer == Layer::python   ? "no Python frames"
         : layer == Layer::native ? "no native frames"
                                  : "no frames";
}

int order_of(model::ProcessRole process, const std::string& thread) {
  if (process == model::ProcessRole::rank) {
    return thread == "main" ? 0 : 1;
  }
  return process == model::ProcessRole::worker ? 2 : process == model::ProcessRole::agent ? 3 : 4;
}

}  // namespace

std::string_view name_of(Layer layer) {
  switch (layer) {
    case Layer::python:
      return "python";
    case Layer::native:
      return "native";
    case Layer::merged:
      break;
  }
  return "merged";
}

PathTree::NodeId PathTree::child(NodeId parent, FrameId frame) {
  const uint64_t edge = uint64_t{parent} << 32 | frame;
  const auto [it, fresh] = edges_.try_emplace(edge, static_cast<NodeId>(nodes_.size()));
  if (fresh) {
    nodes_.push_back({.parent = parent, .frame = frame});
  }
  return it->second;
}

std::vector<FrameId> PathTree::frames_of(NodeId id) const {
  std::vector<FrameId> out;
  for (; id != 0; id = nodes_[id].parent) {
    out.push_back(nodes_[id].frame);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

size_t StackForest::StackHash::operator()(const StackKey& key) const {
  const auto& [role, path, state, gil, threads] = key;
  return base::hash_words(0, {reinterpret_cast<uintptr_t>(role), path, static_cast<unsigned char>(state),
                              static_cast<uint64_t>(gil), threads});
}

RoleTree& StackForest::role(model::ProcessRole process, const std::string& thread) {
  RoleTree& r = roles_[{order_of(process, thread), thread}];
  r.process = process;
  r.thread = thread;
  return r;
}

RoleTree& StackForest::role_of(model::ProcessRole process, const model::ThreadStack& t) {
  return role(process, thread_role(t));
}

template <typename Intern>
PathTree::NodeId StackForest::path_of(size_t n, Intern&& intern) {
  PathTree::NodeId at = 0;
  for (size_t i = 0; i < n; ++i) {
    if (n > kMaxDepth && i == kMaxDepth / 2) {
      at = paths_.child(at, frames_.intern_marker("deep stack: frames left out here"));
    }
    if (n <= kMaxDepth || i < kMaxDepth / 2 || i >= n - kMaxDepth / 2) {
      at = paths_.child(at, intern(n - 1 - i));
    }
  }
  return at;
}

void StackForest::note(const StackKey& key, const model::ProcessStacks& p) {
  Who& who = stacks_[key];
  if (p.rank != base::kNoRank) {
    who.ranks.insert(p.rank);
  } else {
    const auto next = static_cast<base::Rank>(unranked_.size());
    who.unranked.insert(unranked_.try_emplace({p.host, p.pid}, next).first->second);
  }
}

void StackForest::add(const model::ProcessStacks& p) {
  add_threads(p, [&](size_t thread) {
    const auto& frames = p.threads[thread].frames;
    return path_of(frames.size(), [&](size_t i) { return frames_.intern(frames[i]); });
  });
}

void StackForest::add(const model::CompactStacks& s) {
  std::vector<std::optional<FrameId>> ids(s.frames.size());
  add_threads(s.process, [&](size_t thread) {
    const auto& places = s.threads[thread];
    return path_of(places.size(), [&](size_t i) {
      std::optional<FrameId>& id = ids[places[i]];
      if (!id) {
        id = frames_.intern(s.frames[places[i]]);
      }
      return *id;
    });
  });
}

template <typename Path>
void StackForest::add_threads(const model::ProcessStacks& p, Path&& path) {
  const model::ProcessRole process = process_role(p);
  if (process == model::ProcessRole::rank && p.rank != base::kNoRank) {
    ranks_.insert(p.rank);
  }
  if (p.threads.empty()) {
    const FrameId marker =
        frames_.intern_marker(p.reason.empty() ? "no stacks" : fmt::format("no stacks: {}", p.reason));
    note({&role(process, "main"), paths_.child(0, marker), '-', model::GilState::none, 0}, p);
  }
  std::vector<StackKey> keys;
  keys.reserve(p.threads.size());
  for (size_t i = 0; i < p.threads.size(); ++i) {
    const model::ThreadStack& t = p.threads[i];
    keys.emplace_back(&role_of(process, t), path(i), t.state, t.gil, 1);
  }
  std::sort(keys.begin(), keys.end());
  for (size_t i = 0; i < keys.size();) {
    size_t end = i + 1;
    while (end < keys.size() && keys[end] == keys[i]) {
      ++end;
    }
    std::get<4>(keys[i]) = static_cast<uint32_t>(end - i);
    note(keys[i], p);
    i = end;
  }
}

void StackForest::grow_trees(const DistinctStack& stack, RoleTree& role) {
  StackOwners who{
      .ranks = stack.ranks, .unranked = stack.unranked, .threads = stack.threads * stack.processes()};
  who.states.add(stack.state, stack.gil, who.threads);
  const std::vector<FrameId> frames = paths_.frames_of(stack.path);
  for (Layer layer : kLayers) {
    std::vector<FrameId> path;
    for (FrameId id : frames) {
      // The placeholder of a process without stacks appears in every layer.
      if (stack.threads == 0 || belongs(frames_[id], layer)) {
        path.push_back(id);
      }
    }
    if (path.empty()) {
      // A main thread appears in every layer, so that no picture lacks a rank.
      if (role.thread != "main" && layer != Layer::merged) {
        continue;
      }
      path.push_back(frames_.intern_marker(nothing_in(layer)));
    }
    role.layers[static_cast<size_t>(layer)].add(path, who);
  }
}

void StackForest::finish() {
  for (const DistinctStack& stack : stacks()) {
    grow_trees(stack, *stack.role);
  }
  for (auto& [key, role] : roles_) {
    for (FrameTree& tree : role.layers) {
      tree.finish(frames_);
    }
  }
}

std::vector<const RoleTree*> StackForest::roles() const {
  std::vector<const RoleTree*> out;
  for (const auto& [key, role] : roles_) {
    out.push_back(&role);
  }
  return out;
}

std::vector<DistinctStack> StackForest::stacks() const {
  std::map<const RoleTree*, size_t> order;
  for (const RoleTree* role : roles()) {
    order.emplace(role, order.size());
  }
  std::vector<DistinctStack> out;
  out.reserve(stacks_.size());
  for (const auto& [key, who] : stacks_) {
    const auto& [role, path, state, gil, threads] = key;
    out.push_back({.path = path,
                   .role = role,
                   .state = state,
                   .gil = gil,
                   .threads = threads,
                   .ranks = who.ranks,
                   .unranked = who.unranked});
  }
  std::sort(out.begin(), out.end(), [&order](const DistinctStack& a, const DistinctStack& b) {
    const auto key = [&order](const DistinctStack& s) {
      return std::tuple(order[s.role], s.processes(), std::cref(s.ranks), std::cref(s.unranked), s.path,
                        s.state, s.gil, s.threads);
    };
    return key(a) < key(b);
  });
  return out;
}

}  // namespace xpurun::report
