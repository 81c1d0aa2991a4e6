#include "launcher/processes/native_site.h"

#include "common/base/hash.h"
#include "report/diagnosis/waits/code_place.h"

#include <algorithm>

namespace xpurun::launcher {

bool NativeSite::moves(base::MonoNs now, const NativeLook& look) {
  if (look.frames.empty()) {
    missed_ += look.given_up ? 0 : 1;
    return false;
  }
  missed_ = 0;
  auto own = std::find_if(look.frames.begin(), look.frames.end(), report::is_of_the_program);
  own = own == look.frames.end() ? look.frames.begin() : own;
  uint64_t function = base::hash_text(own->func);
  for (auto caller = own + 1; caller < look.frames.end(); ++caller) {
    function = base::hash_words(function, {caller->pc});
  }
  const uint64_t call = own == look.frames.begin() ? 0 : own->pc;
  const bool moved = at_ == 0 || function != function_ || (call != call_ && !look.circles);
  looks_ = moved ? 1 : looks_ + 1;
  at_ = now;
  function_ = function;
  call_ = call;
  // On a busy machine a look may see too few states to tell: at the same place, the thread still circles.
  circles_ = look.circles || (circles_ && !moved);
  return moved;
}

}  // namespace xpurun::launcher
