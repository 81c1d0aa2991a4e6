#include "report/run/occurrences.h"

#include "common/base/os/wait_status.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/memory/memory_words.h"
#include "report/diagnosis/rules/machine_words.h"
#include "report/diagnosis/rules/surroundings.h"
#include "report/diagnosis/wording.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::report {

using base::tr;

namespace {

constexpr size_t kMostOccurrences = 20;
constexpr size_t kMostOfOneKind = 8;
constexpr double kLongestRunS = 1e9;  // larger values come from damaged files

// A signal that a process has sent is no crash.
std::string crash_words(const model::CrashNotice& crash) {
  const std::string signal = base::signal_name(crash.signal);
  return crash.sender != 0 && crash.sender != crash.pid
             ? tr("rank {} received {} from process {}", crash.rank, signal, crash.sender)
             : tr("rank {} crashed with {}", crash.rank, signal);
}

void add_deaths(const model::RunManifest& run, std::vector<Occurrence>& out) {
  size_t shown = 0;
  for (const model::ProcessRecord& p : run.processes) {
    if (p.role != model::ProcessRole::rank || !p.death.happened || p.death.wait_status.succeeded() ||
        shown++ == kMostOfOneKind) {
      continue;
    }
    const int signal = p.death.wait_status.signal();
    const std::string how = signal != 0 ? tr("was ended by {}", base::signal_name(signal))
                                        : tr("exited with status {}", p.death.wait_status.exit_code());
    out.push_back({.at_s = p.death.at_s, .text = on_host(run, p.node) + tr("rank {} {}", p.rank, how)});
  }
  for (const model::CrashNotice& c : run.crashes) {
    if (c.rank >= 0 && shown++ < kMostOfOneKind) {
      out.push_back({.at_s = c.at_s, .text = on_host(run, c.node) + crash_words(c)});
    }
  }
}

// Without the kernel log and a reading in between, only the number until the end is known.
void add_kills(const RunReport& report, std::vector<Occurrence>& out) {
  const bool known = std::any_of(out.begin(), out.end(), [](const Occurrence& m) { return m.of_kill; });
  const model::MemoryGroup& group = report.run.memory;
  if (!known && group.oom_kills > 0 && report.run.nodes.size() <= 1) {
    out.push_back({.at_s = report.run.elapsed_s,
                   .text = tr("until then, {}", group_words(report.run)),
                   .of_machine = true,
                   .of_kill = true});
  }
}

void add_progress(const model::RunManifest& run, std::vector<Occurrence>& out) {
  for (size_t i = 0; i < std::min(run.stalls.size(), kMostOfOneKind); ++i) {
    const model::Stall& s = run.stalls[i];
    const std::string ranks = s.ranks.empty() ? tr("the ranks") : rank_words(s.ranks);
    out.push_back(
        {.at_s = s.since_s >= 0 ? s.since_s : s.at_s, .text = tr("the last progress of {}", ranks)});
  }
  for (size_t i = 0; i < std::min(run.slowdowns.size(), kMostOfOneKind); ++i) {
    const model::Slowdown& s = run.slowdowns[i];
    const double at_s = s.wall_ns > 0 ? seconds_in(run, s.wall_ns) : s.at_s;
    out.push_back(
        {.at_s = at_s, .text = tr("step {} and later take {:.0f} % longer", s.step, 100 * s.share)});
  }
}

void add_machines(const RunReport& report, std::vector<Occurrence>& out) {
  for (size_t node = 0; node < report.machines.size(); ++node) {
    size_t shown = 0;
    const model::MachineHistory& machine = report.machines[node];
    for (const model::MachineSeries& s : machine.series) {
      for (const model::MachineSpell& spell : telling_spells(machine, s)) {
        if (shown++ < kMostOfOneKind) {
          out.push_back({.at_s = seconds_in(report.run, spell.begin_wall_ns),
                         .text = on_host(report.run, node) + machine_words(machine, s, spell.amount),
                         .of_machine = true,
                         .of_kill = s.fact == model::MachineFact::oom_kills});
        }
      }
    }
  }
}

}  // namespace

std::vector<Occurrence> occurrences_of(const RunReport& report) {
  std::vector<Occurrence> out;
  for (const model::KernelEvent& e : report.kernel.events) {
    if (out.size() == kMostOfOneKind) {
      break;
    }
    if (is_of_another_job(report.run, e)) {
      continue;
    }
    out.push_back({.at_s = e.at_s,
                   .text = on_host(report.run, e.node) + kernel_words(e),
                   .of_machine = true,
                   .of_kill = e.kind == model::KernelEventKind::oom_kill});
  }
  add_machines(report, out);
  add_kills(report, out);
  add_deaths(report.run, out);
  add_progress(report.run, out);
  std::erase_if(out, [](const Occurrence& m) { return !(m.at_s < kLongestRunS); });
  std::stable_sort(out.begin(), out.end(),
                   [](const Occurrence& a, const Occurrence& b) { return a.at_s < b.at_s; });
  if (out.size() > kMostOccurrences) {
    out.resize(kMostOccurrences);
  }
  return out;
}

void add_occurrences(const RunReport& report, std::vector<Finding>& out) {
  const std::vector<Occurrence> occurrences = occurrences_of(report);
  const bool news =
      std::any_of(occurrences.begin(), occurrences.end(), [](const Occurrence& m) { return m.of_machine; });
  const bool quiet = report.verdict.kind == model::VerdictKind::none;
  if (!news || quiet || occurrences.size() < 2) {
    return;
  }
  Finding f{.severity = Severity::note, .id = "order", .title = tr("What happened, in this order")};
  for (const Occurrence& m : occurrences) {
    f.evidence.push_back(m.at_s < 0 ? tr("before the run: {}", m.text)
                                    : tr("{}: {}", moment_words(report.run, m.at_s, 1), m.text));
  }
  if (!report.kernel_gap.empty()) {
    f.evidence.push_back(tr("the kernel's messages are missing: {}", tr(report.kernel_gap)));
  }
  out.push_back(std::move(f));
}

}  // namespace xpurun::report
