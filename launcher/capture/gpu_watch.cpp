#include "launcher/capture/gpu_watch.h"

#include "common/base/clock.h"
#include "common/base/os/io.h"
#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "common/model/documents/document_text.h"
#include "launcher/evidence/clock_helper.h"

#include <limits>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

constexpr size_t kLongestLine = size_t{1} << 20;
constexpr double kSaveS = 60;
// A reading of eight GPUs takes some 10 ms. A driver that blocks shall not keep the job's end waiting.
constexpr double kLastReadingS = 0.5;

// What a supervisor that is killed must have written: the GPUs, and each time in which a fact held.
size_t count_news(const model::GpuHealth& health) {
  size_t out = health.inventory.units.size();
  for (const model::MachineSeries& s : health.counted.series) {
    out += s.spells.size();
  }
  return out;
}

}  // namespace

void GpuWatch::start() {
  if (std::exchange(begun_, true)) {
    return;
  }
  std::vector<std::string> words = watch_words(kWatchIntervalS);
  words.insert(words.begin(), setup_.program);
  auto helper = HelperProcess::start(words, setup_.signal_mask, setup_.stderr_fd);
  if (!helper) {
    base::log_info("the GPUs' clocks are not watched: {}", base::to_line(helper.error()));
    return;
  }
  helper_ = std::move(*helper);
  setup_.started(helper_.pid());
  if (!setup_.loop.add(helper_.output(), EPOLLIN, [this](uint32_t) { readable(); })) {
    helper_.kill();
  }
}

void GpuWatch::readable() {
  if (!helper_.read_lines(text_, kLongestLine, [this](std::string_view line) { take(line); })) {
    setup_.loop.remove(helper_.output());
    helper_.close_output();
  }
}

void GpuWatch::take(std::string_view line) {
  const auto devices = add_line(health_, line, base::wall_ns(), kWatchIntervalS, setup_.name_of_stranger);
  if (!devices.empty()) {
    processes_.clear();
    for (const model::GpuClockReading& reading : devices) {
      processes_.push_back(reading.processes);
    }
  }
  const size_t news = count_news(health_);
  if (news != news_saved_ || base::ns_to_s(setup_.loop.now() - saved_) >= kSaveS) {
    news_saved_ = news;
    save();
  }
}

std::vector<GpuThrottling> GpuWatch::throttling() const {
  std::vector<GpuThrottling> out;
  for (const model::GpuClocks& gpu :
       health_.clocks(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max())) {
    GpuThrottling& one = out.emplace_back();
    one.uuid = gpu.uuid;
    one.observed_s = static_cast<double>(gpu.samples) * kWatchIntervalS;
    for (const model::ThrottleShare& t : gpu.throttled) {
      one.throttled_s[static_cast<size_t>(t.reason)] = t.share * one.observed_s;
    }
  }
  return out;
}

void GpuWatch::save() {
  saved_ = setup_.loop.now();
  if (!health_.empty()) {
    setup_.storage.replace(setup_.file, model::document_text(health_) + "\n");
  }
}

void GpuWatch::look() {
  if (helper_.input() >= 0) {
    static_cast<void>(base::write_all(helper_.input(), "\n"));
  }
}

void GpuWatch::finish() {
  if (begun_) {
    // The end of its input asks for the last reading, after which the helper ends.
    helper_.close_input();
    const base::MonoNs until = base::mono_ns() + base::s_to_ns(kLastReadingS);
    while (helper_.output() >= 0 && !health_.empty() && base::mono_ns() < until) {
      pollfd output{.fd = helper_.output(), .events = POLLIN, .revents = 0};
      ::poll(&output, 1, static_cast<int>(base::ns_to_s(until - base::mono_ns()) * 1000) + 1);
      readable();
    }
    save();
    stop();
  }
}

void GpuWatch::stop() {
  if (helper_.output() >= 0) {
    setup_.loop.remove(helper_.output());
    helper_.close_output();
  }
  helper_.kill();
}

bool GpuWatch::helper_ended(base::Pid pid, base::WaitStatus) {
  if (helper_.pid() <= 0 || pid != helper_.pid()) {
    return false;
  }
  // The last lines are still in the pipe.
  if (helper_.output() >= 0) {
    readable();
  }
  helper_.forget();
  return true;
}

}  // namespace xpurun::launcher
