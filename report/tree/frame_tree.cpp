#include "report/tree/frame_tree.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/frame_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace xpurun::report {

namespace {

std::string detail_of(const model::Frame& f) {
  switch (f.kind) {
    case model::FrameKind::python:
      return base::sanitize(f.file);
    case model::FrameKind::native:
      return base::sanitize(f.full_func.empty() ? f.module : fmt::format("{} in {}", f.full_func, f.module));
    case model::FrameKind::kernel:
    case model::FrameKind::gpu:
    case model::FrameKind::marker:
      break;
  }
  return {};
}

}  // namespace

FrameId FrameTable::intern(const model::Frame& frame) {
  // A cheap key for frames that were seen before: label and detail are made once per frame.
  source_.clear();
  source_ += static_cast<char>('0' + static_cast<int>(frame.kind) * 2 + (frame.eval ? 1 : 0));
  for (const std::string* part : {&frame.func, &frame.file, &frame.module, &frame.full_func}) {
    source_ += *part;
    source_ += '\0';
  }
  source_.append(reinterpret_cast<const char*>(&frame.line), sizeof frame.line);
  if (const auto it = by_source_.find(source_); it != by_source_.end()) {
    return it->second;
  }
  const FrameId id = intern(TreeFrame{.label = model::frame_label(frame),
                                      .kind = frame.kind,
                                      .detail = detail_of(frame),
                                      .group = frame_group(frame),
                                      .eval = frame.eval});
  by_source_.emplace(source_, id);
  return id;
}

FrameId FrameTable::intern_marker(const std::string& text) {
  return intern(
      TreeFrame{.label = fmt::format("[{}]", base::sanitize(text)), .kind = model::FrameKind::marker});
}

FrameId FrameTable::intern(TreeFrame frame) {
  const std::string key =
      fmt::format("{}{}{}", static_cast<int>(frame.kind), frame.eval ? 'e' : ' ', frame.label);
  const auto [it, fresh] = by_key_.try_emplace(key, static_cast<FrameId>(frames_.size()));
  if (fresh) {
    frames_.push_back(std::move(frame));
  } else if (frame.detail < frames_[it->second].detail) {
    // Any of the details is acceptable, but the choice must not depend on the order of arrival.
    frames_[it->second].detail = std::move(frame.detail);
  }
  return it->second;
}

void StateTally::add(char state, model::GilState gil, uint32_t threads) {
  switch (state) {
    case 'R':
      running += threads;
      break;
    case 'S':
    case 'I':
      sleeping += threads;
      break;
    case 'D':
      uninterruptible += threads;
      break;
    case 'T':
    case 't':
      stopped += threads;
      break;
    default:
      other += threads;
  }
  gil_holder += gil == model::GilState::holder ? threads : 0;
  gil_waiting += gil == model::GilState::waiting ? threads : 0;
  gil_dropping += gil == model::GilState::dropping ? threads : 0;
}

void StateTally::add(const StateTally& t) {
  running += t.running;
  sleeping += t.sleeping;
  uninterruptible += t.uninterruptible;
  stopped += t.stopped;
  other += t.other;
  gil_holder += t.gil_holder;
  gil_waiting += t.gil_waiting;
  gil_dropping += t.gil_dropping;
}

std::string StateTally::text() const {
  using base::later;
  std::vector<std::string> parts;
  const auto put = [&parts](uint32_t n, std::string_view what) {
    if (n > 0) {
      parts.push_back(fmt::format("{} {}", n, base::tr(what)));
    }
  };
  put(running, later("running"));
  put(sleeping, later("sleeping"));
  put(uninterruptible, later("uninterruptible"));
  put(stopped, later("stopped"));
  put(other, later("in an unknown state"));
  put(gil_holder, later("holding the GIL"));
  put(gil_waiting, later("waiting for the GIL"));
  put(gil_dropping, later("giving up the GIL"));
  return base::join(parts, base::tr(", "));
}

void StackOwners::add(const StackOwners& other) {
  if (!ranks.contains(other.ranks)) {
    ranks.insert(other.ranks);
  }
  if (!unranked.contains(other.unranked)) {
    unranked.insert(other.unranked);
  }
  threads += other.threads;
  states.add(other.states);
}

void FrameTree::add(std::span<const FrameId> path, const StackOwners& who) {
  NodeId at = kRoot;
  for (FrameId frame : path) {
    at = child(at, frame);
  }
  nodes_[at].self.add(who);
}

FrameTree::NodeId FrameTree::child(NodeId parent, FrameId frame) {
  const uint64_t edge = uint64_t{parent} << 32 | frame;
  const auto [it, fresh] = edges_.try_emplace(edge, static_cast<NodeId>(nodes_.size()));
  if (fresh) {
    nodes_.push_back(Node{.frame = frame});
    nodes_[parent].children.push_back(it->second);
  }
  return it->second;
}

void FrameTree::finish(const FrameTable& frames) {
  // Children have larger numbers than their parents, so their totals are complete first.
  for (size_t i = nodes_.size(); i-- > 0;) {
    Node& node = nodes_[i];
    node.total = node.self;
    for (NodeId c : node.children) {
      node.total.add(nodes_[c].total);
    }
    std::sort(node.children.begin(), node.children.end(), [&](NodeId a, NodeId b) {
      const auto key = [&](NodeId id) {
        const Node& n = nodes_[id];
        return std::tuple(n.total.weight(), n.total.ranks.lowest(), std::string_view(frames[n.frame].label),
                          frames[n.frame].kind);
      };
      return key(a) < key(b);
    });
  }
}

}  // namespace xpurun::report
