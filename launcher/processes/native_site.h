// NativeSite: the motion of a native thread, by looks at its stack. The thread stays where it is while the
// innermost function of the program and the call that it makes are the same; or, if the looks show that the
// thread circles, while the function is. Pure.
#pragma once

#include "common/base/clock.h"
#include "launcher/processes/native_look.h"

namespace xpurun::launcher {

class NativeSite {
 public:
  // Returns whether the look shows progress since the one before; the first one does. A look that has failed
  // shows nothing.
  bool moves(base::MonoNs now, const NativeLook& look);
  // There was a look, and fewer than `most` have failed since. How late a look comes says nothing about the
  // thread.
  bool known(int most) const { return at_ > 0 && missed_ < most; }
  bool circles() const { return circles_; }  // at the latest look, or at an earlier one of this place
  base::MonoNs at() const { return at_; }    // of the latest look; 0: none
  int looks() const { return looks_; }       // that have met the thread where it is
  // Other signs have shown progress.
  void forget() { *this = {}; }

 private:
  base::MonoNs at_ = 0;
  uint64_t function_ = 0;  // with all its callers
  uint64_t call_ = 0;      // return address in that function; 0: it calls nothing
  bool circles_ = false;
  int missed_ = 0;  // looks since then that have failed
  int looks_ = 0;
};

}  // namespace xpurun::launcher
