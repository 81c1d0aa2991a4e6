// The mapping of the GPU's clock to the host's on a simulated GPU: the clocks drift apart and
// host or GPU are sometimes delayed, and still every time that is called close is accurate.
#include "preload/core/clock.h"
#include "preload/cuda/cuda_api.h"
#include "preload/cuda/gpu_clock.h"

#include <cmath>
#include <cstdio>
#include <deque>
#include <random>

using namespace xpurun::preload;

namespace {

constexpr double kUs = 1000;
constexpr double kMs = 1e6;
constexpr double kSecond = 1e9;
constexpr double kKnown = 8 * kSecond;
constexpr int kNotReady = 600;

struct World {
  double drift = 0;         // of the GPU's clock relative to the host's
  double host_held_up = 0;  // how often recording takes 5 ms, with the event handed over anywhere in it
  double host_late = 0;     // how often it takes up to 40 us longer to return
  double gpu_held_up = 0;   // how often the GPU has the event late, by up to 2 ms
};

struct Event {
  double host_ns = 0;  // when the GPU reached the event
};

World g_world;
std::deque<Event> g_events;
std::mt19937 g_random{1};
double g_now = 100 * kSecond;

double random(double most) {
  return std::uniform_real_distribution<double>(0, most)(g_random);
}

double gpu_clock(double host_ns) {
  return (host_ns - 50 * kSecond) * (1 + g_world.drift);
}

int create_event(void** event, unsigned) {
  *event = &g_events.emplace_back();
  return 0;
}

int create_stream(void** stream, unsigned) {
  *stream = &g_world;
  return 0;
}

int record(void* event, void*) {
  const double takes = random(1) < g_world.host_held_up ? 5 * kMs : 10 * kUs;
  const double handed_over = g_now + takes * (takes > kMs ? random(1) : 0.9);
  const double late = random(1) < g_world.gpu_held_up ? random(2 * kMs) : random(1 * kUs);
  static_cast<Event*>(event)->host_ns = handed_over + late;
  g_now += takes + (random(1) < g_world.host_late ? random(40 * kUs) : 0);
  return 0;
}

int query(void* event) {
  return g_now >= static_cast<Event*>(event)->host_ns ? 0 : kNotReady;
}

int elapsed(float* ms, void* start, void* stop) {
  *ms = static_cast<float>(
      (gpu_clock(static_cast<Event*>(stop)->host_ns) - gpu_clock(static_cast<Event*>(start)->host_ns)) / kMs);
  return 0;
}

// The worst errors of times that are called close, before and after the clock rates are known, and the
// percentage of polls with such times.
struct Outcome {
  double first_us = 0;
  double later_us = 0;
  double share = 0;
};

Outcome watch(const World& world) {
  g_world = world;
  GpuClock clock;
  clock.set_up();
  constexpr int kLooks = 6000;
  Outcome out;
  int close = 0;
  for (int i = 0; i < kLooks; ++i) {
    clock.tick();
    g_now += 10 * kMs;
    if (clock.is_close()) {
      Event event{g_now - random(10 * kMs)};
      const double error = std::abs(static_cast<double>(clock.host_time_of(&event)) - event.host_ns) / kUs;
      double& worst = i * 10 * kMs < kKnown ? out.first_us : out.later_us;
      worst = std::max(worst, error);
      ++close;
    }
  }
  out.share = 100.0 * close / kLooks;
  return out;
}

bool is_good(const char* name, const World& world, double first_us, double later_us) {
  const Outcome found = watch(world);
  const bool good = found.first_us <= first_us && found.later_us <= later_us && found.share >= 95;
  std::printf("%s %s: at most %.1f us off (may be %.0f), later %.1f (%.0f), close at %.1f %% of the looks\n",
              good ? "ok   " : "WRONG", name, found.first_us, first_us, found.later_us, later_us,
              found.share);
  return good;
}

}  // namespace

namespace xpurun::preload {

uint64_t now_ns() {
  return static_cast<uint64_t>(g_now);
}

const CudaApi& cuda_api() {
  static const CudaApi api = [] {
    CudaApi made{};
    made.event_create = create_event;
    made.stream_create = create_stream;
    made.event_record = record;
    made.event_query = query;
    made.event_elapsed = elapsed;
    return made;
  }();
  return api;
}

void forget_cuda_error() {}

}  // namespace xpurun::preload

int main() {
  bool good = is_good("undisturbed", {}, 3, 3);
  // A quarter of a second between two of them makes 10 us at 40 ppm.
  good &= is_good("fast clock", {4e-5, 0, 0, 0}, 15, 4);
  good &= is_good("slow clock", {-4e-5, 0, 0, 0}, 15, 4);
  good &= is_good("busy host", {3e-6, 0.3, 0, 0}, 5, 5);
  good &= is_good("host looks late", {3e-6, 0, 0.05, 0}, 60, 5);
  good &= is_good("busy GPU", {3e-6, 0, 0, 0.3}, 15, 6);
  good &= is_good("all", {-3e-6, 0.2, 0.05, 0.2}, 60, 5);
  return good ? 0 : 1;
}
