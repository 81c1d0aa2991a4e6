#include "report/run/findings.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/language/vocabulary_words.h"
#include "common/model/run_dir.h"
#include "report/diagnosis/diagnose.h"
#include "report/diagnosis/memory/memory_words.h"
#include "report/diagnosis/several_nodes.h"
#include "report/flamegraph/palette.h"
#include "report/run/machine_findings.h"
#include "report/run/next_command.h"
#include "report/run/occurrences.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace xpurun::report {

using base::tr;

namespace {

using model::VerdictKind;
using model::word_of;

constexpr size_t kMostReasons = 4;

Finding from_verdict(const RunReport& report) {
  const model::Verdict& v = report.verdict;
  const bool quiet = v.kind == VerdictKind::none || v.kind == VerdictKind::running;
  const bool costs = v.kind == VerdictKind::none && v.slow.present();
  Finding f{.severity = costs                                       ? Severity::note
                        : v.kind == VerdictKind::none               ? Severity::good
                        : v.kind == VerdictKind::running            ? Severity::note
                        : v.level == model::VerdictLevel::suspected ? Severity::warning
                                                                    : Severity::error,
            .id = v.id.empty() ? "verdict" : v.id,
            .evidence = v.evidence,
            .next = v.next.text,
            .command = verdict_command(report)};
  f.title = costs                         ? tr("Nothing failed, but every step loses time")
            : v.kind == VerdictKind::none ? tr("Nothing went wrong")
            : quiet                       ? tr("The run goes on")
                                          : tr("Root cause");
  if (!quiet && !v.ranks.empty()) {
    f.title += tr(": {}{}", ranks_text(v.ranks),
                  v.state == model::RankState::none ? "" : tr(" {}", word_of(v.state)));
  }
  return f;
}

// The verdict's own words, where it is the verdict on this stall.
std::string stall_sentence(const RunReport& report, const model::Stall& i) {
  const bool same = base::spoken() != base::Language::english && i.dump == report.verdict.dump &&
                    i.verdict.id == report.verdict.id;
  return same ? report.verdict.sentence : sentence_of(i.verdict);
}

void add_stalls(const RunReport& report, std::vector<Finding>& out) {
  for (const model::Stall& i : report.run.stalls) {
    // The verdict already describes this stall, which may have ended with the job.
    if (report.verdict.kind == VerdictKind::hang && (i.cleared_s < 0 || i.dump == report.verdict.dump)) {
      continue;
    }
    out.push_back(
        {.severity = i.cleared_s < 0 ? Severity::warning : Severity::note,
         .id = fmt::format("stall.{}", i.n),
         .title = i.cleared_s < 0 ? tr("A stall at {} was not cleared", base::human_duration(i.at_s))
                                  : tr("A stall at {} {} after {}", base::human_duration(i.at_s),
                                       i.restarted_s >= 0 ? tr("was ended by a restart of the ranks")
                                                          : tr("cleared by itself"),
                                       base::human_duration(i.cleared_s - i.at_s)),
         .evidence = i.verdict.sentence.empty() ? std::vector<std::string>()
                                                : std::vector<std::string>{stall_sentence(report, i)},
         .command = dump_command(report, i.dump)});
  }
}

// "partial (2): one thread ended while it was read: agent"
std::vector<std::string> reasons(const std::vector<ProcessLine>& processes) {
  struct Who {
    model::RankSet ranks;
    size_t others = 0;
  };
  std::map<std::string, Who> by_reason;
  for (const ProcessLine& p : processes) {
    if (p.status == model::DumpStatus::ok) {
      continue;
    }
    Who& who = by_reason[tr("{}: {}", word_of(p.status),
                            p.reason.empty() ? tr("no reason was given") : tr(p.reason))];
    if (p.role == model::ProcessRole::rank && p.rank >= 0) {
      who.ranks.insert(p.rank);
    } else {
      ++who.others;
    }
  }
  std::vector<std::string> out;
  for (const auto& [reason, who] : by_reason) {
    std::string names = who.ranks.empty() ? "" : ranks_text(who.ranks);
    if (who.others > 0) {
      names += names.empty() ? "" : tr(", ");
      names += who.others == 1 ? tr("{} other process", who.others) : tr("{} other processes", who.others);
    }
    if (out.size() == kMostReasons) {
      out.push_back(tr("and {} more reasons", by_reason.size() - kMostReasons));
      break;
    }
    out.push_back(tr("{}, {}", names, reason));
  }
  return out;
}

void add_dump_gaps(const RunReport& report, std::vector<Finding>& out) {
  for (const DumpSummary& d : report.dumps) {
    if (d.dir != report.dump) {
      continue;
    }
    const auto bad = std::count_if(d.processes.begin(), d.processes.end(), [](const ProcessLine& p) {
      return p.status != model::DumpStatus::ok && p.status != model::DumpStatus::dead;
    });
    if (bad > 0) {
      out.push_back({.severity = Severity::warning,
                     .id = "dump.incomplete",
                     .title = tr("{} of {} processes {} not dumped completely", bad, d.processes.size(),
                                 bad == 1 ? "was" : "were"),
                     .evidence = reasons(d.processes),
                     .next = tr("the groups and pictures show what is known of the others"),
                     .command = "xpurun doctor"});
    }
  }
}

// The verdict is on all nodes, the rest of the report is on this one.
void add_other_nodes(const RunReport& report, std::vector<Finding>& out) {
  const model::RunManifest& run = report.run;
  if (!verdict_of_job(run)) {
    return;
  }
  model::RankSet ranks;
  for (const RankRow& row : report.ranks) {
    ranks.insert(row.rank);
  }
  const std::string host = base::sanitize(run.job_report_host);
  const std::string page = run.job_report_dir.empty()
                               ? std::string()
                               : base::sanitize(model::RunDir(run.job_report_dir).report_html());
  Finding f{.severity = Severity::note,
            .id = "nodes.elsewhere",
            .title = tr("The verdict covers all nodes; the rest of this report covers only this node"),
            .next = page.empty() ? tr("the report for all nodes is on host {}", host)
                                 : tr("the report for all nodes is on host {}: {}", host, page)};
  if (!ranks.empty()) {
    f.evidence.push_back(run.world_size > 0
                             ? tr("{}: {} of {}", ranks_text(ranks), ranks.size(), run.world_size)
                             : ranks_text(ranks));
  }
  out.push_back(std::move(f));
}

void add_node_gaps(const RunReport& report, std::vector<Finding>& out) {
  std::vector<std::string> lines;
  size_t gaps = 0;
  size_t clocks = 0;
  for (const model::RunNode& node : report.run.nodes) {
    clocks += node.answered && !node.clock_known ? 1 : 0;
    if (!node.gap.empty() && ++gaps <= kMostReasons) {
      lines.push_back(node.ranks.empty() ? node.gap : tr("{}: {}", node.gap, ranks_text(node.ranks)));
    }
  }
  if (gaps > kMostReasons) {
    lines.push_back(tr("and {} more nodes", gaps - kMostReasons));
  }
  if (gaps > 0) {
    out.push_back(
        {.severity = Severity::warning,
         .id = "nodes.incomplete",
         .title = tr("The data of {} of {} nodes is missing or incomplete", gaps, report.run.nodes.size()),
         .evidence = std::move(lines),
         .next = tr("little or nothing is known about their ranks, so the verdict is less certain")});
  }
  if (clocks > 0) {
    out.push_back(
        {.severity = Severity::note,
         .id = "nodes.clocks",
         .title = tr("The clocks of {} of {} nodes were not compared with the clock of this node", clocks,
                     report.run.nodes.size()),
         .evidence = {tr("events on different nodes that are less than 1 s apart have no known order")}});
  }
}

// The ranks whose memory grew, on the host or on their GPUs; the largest growth first.
void add_memory_growth(const RunReport& report, bool on_gpu, std::vector<Finding>& out) {
  const auto growth_of = [on_gpu](const model::ProcessRecord& p) -> const model::MemoryGrowth& {
    return on_gpu ? p.gpu_memory.growth : p.growth;
  };
  std::vector<const model::ProcessRecord*> growing;
  model::RankSet ranks;
  const model::RankSet gathering = on_gpu ? model::RankSet{} : gathering_ranks(report.memory);
  for (const model::ProcessRecord& p : report.run.processes) {
    if (p.role == model::ProcessRole::rank && (!growth_of(p).empty() || gathering.contains(p.rank))) {
      growing.push_back(&p);
      ranks.insert(p.rank);
    }
  }
  if (growing.empty()) {
    return;
  }
  const auto grown = [&](const model::ProcessRecord& p) {
    return growth_of(p).to_bytes - growth_of(p).from_bytes;
  };
  std::stable_sort(growing.begin(), growing.end(),
                   [&](const auto* a, const auto* b) { return grown(*a) > grown(*b); });
  Finding finding{.severity = Severity::note,
                  .id = on_gpu ? "memory.gpu_growth" : "memory.growth",
                  .title = on_gpu ? tr("The GPU memory of {} grew", ranks_text(ranks))
                                  : tr("The host memory of {} grew", ranks_text(ranks)),
                  .next = tr("look for lists that keep tensors, losses or batches of every step")};
  bool helpers = false;
  size_t shown = 0;
  for (const model::ProcessRecord* p : growing) {
    helpers = helpers || 2 * growth_of(*p).helpers_bytes > grown(*p);
    if (shown++ == kMostReasons) {
      finding.evidence.push_back(tr("and {} more ranks", growing.size() - kMostReasons));
      break;
    }
    if (!growth_of(*p).empty()) {
      finding.evidence.push_back(tr("rank {}: {}", p->rank, growth_words(growth_of(*p))));
    }
    const auto growers = grower_words(report.memory, p->rank, on_gpu);
    finding.evidence.insert(finding.evidence.end(), growers.begin(), growers.end());
  }
  if (helpers) {
    finding.evidence.push_back(
        tr("most of the growth is in the helper processes, such as workers of a data loader"));
  }
  out.push_back(std::move(finding));
}

// A line that another finding has is no evidence of the verdict as well.
void say_once(std::vector<Finding>& findings) {
  const auto of_another = [&findings](const std::string& line) {
    return std::any_of(findings.begin() + 1, findings.end(), [&line](const Finding& f) {
      return std::find(f.evidence.begin(), f.evidence.end(), line) != f.evidence.end();
    });
  };
  std::erase_if(findings.front().evidence, of_another);
}

}  // namespace

