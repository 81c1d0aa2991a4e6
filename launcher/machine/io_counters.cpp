#include "launcher/machine/io_counters.h"

#include "common/base/strings.h"
#include "launcher/machine/host/blank_words.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

using model::MachineFact;
using model::MachineReading;

namespace {

constexpr size_t kMostMounts = 16;
constexpr size_t kExecuteMs =
    8;  // word of a line "READ: operations ... queue, round trip and whole time, errors"

double number_at(const std::vector<std::string_view>& words, size_t i) {
  const auto number = i < words.size() ? base::parse_int(words[i]) : std::nullopt;
  return number && *number >= 0 ? static_cast<double>(*number) : 0;
}

struct MountTotals {
  std::string mount;
  double read = 0;
  double written = 0;
  double operations = 0;
  double time_us = 0;
};

void put_totals(const MountTotals& t, MachineReading& out) {
  const std::pair<MachineFact, double> values[] = {{MachineFact::mount_read, t.read},
                                                   {MachineFact::mount_written, t.written},
                                                   {MachineFact::mount_operations, t.operations},
                                                   {MachineFact::mount_time, t.time_us}};
  for (const auto& [fact, value] : values) {
    out.values.push_back({.fact = fact, .object = base::sanitize(t.mount), .value = value, .detail = {}});
  }
}

// "device 10.0.0.7:/ds mounted on /data with fstype nfs4 statvers=1.1"
std::string nfs_mount(std::string_view line) {
  constexpr std::string_view kOn = " mounted on ";
  const size_t on = line.find(kOn);
  const size_t with = line.find(" with fstype nfs");
  return on == std::string_view::npos || with == std::string_view::npos || with < on + kOn.size()
             ? std::string()
             : std::string(line.substr(on + kOn.size(), with - on - kOn.size()));
}

}  // namespace

void read_rank_io(const HostFiles& host, const std::vector<WatchedRank>& ranks, MachineReading& out) {
  for (const WatchedRank& rank : ranks) {
    const auto stat = host.proc().stat(rank.pid);
    if (stat) {
      out.values.push_back({.fact = MachineFact::rank_page_faults,
                            .object = {},
                            .value = static_cast<double>(stat->major_faults),
                            .detail = {},
                            .rank = rank.rank});
    }
    const base::ProcIo io = host.proc().io(rank.pid);
    const std::pair<MachineFact, uint64_t> values[] = {{MachineFact::rank_read, io.read_chars},
                                                       {MachineFact::rank_written, io.write_chars},
                                                       {MachineFact::rank_io_calls, io.calls}};
    for (const auto& [fact, value] : values) {
      if (io.calls > 0) {
        out.values.push_back({.fact = fact,
                              .object = {},
                              .value = static_cast<double>(value),
                              .detail = {},
                              .rank = rank.rank});
      }
    }
  }
}

void read_mount_io(const HostFiles& host, base::Pid pid, MachineReading& out) {
  const std::string text = host.proc().text(pid, "mountstats");
  MountTotals totals;
  size_t mounts = 0;
  bool operations = false;
  const auto done = [&] {
    if (!totals.mount.empty() && mounts++ < kMostMounts) {
      put_totals(totals, out);
    }
    totals = {};
    operations = false;
  };
  for (const std::string_view raw : base::split(text, '\n')) {
    const std::string_view line = base::trim(raw);
    if (line.starts_with("device ")) {
      done();
      totals.mount = nfs_mount(line);
    } else if (line.starts_with("per-op statistics")) {
      operations = true;
    } else if (const auto words = blank_words(line); line.starts_with("bytes:")) {
      // What the server sent and received, direct reads and writes included.
      totals.read = number_at(words, 5);
      totals.written = number_at(words, 6);
    } else if (operations && words.size() > kExecuteMs && words[0].ends_with(':')) {
      totals.operations += number_at(words, 1);
      totals.time_us += number_at(words, kExecuteMs) * 1000;
    }
  }
  done();
}

}  // namespace xpurun::launcher
