// Samples of healthy jobs of tests/attack on a machine with 20 to 30 runnable threads for each
// CPU: those that met the thread at a moment that says nothing.
#include "launcher/watch/kernel_wait.h"
#include "launcher/watch/ready_time.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sys/syscall.h>
#include <vector>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

constexpr base::MonoNs kMs = 1'000'000;

struct RunSample {
  int at_ms;
  uint64_t cpu_ns;
  uint64_t queue_ns;
};

// H_long_gc, always in state R: two ticks of CPU time from 1803 ms to 4007 ms, three from then on.
constexpr RunSample kCollects[] = {
    {1803, 25658178, 2945444786}, {2004, 29676199, 3069382921}, {2204, 29676199, 3333361256},
    {2404, 29676199, 3517363399}, {2605, 29676199, 3685336891}, {2805, 29676199, 3757299145},
    {3005, 29676199, 4069279514}, {3206, 31698709, 4295191066}, {3406, 31698709, 4423159851},
    {3606, 31698709, 4423159851}, {3807, 31698709, 4915111148}, {4007, 31698709, 4915111148},
    {4207, 35674825, 5303114514}, {4408, 35674825, 5303114514}, {4608, 35674825, 5303114514},
    {4808, 35674825, 5891094606}, {5009, 35674825, 5891094606}, {5209, 35674825, 5891094606},
    {5409, 38925440, 6365906711}};

struct CallSample {
  int at_ms;
  int64_t call;  // -1: runs, or is ready to run
  uint64_t switches;
};

// H_download_stalls, with a block each 1.4 s: the one after 7.2 s meets the thread without a CPU.
constexpr CallSample kDownloads[] = {
    {5581, SYS_recvfrom, 5}, {5631, SYS_recvfrom, 6}, {7239, SYS_recvfrom, 6}, {7289, -1, 6},
    {7339, SYS_recvfrom, 7}, {7390, SYS_recvfrom, 7}, {8796, SYS_recvfrom, 7}, {8846, SYS_recvfrom, 8}};

// Of the time between two samples: on a CPU, or ready to run.
double share(const std::vector<base::ProcRunTime>& times, size_t from, size_t to) {
  const auto ready = [&](size_t i) { return times[i].cpu_ns + times[i].queue_ns; };
  return static_cast<double>(ready(to) - ready(from)) /
         static_cast<double>((kCollects[to].at_ms - kCollects[from].at_ms) * kMs);
}

}  // namespace

TEST_CASE("a thread without a CPU is ready in every window of samples") {
  constexpr size_t kWindow = 4;
  ReadyTime ready;
  std::vector<base::ProcRunTime> counted;
  std::vector<base::ProcRunTime> times;
  for (const RunSample& s : kCollects) {
    counted.push_back({.cpu_ns = s.cpu_ns, .queue_ns = s.queue_ns});
    times.push_back(ready.add(s.at_ms * kMs, 'R', counted.back()));
  }
  double least = 1;
  double least_counted = 1;
  for (size_t from = 0; from + kWindow < times.size(); ++from) {
    least = std::min(least, share(times, from, from + kWindow));
    least_counted = std::min(least_counted, share(counted, from, from + kWindow));
  }
  CHECK(least_counted < 0.65);
  CHECK(least > 0.75);
  CHECK(share(times, 0, times.size() - 1) < 1.05);  // no time counts twice
}

TEST_CASE("a thread that sleeps wants no CPU") {
  ReadyTime ready;
  uint64_t queue = 0;
  for (const char state : {'S', 'R', 'S', 'S', 'R'}) {
    queue = ready.add(static_cast<base::MonoNs>(++queue) * kMs, state, {.cpu_ns = 5, .queue_ns = 7}).queue_ns;
    CHECK(queue == 7);
  }
}

TEST_CASE("data that come while the thread lacks a CPU are seen") {
  TransferWatch watch;
  std::vector<int> seen;
  for (const CallSample& s : kDownloads) {
    if (watch.add({.transfers = s.call == SYS_recvfrom}, s.switches)) {
      seen.push_back(s.at_ms);
    }
  }
  CHECK(seen == std::vector{5631, 7339, 8846});
  watch.forget();
  CHECK_FALSE(watch.add({.transfers = true}, 20));  // woken by a stop
  CHECK_FALSE(watch.add({.transfers = true}, 20));
  CHECK(watch.add({.transfers = true}, 21));
}
