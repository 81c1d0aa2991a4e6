#include "report/tree/stack_forest.h"

#include "report/tree/roles.h"

#include <fmt/format.h>

#include <optional>

namespace xpurun::report {

namespace {

// Endless recursion must not make endless pages: of deeper stacks the middle is left out.
constexpr size_t kMaxDepth = 400;

bool belongs(const model::Frame& f, Layer layer) {
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

int order_of(const std::string& process, const std::string& thread) {
  if (process == "rank") {
    return thread == "main" ? 0 : 1;
  }
  return process == "worker" ? 2 : process == "agent" ? 3 : 4;
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

RoleTree& StackForest::role(const std::string& process, const std::string& thread) {
  RoleTree& r = roles_[{order_of(process, thread), thread}];
  r.process = process;
  r.thread = thread;
  return r;
}

Crowd StackForest::crowd_of(const model::ProcessStacks& p) {
  Crowd who;
  if (p.rank != base::kNoRank) {
    who.ranks.insert(p.rank);
  } else {
    const auto next = static_cast<base::Rank>(unranked_.size());
    who.unranked.insert(unranked_.try_emplace({p.host, p.pid}, next).first->second);
  }
  return who;
}

void StackForest::add(const model::ProcessStacks& p) {
  const std::string process = process_role(p);
  const Crowd who = crowd_of(p);
  if (process == "rank") {
    ranks_.insert(who.ranks);
  }
  if (p.threads.empty()) {
    const FrameId marker =
        frames_.intern_marker(p.reason.empty() ? "no stacks" : fmt::format("no stacks: {}", p.reason));
    for (FrameTree& tree : role(process, "main").layers) {
      tree.add({&marker, 1}, who);
    }
  }
  for (const model::ThreadStack& t : p.threads) {
    add_thread(role(process, thread_role(t)), t, who);
  }
}

void StackForest::add_thread(RoleTree& role, const model::ThreadStack& t, Crowd who) {
  who.threads = 1;
  who.states.add(t);
  std::vector<std::pair<const model::Frame*, FrameId>> outermost_first;
  const size_t n = t.frames.size();
  for (size_t i = 0; i < n; ++i) {
    const model::Frame& f = t.frames[n - 1 - i];
    if (n > kMaxDepth && i == kMaxDepth / 2) {
      static const model::Frame gap{.kind = model::FrameKind::marker};
      outermost_first.emplace_back(&gap, frames_.intern_marker("deep stack: frames left out here"));
    }
    if (n <= kMaxDepth || i < kMaxDepth / 2 || i >= n - kMaxDepth / 2) {
      outermost_first.emplace_back(&f, frames_.intern(f));
    }
  }
  for (Layer layer : kLayers) {
    std::vector<FrameId> path;
    for (const auto& [frame, id] : outermost_first) {
      if (belongs(*frame, layer)) {
        path.push_back(id);
      }
    }
    if (path.empty()) {
      // A main thread is shown in every layer, so that no rank goes missing from any picture.
      if (!t.main && layer != Layer::merged) {
        continue;
      }
      path.push_back(frames_.intern_marker(layer == Layer::python   ? "no Python frames"
                                           : layer == Layer::native ? "no native frames"
                                                                    : "no frames"));
    }
    role.layers[static_cast<size_t>(layer)].add(path, who);
  }
}

void StackForest::finish() {
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

}  // namespace xpurun::report
