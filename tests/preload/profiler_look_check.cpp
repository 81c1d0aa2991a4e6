// The poller reads NCCL's reports, with a fake clock: each time the clock is read, the reader
// pauses for some milliseconds, as on a busy machine, while NCCL's proxy continues. No report is lost and
// no
// time is taken too early.
#include "preload/core/clock.h"
#include "preload/core/resolve.h"
#include "preload/core/state.h"
#include "preload/nccl_profiler/abi.h"
#include "preload/nccl_profiler/profiler.h"
#include "preload/record/own_cost.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

using namespace xpurun;

extern "C" const preload::ProfilerTableV5 ncclProfiler_v5;

namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kGpuClock = 1'700'000'000'000'000'000;
constexpr int kSkipped = 77;
constexpr int kChannels = 3;

uint64_t g_now = 1000 * kMs;
std::function<void()> g_meanwhile;
void* g_context = nullptr;

int g_wrong = 0;

void expect(bool good, const char* what) {
  if (!good) {
    std::printf("wrong: %s\n", what);
    ++g_wrong;
  }
}

}  // namespace

namespace xpurun::preload {

constinit State g_state;
__thread ThreadState t_thread;

uint64_t now_ns() {
  const uint64_t now = g_now;
  if (const std::function<void()> meanwhile = std::exchange(g_meanwhile, nullptr)) {
    meanwhile();
    g_meanwhile = meanwhile;
  }
  return now;
}

void* find_in_library(const char*, const char*) {
  return nullptr;
}

void profiled(uint64_t) {}

}  // namespace xpurun::preload

namespace {

// A called and launched collective, as NCCL reports it.
class Collective {
 public:
  explicit Collective(uint64_t number) {
    static char buffers[4096];
    char* const buffer = &buffers[number % sizeof(buffers)];
    preload::Expected expected{};
    expected.sequence = number;
    expected.call_ns = g_now;
    expected.send = buffer;
    expected.receive = buffer;
    expected.root = -1;
    expect(preload::expect_collective(expected) != preload::kNoRecord, "NCCL is asked");
    preload::CollV5 told{};
    told.head.type = preload::kEventColl;
    told.send = buffer;
    told.receive = buffer;
    told.channels = kChannels;
    ncclProfiler_v5.start(g_context, &self_, &told);
    ncclProfiler_v5.stop(self_);
    preload::stop_asking_nccl();
    preload::expected_are_launched(preload::Launched::now);
  }

  void begin(uint8_t channel) {
    preload::KernelChV4 told{};
    told.head.type = preload::kEventKernelCh;
    told.head.parent = self_;
    told.channel = channel;
    told.timer = g_now + kGpuClock;
    ncclProfiler_v5.start(g_context, &channels_.at(channel), &told);
  }

  void end(uint8_t channel) {
    preload::KernelChStop told{g_now + kGpuClock};
    ncclProfiler_v5.record(channels_.at(channel), preload::kStateKernelChStop, &told);
    ncclProfiler_v5.stop(channels_.at(channel));
  }

 private:
  void* self_ = nullptr;
  std::array<void*, kChannels> channels_{};
};

std::vector<preload::ProfiledCollective> look() {
  std::vector<preload::ProfiledCollective> found;
  preload::ProfiledCollective one{};
  for (uint32_t at = 0; preload::next_profiled(&at, &one);) {
    found.push_back(one);
  }
  return found;
}

// While the poller reads, one collective after the other completes.
void one_after_the_other() {
  constexpr size_t kCount = 64;
  std::vector<Collective> launched;
  for (size_t i = 0; i < kCount; ++i) {
    launched.emplace_back(i + 1);
  }
  size_t next = 0;
  g_meanwhile = [&] {
    g_now += 5 * kMs;
    if (next < kCount) {
      for (uint8_t c = 0; c < kChannels; ++c) {
        launched[next].begin(c);
      }
      g_now += kMs;
      for (uint8_t c = 0; c < kChannels; ++c) {
        launched[next].end(c);
      }
      ++next;
    }
  };
  size_t found = 0;
  for (size_t looks = 0; looks < kCount && found < kCount; ++looks) {
    for (const preload::ProfiledCollective& one : look()) {
      ++found;
      expect(one.duration_ns == kMs, "a duration");
    }
  }
  g_meanwhile = nullptr;
  expect(found == kCount, "all are found");
}

// While the poller reads, the first channel is done, and the others are about to begin.
void channel_by_channel() {
  Collective launched(100);
  uint8_t next = 0;
  g_meanwhile = [&] {
    g_now += 5 * kMs;
    if (next < kChannels) {
      launched.begin(next);
      g_now += kMs;
      launched.end(next++);
    }
  };
  std::vector<preload::ProfiledCollective> found;
  for (int looks = 0; looks < 10 && found.empty(); ++looks) {
    found = look();
  }
  g_meanwhile = nullptr;
  expect(found.size() == 1 && found[0].duration_ns == 13 * kMs, "not before the last channel");
}

}  // namespace

int main() {
  setenv("XPURUN_RUN_PROFILER", "always:none", 1);
  const auto shared = std::make_unique<wire::Segment>();
  preload::g_state.segment.store(shared.get());
  preload::g_state.level.store(wire::Level::full);
  // By the ledger, the GPU is beyond all collectives without a report.
  shared->comms[0].done.store(1000);
  int mask = 0;
  ncclProfiler_v5.init(&g_context, 1, &mask, nullptr, 8, 8, 0, nullptr);
  if (preload::profiler_use() != preload::ProfilerUse::times) {
    std::printf("skipped: no room in /dev/shm\n");
    return kSkipped;
  }
  one_after_the_other();
  channel_by_channel();
  expect(shared->header.health.profiler_lost.load() == 0, "none is lost");
  expect(preload::profiler_use() == preload::ProfilerUse::times, "NCCL goes on being asked");
  return g_wrong == 0 ? 0 : 1;
}
