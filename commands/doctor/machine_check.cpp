// The sources of what is counted about the host: each that is missing once, with the command that grants it.
#include "commands/doctor/checks.h"
#include "commands/doctor/proc_mount.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/evidence/kernel_log.h"
#include "launcher/machine/cpu/cpu_watch.h"
#include "launcher/machine/links.h"
#include "launcher/machine/pressure.h"

#include <fmt/format.h>

#include <algorithm>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

using base::later;
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

// Without the switches, /proc says the same, a little less exactly.
Finding cpu_takers(const HostFiles& host) {
  if (host.proc().text(::getpid(), "schedstat").empty()) {
    return {.check = "cpu-takers",
            .grade = Grade::warn,
            .text = tr("the kernel does not count waits for a CPU ({})", host.proc_path("self/schedstat")),
            .lost = tr("no rank is named that is ready to run and gets no CPU"),
            .remedy =
                tr("a kernel with CONFIG_SCHED_INFO; in a container: --security-opt systempaths=unconfined")};
  }
  const auto refused = switches_refused();
  if (!refused) {
    return {.check = "cpu-takers", .text = tr("who takes the ranks' CPUs is seen by context switches")};
  }
  return {.check = "cpu-takers",
          .grade = Grade::none,
          .text = tr("who takes the ranks' CPUs is seen by looks at /proc ({})", base::to_line(*refused)),
          .lost = tr("processes that live for less than a second"),
          .remedy = tr("sysctl kernel.perf_event_paranoid=0; in a container: --cap-add PERFMON")};
}

// Files below /proc of which a mask takes facts, and the facts.
struct ProcSource {
  std::string_view path;
  std::string_view lost;
};
constexpr ProcSource kProcSources[] = {
    {"/proc/interrupts", later("interrupts")},
    {"/proc/pressure", later("waits for CPU, memory and disks")},
    {"/proc/stat", later("the use of the CPUs")},
    {"/proc/meminfo", later("the use of the memory")},
    {"/proc/schedstat", later("waits for a CPU")},
    {"/proc/diskstats", later("the use of the disks")},
    {"/proc/net", later("the use of the network")},
};

}  // namespace

ProcMount proc_mount_in(std::string_view mountinfo) {
  ProcMount out;
  for (const std::string_view line : base::split(mountinfo, '\n')) {
    const auto words = base::split(line, ' ');
    const auto dash = std::find(words.begin(), words.end(), "-");
    if (words.size() < 6 || words.end() - dash < 4) {
      continue;
    }
    const std::string_view place = words[4];
    if (place == "/proc") {
      out = {};  // a later mount hides this one, and what is mounted below
      for (const std::string_view option : base::split(dash[3], ',')) {
        if (option.starts_with("hidepid=") && option != "hidepid=0" && option != "hidepid=off") {
          out.hidepid = option;
        }
        out.pids_only = out.pids_only || option == "subset=pid";
      }
    } else if (place.starts_with("/proc/")) {
      out.masked.emplace_back(place);
    }
  }
  return out;
}

Finding judge_proc(const ProcMount& mount, bool sees_others) {
  Finding out{.check = "proc", .text = tr("all processes and all files of /proc are visible")};
  std::vector<std::string> lost;
  std::vector<std::string> masked;
  for (const ProcSource& source : kProcSources) {
    if (mount.pids_only ||
        std::find(mount.masked.begin(), mount.masked.end(), source.path) != mount.masked.end()) {
      masked.emplace_back(source.path);
      lost.push_back(tr(source.lost));
    }
  }
  const bool hidden = !mount.hidepid.empty() && !sees_others;
  if (hidden) {
    lost.push_back(tr("who takes the ranks' CPUs, holds their ports or fills a disk, if other users do"));
  }
  if (lost.empty()) {
    if (!mount.hidepid.empty()) {
      out.text = tr("/proc is mounted with {}, which hides no process from this user", mount.hidepid);
    }
    return out;
  }
  const std::string of_masks = mount.pids_only  ? tr("/proc is mounted with {}", "subset=pid")
                               : masked.empty() ? std::string()
                                                : tr("{} masked", base::join(masked, tr(", ")));
  const std::string of_hidepid =
      hidden ? tr("/proc is mounted with {}, so that only processes of this user are visible", mount.hidepid)
             : std::string();
  out.grade = Grade::warn;
  out.text = of_masks.empty()     ? of_hidepid
             : of_hidepid.empty() ? of_masks
                                  : tr("{}; {}", of_hidepid, of_masks);
  out.lost = base::join(lost, tr(", "));
  out.remedy = hidden ? tr("mount -o remount,hidepid=0 /proc")
                      : tr("in a container: --security-opt systempaths=unconfined");
  return out;
}

Findings check_machine(const DoctorContext& /*context*/) {
  const HostFiles host;
  const auto first = host.proc().status(1);
  const bool sees_others = first && (::geteuid() == 0 || first->uid != ::geteuid());
  return {judge_proc(proc_mount_in(host.proc_text("self/mountinfo")), sees_others), kernel_log(),
          pressure(host), cpu_takers(host), links(host)};
}

}  // namespace xpurun::launcher
