#include "common/model/stack_snapshot.h"

namespace xpurun::model {

const ThreadStack* ProcessStacks::main_thread() const {
  for (const ThreadStack& t : threads) {
    if (t.main) {
      return &t;
    }
  }
  return nullptr;
}

}  // namespace xpurun::model