std::vector<Finding> find_findings(const RunReport& report) {
  std::vector<Finding> out;
  out.push_back(from_verdict(report));
  add_other_nodes(report, out);
  add_node_gaps(report, out);
  add_dump_gaps(report, out);
  if (!report.notes.empty()) {
    out.push_back({.severity = Severity::warning,
                   .id = "input.unreadable",
                   .title = tr("Not everything could be read"),
                   .evidence = report.notes});
  }
  add_stalls(report, out);
  add_memory_growth(report, false, out);
  add_memory_growth(report, true, out);
  add_machine_findings(report, out);
  add_occurrences(report, out);
  if (!report.run.preload_reason.empty()) {
    out.push_back({.severity = Severity::note,
                   .id = "preload.off",
                   .title = tr("The library in the training processes was not in use"),
                   .evidence = {report.run.preload_reason},
                   .next = tr("without the library, the stack of a crash is read afterwards or not at all"),
                   .command = doctor_command(report)});
  }
  if (const model::RankSet lost = model::ranks_without_preload(report.run); !lost.empty()) {
    out.push_back({.severity = Severity::warning,
                   .id = "preload.lost",
                   .title = tr("{} ran without xpurun's library", rank_words(lost)),
                   .evidence = {lost_preload_words(lost)},
                   .next = tr("add to LD_PRELOAD instead of replacing it: LD_PRELOAD=libx.so:$LD_PRELOAD")});
  }
  say_once(out);
  return out;
}

}  // namespace xpurun::report
