#include "stackdump/memory/urgency.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

namespace xpurun::stackdump {

void become_urgent() {
  sched_param lowest{};
  // The lowest real-time priority already runs before all ordinary threads.
  lowest.sched_priority = ::sched_get_priority_min(SCHED_RR);
  ::pthread_setschedparam(::pthread_self(), SCHED_RR, &lowest);
  // The kernel may delay the timers of ordinary threads by 50 us by default (timer slack); 1 ns switches that
  // off.
  ::prctl(PR_SET_TIMERSLACK, 1);
}

}  // namespace xpurun::stackdump
