#include "stackdump/memory/urgency.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

namespace xpurun::stackdump {

void become_urgent() {
  sched_param lowest{};
  // Even the lowest real-time priority runs before all ordinary threads. Without the privilege the call
  // fails, which is harmless.
  lowest.sched_priority = ::sched_get_priority_min(SCHED_RR);
  ::pthread_setschedparam(::pthread_self(), SCHED_RR, &lowest);
  // By default the kernel may delay the timers of ordinary threads by 50 us (timer slack). The value 1 ns
  // switches that off.
  ::prctl(PR_SET_TIMERSLACK, 1);
}

}  // namespace xpurun::stackdump
