"""Faults of links, adapters, CPUs and GPUs for machine_faults.py, which no program can make: the job runs in a mount
namespace of its own, where files of /sys and /proc are replaced, and with the stand-in for NVML of tests/fakes."""

import os
import pathlib
import shutil
import time

LINK = "class/infiniband/mlx5_0"
ADAPTER = "bus/pci/devices/0000:5e:00.0"
CARD = "bus/pci/devices/0000:4b:00.0"  # GPU 1 of the stand-in

ENTER = r"""
set -e
host=$1; shift
for kept in fs kernel devices; do
  [ -e $host/sys/$kept ] || { mkdir -p $host/sys/$kept; mount --rbind /sys/$kept $host/sys/$kept; }
done
mount --rbind $host/sys /sys
cd $host/proc
for file in $(find . -type f); do
  [ -e /proc/$file ] && mount --bind $file /proc/$file
done
[ ! -d driver ] || mount --rbind driver /proc/driver
cd /
exec "$@"
"""


class FakeHost:
    """Files of /sys and /proc as only the job sees them."""

    def __init__(self, work):
        self.root = work / "host"
        for name in ("sys/class/net", "sys/class/infiniband", "sys/bus/pci/devices", "proc"):
            (self.root / name).mkdir(parents=True)

    def sys(self, path, text):
        return self._put(f"sys/{path}", text)

    def proc(self, path, text):
        return self._put(f"proc/{path}", text)

    def _put(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with open(file, "r+" if file.exists() else "w") as f:  # what is mounted must stay the same file
            f.write(f"{text}\n")
            f.truncate()
        return self

    def command(self):
        return ["unshare", "-m", "--propagation", "private", "bash", "-c", ENTER, "enter", str(self.root)]


def port(host, recoveries=0, downed=0, symbols=0, sequence=0, state="4: ACTIVE"):
    where = f"{LINK}/ports/1"
    host.sys(f"{where}/counters/link_error_recovery", 4 + recoveries).sys(f"{where}/counters/link_downed", downed)
    host.sys(f"{where}/counters/symbol_error", symbols).sys(f"{where}/hw_counters/out_of_sequence", sequence)
    host.sys(f"{where}/state", state).sys(f"{where}/rate", "400 Gb/sec (4X NDR)")


def device(host, where, kind, corrected=0, uncorrected=0, width=16):
    host.sys(f"{where}/class", kind).sys(f"{where}/current_link_width", width).sys(f"{where}/max_link_width", 16)
    host.sys(f"{where}/aer_dev_correctable", f"RxErr 0\nTOTAL_ERR_COR {corrected}")
    host.sys(f"{where}/aer_dev_fatal", "TOTAL_ERR_FATAL 0")
    host.sys(f"{where}/aer_dev_nonfatal", f"TOTAL_ERR_NONFATAL {uncorrected}")


def adapter(host, **what):
    device(host, ADAPTER, "0x020700", **what)
    (host.root / "sys" / ADAPTER / "infiniband" / "mlx5_0").mkdir(parents=True, exist_ok=True)


def cpus(host, throttled=0, limit=3000000):
    for cpu in range(os.cpu_count()):
        where = f"devices/system/cpu/cpu{cpu}"
        host.sys(f"{where}/topology/physical_package_id", 0).sys(f"{where}/cpufreq/scaling_max_freq", limit)
        host.sys(f"{where}/thermal_throttle/package_throttle_count", 7 + throttled)
        host.sys(f"{where}/cpufreq/cpuinfo_max_freq", 3000000).sys(f"{where}/cpufreq/scaling_governor", "performance")
        host.sys(f"{where}/cpufreq/scaling_driver", "acpi-cpufreq")
    host.sys("devices/system/cpu/online", f"0-{os.cpu_count() - 1}")


def kernel_counts(host, seconds, interrupts=0.0, stolen=0.0):
    """/proc/stat of this host, with these shares of CPU 1 and of all CPUs in addition."""
    lines = pathlib.Path("/proc/stat").read_text().splitlines()
    ticks = os.sysconf("SC_CLK_TCK")
    for i, line in enumerate(lines):
        words = line.split()
        if words[0] == "cpu1":
            words[6] = str(int(words[6]) + int(seconds * interrupts * ticks))
        if words[0] == "cpu":
            words[8] = str(int(words[8]) + int(seconds * stolen * ticks * os.cpu_count()))
        lines[i] = " ".join(words)
    host.proc("stat", "\n".join(lines))
    host.proc("interrupts", "           CPU0       CPU1\n"
              f" 41:          5   {int(seconds * interrupts * 90000):9}  PCI-MSI 524288-edge  mlx5_comp3")


def waits_for_disk(host, seconds, share):
    us = int(seconds * share * 1e6)
    host.proc("pressure/io", f"some avg10=0.00 avg60=0.00 avg300=0.00 total={us}\n"
              f"full avg10=0.00 avg60=0.00 avg300=0.00 total={us}")


# Name, function of (host, seconds since the begin), environment, finding, words of it.
HOST_FAULTS = [
    ("InfiniBand link that recovers again and again", lambda h, s: port(h, recoveries=int(s)), {},
     "machine.link_recoveries", ("mlx5_0/1", "again and again")),
    ("InfiniBand link lost once", lambda h, s: port(h, downed=int(s > 9)), {}, "machine.link_downed", ("mlx5_0/1",)),
    ("InfiniBand port down", lambda h, s: port(h, state="4: ACTIVE" if s < 9 else "1: DOWN"), {},
     "machine.port_down", ("mlx5_0/1", "DOWN")),
    ("InfiniBand symbol errors", lambda h, s: port(h, symbols=3 * int(s)), {}, "machine.symbol_errors", ("mlx5_0/1",)),
    ("RoCE packets sent again", lambda h, s: port(h, sequence=200 * int(s)), {}, "machine.retransmissions",
     ("mlx5_0/1",)),
    ("Ethernet carrier lost", lambda h, s: h.sys("class/net/eth7/carrier_changes", 2 + int(s > 9)), {},
     "machine.carrier_changes", ("eth7",)),
    ("corrected PCIe errors of an adapter", lambda h, s: adapter(h, corrected=int(s)), {}, "machine.pcie_corrected",
     ("0000:5e:00.0 (mlx5_0)",)),
    ("uncorrected PCIe error of an adapter", lambda h, s: adapter(h, uncorrected=int(s > 9)), {},
     "machine.pcie_uncorrected", ("0000:5e:00.0 (mlx5_0)",)),
    ("adapter with half of its PCIe lanes", lambda h, s: adapter(h, width=8), {}, "machine.pcie_narrow",
     ("0000:5e:00.0 (mlx5_0)", "x8 of x16")),
    ("CPUs slowed by heat", lambda h, s: cpus(h, throttled=int(s)), {}, "machine.cpu_throttled", ("package 0",)),
    ("CPUs limited to half of their frequency", lambda h, s: cpus(h, limit=1500000), {}, "machine.cpu_limited",
     ("1500 of 3000 MHz",)),
    ("interrupts on the CPU of rank 1", lambda h, s: kernel_counts(h, s, interrupts=0.8), {"CPUS": "0,1"},
     "machine.interrupts", ("cpu 1", "mlx5_comp3")),
    ("CPUs stolen by the hypervisor", lambda h, s: kernel_counts(h, s, stolen=0.3), {}, "machine.stolen",
     ("hypervisor",)),
    ("all threads of the host wait for a disk", lambda h, s: waits_for_disk(h, s, 0.6), {}, "machine.io_pressure",
     ("host", "disk")),
    ("CPU of rank 1 far from its adapter",
     lambda h, s: (port(h), h.sys(f"{LINK}/device/local_cpulist", 0)), {"CPUS": "0,1", "NCCL_IB_HCA": "=mlx5_0"},
     "cpu.far_device", ("rank 1", "mlx5_0")),
]
# Name, lines of the stand-in's state from 6 s on, finding, words of it.
GPU_FAULTS = [
    ("NVLink that recovers", "1 link.3.recoveries 4", "machine.nvlink_recoveries", ("GPU 1 NVLink 3 (rank 1)",)),
    ("NVLink down", "1 link.5.up 0", "machine.nvlink_down", ("GPU 1 NVLink 5 (rank 1)",)),
    ("remapped memory rows grow", "1 rows_corrected 6", "machine.rows_remapped", ("GPU 1 (rank 1)",)),
    ("memory row that waits for a reset", "1 remap_pending 1", "machine.remap_pending", ("GPU 1 (rank 1)",)),
    ("uncorrected memory error of a GPU", "1 ecc_uncorrected 1", "machine.ecc_uncorrected", ("GPU 1 (rank 1)",)),
    ("GPU slowed by heat", "1 reasons 64", "machine.gpu_slowed", ("GPU 1 (rank 1)",)),
    ("GPU lost", "1 lost 1", "machine.gpu_lost", ("GPU 1 (rank 1)",)),
]


def gpu_environment(build, state):
    """Two GPUs and their driver, by stand-ins."""
    return {"LD_LIBRARY_PATH": f"{build}/tests/fakes/cuda13:{build}/tests/fakes", "FAKE_NVML_STATE": str(state)}


def gpu_job(build, seconds):
    """Two ranks that use a GPU each."""
    victim = f"{build}/tests/preload/timing_victim {build}/tests/preload/libtiming_body13.so local matmuls wait"
    return " ".join(f"(sleep {seconds} | RANK={r} LOCAL_RANK={r} WORLD_SIZE=2 {victim}) &" for r in (0, 1)) + " wait"


def add_gpus(host):
    for name in ("0000:3b:00.0", "0000:4b:00.0"):
        (host.root / "proc/driver/nvidia/gpus" / name).mkdir(parents=True)


def can_fake():
    return os.geteuid() == 0 and shutil.which("unshare") is not None and pathlib.Path("/proc/driver").is_dir()


def keep_changing(change, host, begin, ended):
    """Until `ended` is set."""
    while not ended.wait(1):
        change(host, time.monotonic() - begin)
