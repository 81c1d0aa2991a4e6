#include "launcher/machine/machine_reader.h"

#include "launcher/machine/io_counters.h"
#include "launcher/machine/links.h"
#include "launcher/machine/memory/control_groups.h"

#include <set>

namespace xpurun::launcher {

namespace {

constexpr double kPatienceS = 2;

}  // namespace

void MachineReader::sample(const std::vector<WatchedRank>& ranks, double seconds) {
  waits_.sample(host_, ranks, seconds);
}

model::MachineReading MachineReader::read(const std::vector<WatchedRank>& ranks) {
  model::MachineReading out;
  read_places(host_, ranks, out);
  std::set<int> cpus;
  std::vector<std::string> paths{run_dir_, "/dev/shm"};
  for (const WatchedRank& rank : ranks) {
    const auto places = written_places(host_.proc(), rank.pid);
    paths.insert(paths.end(), places.begin(), places.end());
  }
  for (const model::RankPlace& place : out.places) {
    const auto allowed = model::cpus_in(place.cpus);
    cpus.insert(allowed.begin(), allowed.end());
  }
  const std::vector<int> allowed(cpus.begin(), cpus.end());
  read_infiniband(host_, out);
  read_interfaces(host_, out);
  read_tcp(host_, out);
  read_pci(host_, out);
  read_pressure(host_, ranks.empty() ? 0 : ranks.front().pid, out);
  read_group_memory(host_, ranks, out);
  interrupts_.read(host_, allowed, out);
  read_frequency(host_, allowed, out);
  space_.read(host_.proc_text("self/mountinfo"), paths, kPatienceS, out);
  waits_.read(out);
  read_rank_io(host_, ranks, out);
  read_mount_io(host_, ranks.empty() ? 0 : ranks.front().pid, out);
  cpus_.read(out);
  use_.read(host_, base::mono_ns(), out);
  return out;
}

}  // namespace xpurun::launcher
