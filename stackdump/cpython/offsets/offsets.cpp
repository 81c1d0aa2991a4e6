#include "stackdump/cpython/offsets/offsets.h"

namespace xpurun::stackdump {

const Offsets* offsets_for_minor(int minor) {
  switch (minor) {
    case 8:
      return &kOffsets38;
    case 9:
      return &kOffsets39;
    case 10:
      return &kOffsets310;
    case 11:
      return &kOffsets311;
    case 12:
      return &kOffsets312;
    default:
      return nullptr;
  }
}

}  // namespace xpurun::stackdump
