#include "launcher/capture/gpu_watch.h"

#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "common/model/documents/document_text.h"
#include "launcher/evidence/clock_helper.h"

#include <limits>
#include <sys/epoll.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

constexpr size_t kLongestLine = 64 * 1024;
constexpr double kSaveS = 60;

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
  helper_.close_input();
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
  const auto devices = watched_gpus_from(line);
  if (devices.empty()) {
    return;
  }
  health_.add(devices, base::wall_ns(), kWatchIntervalS);
  processes_.clear();
  for (const model::GpuClockReading& reading : devices) {
    processes_.push_back(reading.processes);
  }
  if (base::ns_to_s(setup_.loop.now() - saved_) >= kSaveS) {
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
  if (!health_.gpus.empty()) {
    setup_.storage.replace(setup_.file, model::document_text(health_) + "\n");
  }
}

void GpuWatch::finish() {
  if (begun_) {
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
  readable();
  helper_.forget();
  return true;
}

}  // namespace xpurun::launcher
