// Equivalence classes: ranks whose main threads stand at the same place. The smallest class comes first,
// because whoever differs from the others is who one looks for.
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
  base::Rank representative = base::kNoRank;  // the lowest; the fields below are its own
  std::string host;
  base::Pid pid = 0;
  std::vector<model::Frame> frames;  // merged, innermost first
  std::string missing;               // why there are no frames, empty if there are
  StateTally states;                 // of the main threads
  std::map<std::ptrdiff_t, std::string>
      source;  // index of a Python frame -> that line of its file; on request
};

class ClassBuilder {
 public:
  // Processes that are no ranks are ignored.
  void add(const model::ProcessStacks& p);
  // Smallest first, then by lowest rank.
  std::vector<StackClass> classes() const;

 private:
  std::map<std::string, StackClass> by_key_;
};

// What two main threads must have in common to be in one class: every Python frame with its line, and the
// names of the native frames below the last one. Addresses, lines of native code and the C library's own
// frames are left out: ranks that wait for the same thing poll in slightly different places.
std::string class_key(const model::ThreadStack& t);

// The few frames that tell where a stack is: the innermost Python frame, then the user's own. Indices into
// `frames`, ascending.
inline constexpr size_t kTellingFrames = 3;
std::vector<size_t> telling_frames(const std::vector<model::Frame>& frames, size_t at_most);

}  // namespace xpurun::report
