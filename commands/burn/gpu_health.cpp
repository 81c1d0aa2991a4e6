#include "commands/burn/gpu_health.h"

#include "report/run/machine_findings.h"

namespace xpurun::launcher {

std::vector<report::Finding> findings_of(const model::GpuHealth& health) {
  report::RunReport report;
  report.machines.emplace_back();
  add_gpu_facts(report.machines.front(), health);
  report.gpu_health.push_back(health);
  std::vector<report::Finding> out;
  report::add_machine_findings(report, out);
  return out;
}

}  // namespace xpurun::launcher
