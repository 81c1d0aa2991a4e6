#include "launcher/supervise/reporting/rank_progress.h"

namespace xpurun::launcher {

namespace {

CpuLosses cpu_losses(const std::optional<model::LoadSample>& load) {
  const auto seconds = [](int64_t ns) { return ns < 0 ? -1 : base::ns_to_s(ns); };
  return load ? CpuLosses{.ready_s = seconds(load->run_delay_ns),
                          .throttled_s = seconds(load->throttled_ns),
                          .stolen_s = seconds(load->stolen_ns)}
              : CpuLosses{};
}

}  // namespace

TimingService::RankProgress rank_progress(const ProgressSources& sources, base::Pid pid,
                                          std::optional<double> still_s,
                                          const std::optional<model::LoadSample>& load) {
  const double timeout_s = sources.hang_timeout_s;
  const double still = still_s.value_or(-1);
  const TrackedProcess* p = sources.table.find(pid);
  const auto seen = sources.steps.rank(p == nullptr ? base::kNoRank : p->record.rank);
  return {.still_s = still,
          .hung = sources.stall_open && timeout_s > 0 && still >= timeout_s,
          .steps = seen.steps,
          .step_s = seen.step_s,
          .cpu = cpu_losses(load),
          .memory =
              load ? HostMemory{.resident_bytes = load->resident_bytes, .helpers_bytes = load->helpers_bytes}
                   : HostMemory{},
          .gpu = load ? load->gpu : model::GpuMemory{}};
}

}  // namespace xpurun::launcher
