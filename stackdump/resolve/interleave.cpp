#include "stackdump/resolve/interleave.h"

#include <algorithm>

namespace xpurun::stackdump {

namespace {

constexpr size_t kNowhere = ~size_t{0};

size_t frame_around(const NativeStack& native, Addr anchor) {
  for (size_t i = 0; i < native.frames.size(); ++i) {
    if (anchor >= native.frames[i].sp && anchor < native.frames[i].cfa) {
      return i;
    }
  }
  return kNowhere;
}

// Without anchors (<= 3.10) each evaluation frame runs one Python frame, in the same order. After a complete
// unwind the pairing starts at the outer end, because an evaluation that has just begun has no Python frame
// yet. An incomplete unwind lacks outer frames, so the pairing starts at the inner end.
std::vector<size_t> pair_by_order(const NativeStack& native, size_t groups,
                                  const std::vector<bool>& is_eval) {
  std::vector<size_t> evals;
  for (size_t i = 0; i < native.frames.size() && i < is_eval.size(); ++i) {
    if (is_eval[i]) {
      evals.push_back(i);
    }
  }
  std::vector<size_t> out(groups, kNowhere);
  const size_t pairs = std::min(groups, evals.size());
  const bool from_outside = native.stopped.empty();
  for (size_t i = 0; i < pairs; ++i) {
    if (from_outside) {
      out[groups - 1 - i] = evals[evals.size() - 1 - i];
    } else {
      out[i] = evals[i];
    }
  }
  return out;
}

class Merger {
 public:
  Merger(const std::vector<FrameGroup>& groups, std::vector<MergedItem>& out) : groups_(groups), out_(out) {}

  void python(size_t group) {
    for (size_t f = 0; f < groups_[group].frames.size(); ++f) {
      out_.push_back({.kind = MergedItem::Kind::python, .group = group, .frame = f});
    }
  }
  void marker(std::string text) {
    out_.push_back({.kind = MergedItem::Kind::marker, .marker = std::move(text)});
  }
  void native(size_t index, bool eval) {
    out_.push_back({.kind = MergedItem::Kind::native, .native = index, .eval = eval});
  }

 private:
  const std::vector<FrameGroup>& groups_;
  std::vector<MergedItem>& out_;
};

}  // namespace

std::vector<MergedItem> interleave(const NativeStack& native, const std::vector<FrameGroup>& groups,
                                   const std::vector<bool>& is_eval) {
  const bool anchored =
      std::any_of(groups.begin(), groups.end(), [](const FrameGroup& g) { return g.anchor != 0; });
  std::vector<size_t> place = pair_by_order(native, anchored ? 0 : groups.size(), is_eval);
  if (anchored) {
    for (const FrameGroup& g : groups) {
      place.push_back(g.anchor == 0 ? kNowhere : frame_around(native, g.anchor));
    }
  }
  std::vector<MergedItem> out;
  Merger merge(groups, out);
  size_t next = 0;  // first group not yet written
  const auto write_unplaced = [&](size_t end) {
    if (next < end && !native.frames.empty()) {
      merge.marker("Python frames whose native frame was not found");
    }
    for (; next < end; ++next) {
      merge.python(next);
    }
  };
  for (size_t i = 0; i < native.frames.size(); ++i) {
    bool eval = false;
    // Groups keep their order: all earlier groups come before the group that belongs here.
    for (size_t g = next; g < groups.size(); ++g) {
      if (place[g] == i) {
        write_unplaced(g);
        merge.python(g);
        next = g + 1;
        eval = true;
      }
    }
    merge.native(i, eval);
  }
  if (!native.stopped.empty()) {
    merge.marker("unwind stopped: " + native.stopped);
  }
  write_unplaced(groups.size());
  return out;
}

}  // namespace xpurun::stackdump
