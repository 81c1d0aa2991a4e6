#include "report/build/dump_evidence.h"

#include "common/base/os/io.h"
#include "common/model/evidence/evidence_manifest.h"
#include "report/flight_recorder/dump_files.h"
#include "report/nodes/merged_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace xpurun::report {

namespace {

// Between the times of one event in the log of a host, by the clocks of two nodes.
constexpr double kSameEventS = 2;
constexpr int64_t kLargestShiftNs = int64_t{86'400'000} * 1'000'000'000;

template <typename T>
void read(const std::string& path, base::Result<T> (*load)(const std::string&), T& into,
          std::vector<std::string>& notes) {
  if (!base::file_exists(path)) {
    return;
  }
  if (auto loaded = load(path)) {
    into = std::move(*loaded);
  } else {
    notes.push_back(base::to_line(loaded.error()));
  }
}

bool knows_torch(const model::CollectiveFacts& facts) {
  return std::any_of(facts.ranks.begin(), facts.ranks.end(), [](const model::RankCollectives& r) {
    return std::any_of(r.communicators.begin(), r.communicators.end(),
                       [](const auto& c) { return c.source == model::CallSource::torch; });
  });
}

// The facts of a rank that is known already are put beside its others.
void add(model::CollectiveFacts& facts, std::vector<model::RankCollectives> more) {
  for (model::RankCollectives& r : more) {
    const auto known = std::find_if(facts.ranks.begin(), facts.ranks.end(),
                                    [&](const model::RankCollectives& k) { return k.rank == r.rank; });
    if (known == facts.ranks.end()) {
      facts.ranks.push_back(std::move(r));
    } else {
      std::ranges::move(r.communicators, std::back_inserter(known->communicators));
    }
  }
}

bool ends_a_job(const Facts& facts) {
  return facts.dump &&
         (facts.dump->why == model::DumpReason::crash || facts.dump->why == model::DumpReason::death);
}

// The last calls of the ranks of nodes that have no part of the dump.
model::CollectiveFacts calls_at_the_end(const JobRuns& job, const JobDump& dump, const RankOwners& owners,
                                        std::vector<std::string>& notes) {
  model::CollectiveFacts all;
  for (size_t n = 0; n < job.nodes.size(); ++n) {
    if (std::any_of(dump.parts.begin(), dump.parts.end(), [&](const DumpPart& p) { return p.node == n; })) {
      continue;
    }
    model::CollectiveFacts calls;
    read(fmt::format("{}/{}", job.nodes[n].path, model::kCollectivesFile), model::load_collective_facts,
         calls, notes);
    add_calls_of(std::move(calls), {.node = n}, 0, owners, all);
  }
  return all;
}

// Nodes that are containers of one host read the same log. What it says of a process belongs to the node of
// that process, else to the first of them.
void drop_doubles(const model::RunManifest& run, std::vector<model::KernelEvent>& events) {
  const auto knows = [&run](const model::KernelEvent& e) {
    return e.pid > 0 && std::any_of(run.processes.begin(), run.processes.end(),
                                    [&e](const auto& p) { return p.node == e.node && p.pid == e.pid; });
  };
  const auto same = [](const model::KernelEvent& a, const model::KernelEvent& b) {
    return a.node != b.node && a.text == b.text && std::abs(a.at_s - b.at_s) <= kSameEventS;
  };
  std::vector<model::KernelEvent> kept;
  for (const model::KernelEvent& e : events) {
    const bool known = knows(e);
    const bool elsewhere = std::any_of(events.begin(), events.end(), [&](const auto& other) {
      return same(e, other) && (!known && (knows(other) || other.node < e.node));
    });
    if (!elsewhere) {
      kept.push_back(e);
    }
  }
  events = std::move(kept);
}

void put_in_order(const model::RunManifest& run, std::vector<model::KernelEvent>& events) {
  std::stable_sort(events.begin(), events.end(),
                   [](const auto& a, const auto& b) { return a.at_s < b.at_s; });
  drop_doubles(run, events);
}

// Each log begins with the run, so a later one has all that an earlier one has.
void read_kernel_log(const std::string& directory, size_t node, const std::vector<double>& shifts,
                     Facts& facts, std::vector<std::string>& notes) {
  model::EvidenceManifest manifest;
  read(directory + "/evidence.json", model::load_evidence_manifest, manifest, notes);
  for (const model::EvidencePart& source : manifest.parts) {
    const bool seen =
        source.status == model::EvidenceStatus::ok || source.status == model::EvidenceStatus::absent;
    if (source.source == model::EvidenceSource::kernel_log && !seen && facts.kernel_gap.empty()) {
      facts.kernel_gap = source.reason;
    }
  }
  model::KernelEvents kernel;
  read(directory + "/kernel.json", model::load_kernel_events, kernel, notes);
  if (kernel.events.empty()) {
    return;
  }
  std::erase_if(facts.kernel.events, [node](const model::KernelEvent& known) { return known.node == node; });
  for (model::KernelEvent& event : kernel.events) {
    event.node = node;
    event.host_pid = kernel.host_pids;
    event.at_s += shifts[node];
    facts.kernel.events.push_back(std::move(event));
  }
}

}  // namespace

