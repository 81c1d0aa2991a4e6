#include "stackdump/urgency.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

namespace xpurun::stackdump {

void become_urgent() {
  sched_param lowest{};
  lowest.sched_priority = ::sched_get_priority_min(SCHED_RR);
  ::pthread_setschedparam(::pthread_self(), SCHED_RR, &lowest);
  ::prctl(PR_SET_TIMERSLACK, 1);
}

}  // namespace xpurun::stackdump
