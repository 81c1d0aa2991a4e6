// Equivalence classes: ranks whose main threads are at the same position. The smallest class comes first,
// because the exceptional ranks are the interesting ones.
#pragma once

#include "common/model/rank_set.h"
#include "common/model/stack_snapshot.h"
#include "report/tree/frame_tree.h"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace xpurun::report {

struct StackClass {
  model::RankSet ranks;
  base::Rank representative = base::kNoRank;  // the lowest rank; the fields below are its own
  std::string host;
  base::Pid pid = 0;
  std::vector<model::Frame> frames;              // merged, innermost first
  std::string missing;                           // why there are no frames; empty if there are frames
  StateTally states;                             // of the main threads
  std::map<std::ptrdiff_t, std::string> source;  // source line of a Python frame, by frame index; on request
};

class ClassBuilder {
 public:
  // Ignores processes without a rank.
  void add(const model::ProcessStacks& p);
  // Smallest first, then by lowest rank.
  std::vector<StackClass> classes() const;

 private:
  std::map<std::string, StackClass> by_key_;
};

// The key of a class: every Python frame with its line, and the names of the native frames inside the last
// one. Leaves out addresses, native line numbers and the C library's own frames: ranks with the same wait
// poll in slightly different positions.
std::string class_key(const model::ThreadStack& t);

// The few frames that identify a stack: the innermost Python frame, then the user's own. Indices into
// `frames`, ascending.
inline constexpr size_t kShownFrames = 3;
std::vector<size_t> shown_frames(const std::vector<model::Frame>& frames, size_t at_most);

}  // namespace xpurun::report
