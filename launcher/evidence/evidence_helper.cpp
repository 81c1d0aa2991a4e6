#include "launcher/evidence/evidence_helper.h"

#include "common/base/os/io.h"
#include "common/base/output/terminal.h"
#include "common/model/json/json_text.h"
#include "launcher/evidence/evidence_request.h"
#include "launcher/evidence/kernel_log.h"
#include "launcher/evidence/nvml.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <sys/prctl.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace xpurun::launcher {

using model::EvidencePart;
using model::EvidenceSource;
using model::EvidenceStatus;

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

// Time reserved for writing the last file.
constexpr std::chrono::milliseconds kReserve{200};
constexpr std::chrono::milliseconds kStep{50};
constexpr size_t kSources = model::kNames<EvidenceSource>.size();

struct Outcome {
  EvidenceStatus status = EvidenceStatus::ok;
  std::string reason;
};

base::Status write_json(const std::string& path, const Json& json) {
  return base::write_file_atomic(path, model::json_text(json, 1) + "\n");
}

class Helper {
 public:
  explicit Helper(EvidenceRequest request) : request_(std::move(request)), started_(Clock::now()) {
    const auto limit =
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(request_.limit_s));
    deadline_ = started_ + std::max<Clock::duration>(limit - kReserve, Clock::duration::zero());
  }

  // The threads may outlive this call; the process must end after it.
  int run() {
    if (!request_.kernel_only) {
      begin(EvidenceSource::gpu, [this] { return gpus(); });
    }
    begin(EvidenceSource::kernel_log, [this] { return kernel_log(); });
    if (!request_.ranks.empty()) {
      begin(EvidenceSource::flight_recorder, [this] { return flight_recorder(); });
    }
    std::unique_lock lock(mutex_);
    done_.wait_until(lock, deadline_, [this] { return running_ == 0; });
    ended_ = true;
    model::EvidenceManifest manifest;
    for (const auto& part : parts_) {
      if (part) {
        manifest.parts.push_back(*part);
      }
    }
    const auto written = write_json(request_.directory + "/evidence.json", to_json(manifest));
    return written ? 0 : 1;
  }

 private:
  void begin(EvidenceSource source, std::function<Outcome()> collect) {
    const std::lock_guard lock(mutex_);
    auto& part = parts_[static_cast<size_t>(source)];
    // Preset to a timeout: a source that never returns keeps this entry.
    part = EvidencePart{.source = source,
                        .status = EvidenceStatus::timeout,
                        .reason = "the time limit came first",
                        .seconds = request_.limit_s};
    ++running_;
    try {
      // Detached, because a call into a broken driver may never return, and the process must end in time.
      std::thread([this, source, collect = std::move(collect)] {
        finish(source, guarded(collect));
      }).detach();
    } catch (const std::system_error& e) {
      --running_;
      part->status = EvidenceStatus::failed;
      part->reason = e.what();
    }
  }

  // An exception that left a thread would end the process and with it the other sources.
  static Outcome guarded(const std::function<Outcome()>& collect) {
    try {
      return collect();
    } catch (const std::exception& e) {
      return {.status = EvidenceStatus::failed, .reason = e.what()};
    }
  }

  void finish(EvidenceSource source, Outcome outcome) {
    const std::lock_guard lock(mutex_);
    if (ended_) {
      return;
    }
    EvidencePart& part = *parts_[static_cast<size_t>(source)];
    part.status = outcome.status;
    part.reason = std::move(outcome.reason);
    part.seconds = std::chrono::duration<double>(Clock::now() - started_).count();
    --running_;
    done_.notify_all();
  }

  Outcome gpus() const {
    const GpuReading reading = request_.nvml.empty() ? read_gpus() : read_gpus(request_.nvml);
    if (!reading.state.devices.empty()) {
      if (const auto written = write_json(request_.directory + "/gpu.json", to_json(reading.state));
          !written) {
        return {.status = EvidenceStatus::failed, .reason = base::to_line(written.error())};
      }
    }
    return {.status = reading.status, .reason = reading.reason};
  }

  Outcome kernel_log() const {
    const KernelLog log = read_kernel_log(on_log_clock(request_.since_us));
    if (log.status == EvidenceStatus::ok) {
      if (const auto written = write_json(request_.directory + "/kernel.json", to_json(log.events));
          !written) {
        return {.status = EvidenceStatus::failed, .reason = base::to_line(written.error())};
      }
    }
    return {.status = log.status, .reason = log.reason};
  }

  Outcome flight_recorder() const {
    const auto wait = [this] {
      std::this_thread::sleep_for(kStep);
      return Clock::now() + kStep < deadline_;
    };
    FlightResult result = force_flight_dumps(request_.ranks, request_.directory + "/flight_recorder", wait);
    return {.status = result.status, .reason = std::move(result.reason)};
  }

  EvidenceRequest request_;
  Clock::time_point started_;
  Clock::time_point deadline_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable done_;
  std::optional<EvidencePart> parts_[kSources];
  int running_ = 0;
  bool ended_ = false;
};

}  // namespace

void run_evidence_helper(const std::vector<std::string>& words) {
  // A rank that closes its pipe at the wrong moment must not end this process.
  std::signal(SIGPIPE, SIG_IGN);
  // After the supervisor was killed, no process reads the evidence.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto request = parse_evidence_words(words);
  if (!request) {
    base::write_stderr(base::to_text(request.error()));
    ::_exit(2);
  }
  // Never destroyed, because abandoned threads still use it.
  auto* helper = new Helper(std::move(*request));
  ::_exit(helper->run());
}

}  // namespace xpurun::launcher
