// HostUse: how much of its CPUs, memory, disks and links a host used over the time of a run, a part of
// machine.json. A track has at most 180 values: when they are full, two neighbours become one.
#pragma once

#include "common/model/names.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

enum class HostUse {
  cpu,            // share of the time of all CPUs
  memory,         // share that is not available
  disk_read,      // bytes a second, of one disk: "nvme0n1"
  disk_written,   //
  net_received,   // bytes a second, of one interface: "eth0"
  net_sent,       //
  link_received,  // bytes a second, of one InfiniBand port: "mlx5_0/1"
  link_sent,      //
  // By NVML, of "GPU 3".
  gpu_load,         // share of the time in which a kernel ran, a waiting collective included
  gpu_clock,        // of the SMs, MHz
  gpu_temperature,  // degrees Celsius
  gpu_power,        // watts
  // Bytes, of the memory control group of the ranks: "/job".
  group_processes,  // that belong to no file
  group_cache,      // of files on disks; the kernel takes them back before it kills
  group_shared,     // shared memory and files in memory, such as /dev/shm
};
template <>
inline constexpr std::array<std::string_view, 15> kNames<HostUse> = {"cpu",
                                                                     "memory",
                                                                     "disk_read",
                                                                     "disk_written",
                                                                     "net_received",
                                                                     "net_sent",
                                                                     "link_received",
                                                                     "link_sent",
                                                                     "gpu_load",
                                                                     "gpu_clock",
                                                                     "gpu_temperature",
                                                                     "gpu_power",
                                                                     "group_processes",
                                                                     "group_cache",
                                                                     "group_shared"};

// Whether the values are shares from 0 to 1.
constexpr bool is_share_of_host(HostUse use) {
  return use == HostUse::cpu || use == HostUse::memory || use == HostUse::gpu_load;
}

// Whether the values are amounts of bytes, as opposed to bytes a second.
constexpr bool is_amount(HostUse use) {
  return use == HostUse::group_processes || use == HostUse::group_cache || use == HostUse::group_shared;
}

// Since the reading before.
struct UseValue {
  HostUse use = HostUse::cpu;
  std::string object;  // empty: the host
  double value = 0;
};

struct UseTrack {
  HostUse use = HostUse::cpu;
  std::string object;
  std::vector<double> values;  // mean of each bin; negative: nothing was read
};

struct HostUseHistory {
  int64_t begin_wall_ns = 0;  // of the first bin; 0: nothing was read
  double bin_s = 5;
  std::vector<UseTrack> tracks;

  bool empty() const { return tracks.empty(); }
  size_t bins() const;
  void add(const std::vector<UseValue>& values, int64_t wall_ns);
  // Adds the tracks of another source of the same host, in the bins of this history.
  void join(const HostUseHistory& other);
};

}  // namespace xpurun::model
