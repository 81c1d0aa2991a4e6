#include "report/timeline/counters/counters.h"

#include "common/base/strings.h"
#include "common/model/evidence/gpu_health.h"
#include "common/model/evidence/machine.h"
#include "common/model/resources/resource_file.h"
#include "common/model/speed/gpu_capture.h"
#include "common/model/speed/resource_use.h"
#include "report/events/event_activity.h"
#include "report/gpu_work/queue_length.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <utility>

namespace xpurun::report {

namespace {

constexpr size_t kMostQueueSamples = 20'000;
constexpr size_t kMostResourceSamples = 20'000;  // of each resource
// A rank has less CPU time than this many seconds in a second; more comes from damage.
constexpr double kMostCores = 1e5;
constexpr double kMiB = 1024 * 1024;
constexpr size_t kMostIntruders = 4;  // of one rank
constexpr double kLeastTaken = 0.05;  // of the time of its CPUs

void put(Activity& activity, std::string_view name, std::string_view unit, int64_t wall_ns, double value) {
  if (wall_ns >= 0 && wall_ns <= kLatestNs) {
    activity.counter(name, unit).samples.push_back({wall_ns, value});
  }
}

// On the file's clock, from the first begin to the last end; without events the end is before the begin.
std::pair<uint64_t, uint64_t> time_of(const model::EventFile& file) {
  uint64_t from = std::numeric_limits<uint64_t>::max();
  uint64_t until = 0;
  for (const model::EventFile::Entry& entry : file.events) {
    const model::TimedEvent& e = entry.event;
    if (e.begin_ns <= static_cast<uint64_t>(kLatestNs) &&
        e.duration_ns <= static_cast<uint64_t>(kLongestNs)) {
      from = std::min(from, e.begin_ns);
      until = std::max(until, e.begin_ns + e.duration_ns);
    }
  }
  return {from, until};
}

double rate(int64_t before, int64_t after, double seconds) {
  return (static_cast<double>(after) - static_cast<double>(before)) / seconds;
}

}  // namespace

void add_load(Activity& activity, const model::SpanFile& file) {
  const std::vector<model::EventFile::Clocks> pairs{{file.header.mono_ns, file.header.wall_ns}};
  WallClock clock(pairs);
  for (const model::LoadSample& load : file.loads) {
    const int64_t at = clock.wall_ns(static_cast<uint64_t>(load.at_ns));
    const auto put_size = [&](const char* name, int64_t bytes) {
      if (bytes >= 0) {
        put(activity, name, "MiB", at, static_cast<double>(bytes) / kMiB);
      }
    };
    put_size("memory in RAM", load.resident_bytes);
    put_size("private memory", load.private_bytes);
    put_size("private memory of helpers", load.helpers_bytes);
    put_size("GPU memory allocated", load.gpu.allocated_bytes);
    put_size("GPU memory reserved", load.gpu.reserved_bytes);
  }
  for (size_t i = 0; i + 1 < file.loads.size(); ++i) {
    const model::LoadSample& a = file.loads[i];
    const model::LoadSample& b = file.loads[i + 1];
    const double seconds = (static_cast<double>(b.at_ns) - static_cast<double>(a.at_ns)) * 1e-9;
    if (!(seconds > 0)) {
      continue;
    }
    const double cores = rate(a.cpu_ns, b.cpu_ns, seconds) * 1e-9;
    const double waiting = rate(a.run_delay_ns, b.run_delay_ns, seconds) * 1e-9;
    const double throttled = rate(a.throttled_ns, b.throttled_ns, seconds) * 1e-9;
    const double stolen = rate(a.stolen_ns, b.stolen_ns, seconds) * 1e-9;
    const double faults = rate(a.major_faults, b.major_faults, seconds);
    const auto put_pair = [&](const char* name, const char* unit, double value) {
      put(activity, name, unit, clock.wall_ns(static_cast<uint64_t>(a.at_ns)), value);
      if (i + 2 == file.loads.size()) {
        put(activity, name, unit, clock.wall_ns(static_cast<uint64_t>(b.at_ns)), value);
      }
    };
    if (cores >= 0 && cores < kMostCores) {
      put_pair("CPU time", "cores", cores);
    }
    if (a.run_delay_ns >= 0 && b.run_delay_ns >= 0 && waiting >= 0 && waiting < kMostCores) {
      put_pair("ready without a CPU", "threads", waiting);
    }
    if (a.throttled_ns >= 0 && throttled >= 0 && throttled <= 1) {
      put_pair("throttled by a CPU limit", "share", throttled);
    }
    if (a.stolen_ns >= 0 && stolen >= 0 && stolen <= 1) {
      put_pair("CPU taken by the hypervisor", "share", stolen);
    }
    if (faults >= 0 && faults < 1e9) {
      put_pair("major page faults", "1/s", faults);
    }
  }
}

void add_intruders(Activity& activity, const std::string& machine_json) {
  const auto machine = model::load_machine_history(machine_json);
  if (!machine || activity.rank == base::kNoRank) {
    return;
  }
  size_t shown = 0;
  for (const model::Intruder& i : machine->intruders) {
    if (i.rank != activity.rank || i.share() < kLeastTaken || shown++ == kMostIntruders) {
      continue;
    }
    const std::string name = i.relation == model::CpuRelation::unseen
                                 ? "CPUs taken by unseen processes"
                                 : fmt::format("CPUs taken by {} ({})", base::sanitize(i.command), i.pid);
    put(activity, name, "share", i.begin_wall_ns, std::min(i.share(), 1.0));
    put(activity, name, "share", i.end_wall_ns, 0);
  }
}

void add_queue(Activity& activity, const model::EventFile& file) {
  const RecordedWork work = recorded_work(file);
  if (!work.problem.empty()) {
    return;
  }
  int64_t end = work.works.front().end;
  for (const GpuWork& w : work.works) {
    end = std::max(end, w.end);
  }
  WallClock clock(file.clocks);
  const auto changes = thinned(queue_changes(work, work.works.front().begin, end), kMostQueueSamples);
  for (const QueueChange& change : changes) {
    put(activity, work.cupti ? "GPU queue (capture)" : "GPU queue (trace)", "launches",
        clock.wall_ns(static_cast<uint64_t>(change.at)), static_cast<double>(change.length));
  }
}

void add_clocks(Activity& activity, const model::EventFile& file, const std::string& clocks_json) {
  const auto samples = model::load_clock_samples(clocks_json);
  if (!samples || file.events.empty() || file.header.gpu_uuid.empty()) {
    return;
  }
  const auto [from, until] = time_of(file);
  if (until < from) {
    return;
  }
  WallClock clock(file.clocks);
  for (const model::GpuClocks& gpu : samples->gpus) {
    if (gpu.uuid != file.header.gpu_uuid) {
      continue;
    }
    for (const uint64_t at : {from, until}) {
      const int64_t wall_ns = clock.wall_ns(at);
      if (gpu.sm_median_mhz >= 0) {
        put(activity, "SM clock (median)", "MHz", wall_ns, gpu.sm_median_mhz);
      }
      if (gpu.power_w >= 0) {
        put(activity, "power (median)", "W", wall_ns, gpu.power_w);
      }
      if (gpu.utilization_percent >= 0) {
        put(activity, "GPU utilization (median)", "%", wall_ns, gpu.utilization_percent);
      }
    }
  }
}

void add_run_clocks(Activity& activity, const model::EventFile& file, const std::string& gpu_health_json) {
  const auto [from, until] = time_of(file);
  const auto health = file.header.gpu_uuid.empty() || until < from
                          ? base::Result<model::GpuHealth>(base::fail("no GPU"))
                          : model::load_gpu_health(gpu_health_json);
  if (!health) {
    return;
  }
  WallClock clock(file.clocks);
  const int64_t begin_ns = clock.wall_ns(from);
  const int64_t end_ns = clock.wall_ns(until);
  for (const model::GpuHistory& gpu : health->gpus) {
    for (const model::GpuWindow& window : gpu.windows) {
      const bool inside = window.end_wall_ns >= begin_ns && window.begin_wall_ns <= end_ns;
      if (gpu.uuid == file.header.gpu_uuid && inside && window.clock_samples > 0) {
        put(activity, "SM clock (run)", "MHz", window.begin_wall_ns,
            window.sm_mhz_sum / static_cast<double>(window.clock_samples));
      }
    }
  }
}

void add_resources(Activity& activity, const std::string& resource_file) {
  const auto file = model::load_resource_file(resource_file);
  if (!file || file->samples.empty()) {
    return;
  }
  const std::vector<model::EventFile::Clocks> pairs{{file->header.mono_ns, file->header.wall_ns}};
  const size_t together = (file->samples.size() + kMostResourceSamples - 1) / kMostResourceSamples;
  for (const auto& [resource, metrics] : file->metrics) {
    const bool share = model::is_share(resource);
    const std::string_view unit = share ? "%" : "GB/s";
    WallClock clock(pairs);
    for (size_t first = 0; first < file->samples.size(); first += together) {
      const size_t end = std::min(first + together, file->samples.size());
      double sum = 0;
      for (size_t i = first; i < end; ++i) {
        sum += file->samples[i].values[static_cast<size_t>(resource)];
      }
      const double mean = sum / static_cast<double>(end - first);
      put(activity, model::title_of(resource), unit,
          clock.wall_ns(static_cast<uint64_t>(file->samples[first].begin_ns)),
          share ? 100 * mean : mean / 1e9);
    }
  }
}

void add_gpu_counters(Activity& activity, const model::EventFile& file, RecordedCalls recorded,
                      const std::string& path) {
  const std::filesystem::path dir = std::filesystem::path(path).parent_path();
  if (recorded == RecordedCalls::some) {
    // ranks/3 of a run
    add_run_clocks(activity, file, (dir.parent_path().parent_path() / model::kGpuHealthFile).string());
    return;
  }
  std::error_code ec;
  add_queue(activity, file);
  add_clocks(activity, file, (dir / "clocks.json").string());
  if (const auto samples = std::filesystem::path(path).replace_extension(model::kResourceFileSuffix);
      std::filesystem::exists(samples, ec)) {
    add_resources(activity, samples.string());
  }
}

}  // namespace xpurun::report
