// The sources of what is counted about the host: each that is missing once, with the command that grants it.
#include "common/base/tr.h"
#include "launcher/doctor/checks.h"
#include "launcher/evidence/kernel_log.h"
#include "launcher/machine/links.h"
#include "launcher/machine/pressure.h"

#include <fmt/format.h>

#include <unistd.h>

namespace xpurun::launcher {

namespace {

using base::tr;

Finding kernel_log() {
  const KernelLog log = read_kernel_log(on_log_clock(0));
  if (log.status == model::EvidenceStatus::ok) {
    return {.check = "kernel-log", .text = tr("readable")};
  }
  return {
      .check = "kernel-log",
      .grade = Grade::warn,
      .text = tr(log.reason),
      .lost = tr("a kill for lack of memory and errors of GPUs (Xid) are not named"),
      .remedy = tr("sysctl kernel.dmesg_restrict=0; in a container: --cap-add SYSLOG --device /dev/kmsg")};
}

Finding pressure(const HostFiles& host) {
  model::MachineReading reading;
  read_pressure(host, ::getpid(), reading);
  if (!reading.values.empty()) {
    return {.check = "pressure", .text = tr("the kernel counts waits for CPU, memory and disks")};
  }
  const std::string why = reading.missing.empty() ? std::string()
                                                  : fmt::format("{}: {}", reading.missing.front().source,
                                                                reading.missing.front().reason);
  return {.check = "pressure",
          .grade = Grade::warn,
          .text = why,
          .lost = tr("no findings about waits for CPU, memory and disks"),
          .remedy = tr("boot the kernel with psi=1")};
}

Finding links(const HostFiles& host) {
  model::MachineReading reading;
  read_infiniband(host, reading);
  read_pci(host, reading);
  const bool adapters = !host.sys_names("class/infiniband").empty();
  const bool devices = !host.sys_names("bus/pci/devices").empty();
  if (!adapters && !devices) {
    return {
        .check = "links", .grade = Grade::none, .text = tr("no InfiniBand and no PCI devices are visible")};
  }
  if (reading.values.empty()) {
    return {.check = "links",
            .grade = adapters ? Grade::warn : Grade::none,
            .text = tr("the counters of the links cannot be read"),
            .lost = adapters ? tr("no findings about links that fail") : std::string(),
            .remedy = adapters ? tr("in a container: -v /sys:/sys:ro") : std::string()};
  }
  return {.check = "links", .text = tr("{} counters of links can be read", reading.values.size())};
}

}  // namespace

Findings check_machine(const DoctorContext& /*context*/) {
  const HostFiles host;
  return {kernel_log(), pressure(host), links(host)};
}

}  // namespace xpurun::launcher
