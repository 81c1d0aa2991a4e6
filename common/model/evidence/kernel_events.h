// KernelEvents: dumps/<n>-<why>/kernel.json, schema "xpurun.kernel/1": lines of the kernel log that may
// explain a hang or a death, from the time of the run.
#pragma once

#include "common/base/ids.h"
#include "common/base/result.h"
#include "common/model/names.h"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kKernelSchema = "xpurun.kernel/1";

enum class KernelEventKind {
  oom_kill,   // the kernel killed a process because memory ran out
  xid,        // NVIDIA's driver reported a GPU error
  hung_task,  // a thread was in uninterruptible sleep for minutes
};
template <>
inline constexpr std::array<std::string_view, 3> kNames<KernelEventKind> = {"oom_kill", "xid", "hung_task"};

struct KernelEvent {
  KernelEventKind kind = KernelEventKind::oom_kill;
  double at_s = 0;    // seconds since the run began
  base::Pid pid = 0;  // in the host's pid namespace; 0: not named
  std::string comm;   // empty: not named
  int xid = -1;
  std::string pci;            // xid: "0000:3b:00"
  bool memory_limit = false;  // oom_kill: at the limit of a control group, not of the host
  std::string text;           // the log line
  size_t node = 0;            // index into RunManifest::nodes; not kept
  bool host_pid = false;      // KernelEvents::host_pids; not kept
};

struct KernelEvents {
  std::vector<KernelEvent> events;  // oldest first
  bool host_pids = false;           // the run's pids are those of the host too, so pids can be compared
};

nlohmann::ordered_json to_json(const KernelEvents& k);
// An error means that the content does not match the schema; load_*() errors also name the path.
base::Result<KernelEvents> kernel_events_from_json(const nlohmann::json& j);
base::Result<KernelEvents> load_kernel_events(const std::string& path);

}  // namespace xpurun::model