void read_evidence_of_end(const JobRuns& job, const JobDump& dump, Facts& facts,
                          std::vector<std::string>& notes) {
  const std::vector<double> shifts = shifts_of(job);
  for (size_t n = 0; n < job.nodes.size(); ++n) {
    const NodeRun& node = job.nodes[n];
    if (node.path.empty()) {
      continue;
    }
    for (const model::DumpRecord& one : node.run.dumps) {
      if (!dump.evidence && one.why == model::DumpReason::death) {
        read_kernel_log(fmt::format("{}/{}", node.path, one.dir), n, shifts, facts, notes);
      }
    }
    read_kernel_log(node.path, n, shifts, facts, notes);
  }
  put_in_order(facts.run, facts.kernel.events);
}

void read_calls_at_end(const JobRuns& job, const RankOwners& owners, Facts& facts,
                       std::vector<std::string>& notes) {
  facts.at_end = calls_at_the_end(job, {}, owners, notes);
}

void read_dump_evidence(const JobRuns& job, const JobDump& dump, const RankOwners& owners, Facts& facts,
                        std::vector<std::string>& notes) {
  const std::vector<double> shifts = shifts_of(job);
  std::vector<FlightFile> flight_files;
  model::CollectiveFacts later;
  for (const DumpPart& part : dump.parts) {
    model::CollectiveFacts calls;
    read(fmt::format("{}/{}", part.path, model::kCollectivesFile), model::load_collective_facts, calls,
         notes);
    add_calls_of(std::move(calls), part, part.at_s - dump.at_s, owners, facts.collectives);
    if (ends_a_job(facts)) {
      // The calls of the next moment, which that node has kept beside run.json.
      model::CollectiveFacts next;
      read(fmt::format("{}/{}", job.nodes[part.node].path, model::kCollectivesFile),
           model::load_collective_facts, next, notes);
      add_calls_of(std::move(next), part, 0, owners, later);
    }
    model::GpuState gpus;
    read(part.path + "/gpu.json", model::load_gpu_state, gpus, notes);
    facts.gpus.driver = facts.gpus.driver.empty() ? gpus.driver : facts.gpus.driver;
    for (model::GpuDevice& device : gpus.devices) {
      device.node = part.node;
      facts.gpus.devices.push_back(std::move(device));
    }
    read_kernel_log(part.path, part.node, shifts, facts, notes);
    for (FlightFile& file : find_flight_files(part.path + "/flight_recorder")) {
      if (owners.owns(part.node, file.rank)) {
        flight_files.push_back(std::move(file));
      }
    }
  }
  add_later_calls(facts.collectives, later);
  if (job.several() && ends_a_job(facts)) {
    add_unseen_ranks(facts.collectives, calls_at_the_end(job, dump, owners, notes));
  }
  put_in_order(facts.run, facts.kernel.events);
  if (!knows_torch(facts.collectives) && !flight_files.empty()) {
    FlightFacts flight = read_flight_files(flight_files, facts.dump ? facts.dump->wall_ns : 0);
    std::ranges::move(flight.notes, std::back_inserter(notes));
    add(facts.collectives, std::move(flight.facts.ranks));
  }
  if (job.several()) {
    complete_members(facts.collectives);
  }
}

std::vector<model::GpuHealth> read_gpu_health(const JobRuns& job, std::vector<std::string>& notes) {
  std::vector<model::GpuHealth> out;
  for (const NodeRun& node : job.nodes) {
    model::GpuHealth& health = out.emplace_back();
    if (!node.path.empty()) {
      read(fmt::format("{}/{}", node.path, model::kGpuHealthFile), model::load_gpu_health, health, notes);
    }
  }
  return out;
}

std::vector<model::MachineHistory> read_machines(const JobRuns& job,
                                                 const std::vector<model::GpuHealth>& gpus,
                                                 std::vector<std::string>& notes) {
  std::vector<model::MachineHistory> out;
  for (const NodeRun& node : job.nodes) {
    model::MachineHistory& history = out.emplace_back();
    if (!node.path.empty()) {
      read(fmt::format("{}/{}", node.path, model::kMachineFile), model::load_machine_history, history, notes);
    }
    add_gpu_facts(history, gpus.at(out.size() - 1));
    const int64_t by_ns = std::clamp(node.entry.offset_ns, -kLargestShiftNs, kLargestShiftNs);
    const auto shift = [by_ns](int64_t& wall_ns) {
      wall_ns = std::clamp(wall_ns, int64_t{0}, std::numeric_limits<int64_t>::max() / 2) - by_ns;
    };
    for (model::MachineSeries& series : history.series) {
      for (model::MachineSpell& spell : series.spells) {
        shift(spell.begin_wall_ns);
        shift(spell.end_wall_ns);
      }
    }
    if (!history.use.empty()) {
      shift(history.use.begin_wall_ns);
    }
    for (model::Intruder& intruder : history.intruders) {
      shift(intruder.begin_wall_ns);
      shift(intruder.end_wall_ns);
    }
  }
  return out;
}

void read_mismatches(const JobRuns& job, const RankOwners& owners, Facts& facts,
                     std::vector<std::string>& notes) {
  for (size_t n = 0; n < job.nodes.size(); ++n) {
    model::CollectiveFacts calls;
    read(fmt::format("{}/{}", job.nodes[n].path, model::kMismatchFile), model::load_collective_facts, calls,
         notes);
    add_calls_of(std::move(calls), {.node = n}, 0, owners, facts.mismatch);
  }
}

}  // namespace xpurun::report
