// Suspicion: a rank that two looks in a row show is found, and two looks in a row that do not show it end
// that. Pure.
#pragma once

#include "common/base/ids.h"

namespace xpurun::launcher {

class Suspicion {
 public:
  struct News {
    bool found = false;               // the rank of this look
    base::Rank over = base::kNoRank;  // was found, and is not seen any more
  };
  // `suspect`: whom the look shows; kNoRank: nobody.
  News look(base::Rank suspect);
  // What was found was chance.
  void forget();
  base::Rank found() const { return found_; }
  // The latest look shows a rank, and another look would make it certain.
  bool waits() const { return suspect_ != base::kNoRank && found_ == base::kNoRank; }

 private:
  base::Rank suspect_ = base::kNoRank;
  base::Rank found_ = base::kNoRank;
  int without_ = 0;  // looks since the latest one that showed the found rank
};

}  // namespace xpurun::launcher
