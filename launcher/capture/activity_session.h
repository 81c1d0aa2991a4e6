// ActivitySession: lets CUPTI record the GPU's activity in the ranks of this node, one session at a time. It
// asks the ranks, gives each rank its memory, and writes their records into rank-<n>.xev of the capture's
// directory, samples of hardware counters into rank-<n>.xrs, and the results into gpu.json. Event loop's
// thread only.
#pragma once

#include "common/model/speed/gpu_capture.h"
#include "launcher/capture/activity_file.h"
#include "launcher/capture/resource_writer.h"
#include "launcher/collect/collector.h"
#include "launcher/os/timer.h"
#include "launcher/processes/process_table.h"

#include <functional>
#include <map>
#include <optional>
#include <string>

namespace xpurun::launcher {

class ActivitySession {
 public:
  struct Parts {
    EventLoop& loop;
    Storage& storage;
    const ProcessTable& table;
    Collector& collector;
  };
  struct Hooks {
    // The median duration of the steps that lie in this time, CLOCK_MONOTONIC; negative: no such step.
    std::function<double(base::MonoNs from, base::MonoNs until)> step_s;
  };
  struct Order {
    double seconds = 0;
    std::string directory;  // of the capture
    model::RankSet ranks;   // empty: all
    // Called once from the loop, when the first rank records, or when none will.
    std::function<void()> recording;
  };
  // Called from the loop once gpu.json has been passed to the storage.
  using Done = std::function<void(const model::GpuCapture& result)>;

  ActivitySession(Parts parts, std::string host, Hooks hooks)
      : parts_(parts), host_(std::move(host)), hooks_(std::move(hooks)) {}
  ActivitySession(const ActivitySession&) = delete;
  ActivitySession& operator=(const ActivitySession&) = delete;

  // Call only while no session is active.
  void start(Order order, Done done);
  bool active() const { return current_.has_value(); }

  // A process asks for its memory. `answer` is called once, before the return, with the descriptor to send,
  // or with -1.
  void attach(base::Pid pid, const std::function<void(int descriptor)>& answer);

 private:
  struct RankPart {
    base::Rank rank = base::kNoRank;
    int local_rank = -1;
    std::optional<ActivityMemory> memory;
    std::optional<ActivityFile> file;
    std::optional<ResourceWriter> samples;
    base::MonoNs late_at = 0;  // a rank without an answer by then is left out
    bool ended = false;
  };
  struct Current {
    Order order;
    Done done;
    base::MonoNs started = 0;
    bool recording = false;  // Order::recording was called
    std::map<base::Pid, RankPart> ranks;
  };

  void poll();
  void poll(base::Pid pid, RankPart& rank);
  void open(base::Pid pid, RankPart& rank);
  void open_samples(base::Pid pid, RankPart& rank);
  model::EventFileHeader file_header(base::Pid pid, const RankPart& rank);
  model::RankActivity result_of(base::Pid pid, const RankPart& rank);
  void finish();

  Parts parts_;
  std::string host_;
  Hooks hooks_;
  std::optional<Current> current_;
  uint32_t count_ = 0;
  Timer timer_{parts_.loop};
};

}  // namespace xpurun::launcher
