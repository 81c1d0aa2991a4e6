// CommonPlace: where a rank works, from several samples of its stack: the innermost function of the user's
// code that all samples have in common. A rank that evaluates is in evaluate, whatever function one sample
// meets. Pure.
#pragma once

#include "common/model/verdict.h"
#include "stackdump/resolve/position.h"

#include <vector>

namespace xpurun::launcher {

bool is_users_file(std::string_view file);
// The place as a verdict names it.
model::CodeLocation place_in_user_code(const std::vector<stackdump::CodeLine>& innermost_first);
// That place is in the program's own code.
bool in_users_code(const std::vector<stackdump::CodeLine>& innermost_first);

class CommonPlace {
 public:
  // `lines` of a Position with all frames; empty: nothing could be read.
  void add(const std::vector<stackdump::CodeLine>& innermost_first);
  void forget() { *this = {}; }
  // With the line of the last sample. Empty unless the rank has been seen in at least two places, all within
  // one function of the user's code.
  model::CodeLocation place() const;

 private:
  std::vector<stackdump::CodeLine> common_;  // outermost first
  bool any_ = false;
  bool moved_ = false;
};

}  // namespace xpurun::launcher
