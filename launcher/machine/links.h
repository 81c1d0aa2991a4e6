// The links of the host: InfiniBand ports, network interfaces, TCP, PCI devices. From sysfs and /proc/net,
// without privileges. No reading follows a link to a device that is gone.
#pragma once

#include "launcher/machine/host/host_files.h"

namespace xpurun::launcher {

// Adds the values of all ports and their devices.
void read_infiniband(const HostFiles& host, model::MachineReading& out);
// All interfaces but the loopback; of virtual ones only what says that their link was lost.
void read_interfaces(const HostFiles& host, model::MachineReading& out);
void read_tcp(const HostFiles& host, model::MachineReading& out);
// GPUs, network adapters and NVMe disks.
void read_pci(const HostFiles& host, model::MachineReading& out);

}  // namespace xpurun::launcher
