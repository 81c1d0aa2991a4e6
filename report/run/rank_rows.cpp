#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/frame_text.h"
#include "common/model/language/vocabulary_words.h"
#include "report/diagnosis/rank_view.h"
#include "report/diagnosis/wording.h"
#include "report/run/run_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace xpurun::report {

using base::later;
using base::tr;
using model::word_of;

namespace {

using Rows = std::map<base::Rank, RankRow>;

constexpr std::string_view kAtTheDump = later("at the dump");

RankRow& row(Rows& rows, base::Rank rank) {
  RankRow& r = rows[rank];
  r.rank = rank;
  return r;
}

std::string place_text(const std::string& file, int line) {
  const std::string name(model::source_name(file));
  return line > 0 && !name.empty() ? fmt::format("{}:{}", name, line) : name;
}

void add_run(Rows& rows, const model::RunManifest& run) {
  for (const model::ProcessRecord& p : run.processes) {
    if (p.role != model::ProcessRole::rank || p.rank < 0) {
      continue;
    }
    // A restarted rank: the later process replaces the earlier one.
    RankRow& r = rows[p.rank] = RankRow{.rank = p.rank, .host = host_of(run, p.node), .pid = p.pid};
    r.function = p.function;
    r.place = place_text(p.file, p.line);
    if (const double at_s = model::progress_before_end_s(run, p); at_s > 0) {
      r.progress = moment_words(run, at_s);
    }
    r.state = tr("running");
    if (p.death.happened) {
      r.state = tr("ended");
      r.ending = p.death.wait_status.text();
      if (!p.death.cause_hint.empty()) {
        r.ending += tr(" ({})", tr(p.death.cause_hint));
      }
    }
  }
}

std::string observed_state(const model::RankObservation& o) {
  if (!o.alive) {
    return o.wait_status.succeeded() ? tr("exited") : tr("dead");
  }
  switch (o.state) {
    case 'T':
    case 't':
      return tr("stopped");
    case 'D':
      return tr("uninterruptible");
    case 'Z':
      return tr("dead");
    default:
      return tr("running");
  }
}

// The report describes the time of the dump, regardless of the rank's later fate.
void add_observations(Rows& rows, const model::DumpManifest& dump) {
  for (const model::RankObservation& o : dump.ranks) {
    if (o.rank < 0) {
      continue;
    }
    RankRow& r = row(rows, o.rank);
    if (r.pid != 0 && o.pid != 0 && r.pid != o.pid) {
      continue;  // the rank was started again after the dump
    }
    r.host = o.host.empty() ? (r.host.empty() ? dump.host : r.host) : o.host;
    r.pid = o.pid != 0 ? o.pid : r.pid;
    r.state = observed_state(o);
    if (!o.function.empty()) {
      r.function = o.function;
      r.place = place_text(o.file, o.line);
    }
    if (o.alive && (o.has_python || o.still_s > 0)) {
      r.progress = o.still_s < 1 ? tr(kAtTheDump) : tr("{} before the dump", base::human_duration(o.still_s));
    }
    if (!o.alive && r.ending.empty()) {
      r.ending = o.wait_status.text();
    }
  }
}

void add_verdict(Rows& rows, const model::Verdict& verdict) {
  for (auto& [rank, r] : rows) {
    for (const model::Waiting& w : verdict.waiting) {
      if (w.ranks.contains(rank)) {
        r.state = w.what.empty() ? tr("waiting") : tr("waiting: {}", tr(w.what));
        if (!w.where.function.empty() || !w.where.file.empty()) {
          r.function = w.where.function;
          r.place = place_text(w.where.file, w.where.line);
        }
      }
    }
    if (verdict.ranks.contains(rank)) {
      r.culprit = true;
      r.state = verdict.state == RankState::none ? r.state : word_of(verdict.state);
      // A stuck rank does not move. If the watch began late, or xpurun itself stopped the rank, the
      // observation may say otherwise.
      if (verdict.state == RankState::stuck && r.progress == tr(kAtTheDump)) {
        r.progress.clear();
      }
      if (verdict.ranks.lowest() == rank && !verdict.where.function.empty()) {
        r.function = verdict.where.function;
        r.place = place_text(verdict.where.file, verdict.where.line);
      }
    }
  }
}

}  // namespace

std::vector<RankRow> rank_rows(const model::RunManifest& run, const model::Verdict& verdict,
                               const std::optional<model::DumpManifest>& dump, const Collected& collected) {
  Rows rows;
  add_run(rows, run);
  for (const ProcessLine& p : collected.processes) {
    if (p.role == model::ProcessRole::rank && p.rank >= 0) {
      RankRow& r = row(rows, p.rank);
      r.host = r.host.empty() ? p.host : r.host;
      r.pid = r.pid == 0 ? p.pid : r.pid;
      r.state = r.state.empty() ? word_of(RankState::silent) : r.state;
    }
  }
  if (dump) {
    add_observations(rows, *dump);
  }
  add_verdict(rows, verdict);
  std::vector<RankRow> out;
  for (auto& [rank, r] : rows) {
    out.push_back(std::move(r));
  }
  std::stable_partition(out.begin(), out.end(), [](const RankRow& r) { return r.culprit; });
  return out;
}

}  // namespace xpurun::report
