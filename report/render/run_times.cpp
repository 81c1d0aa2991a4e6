#include "report/render/run_times.h"

#include "common/base/clock.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/diagnose.h"
#include "report/render/parts/run_axis.h"
#include "report/render/speed/slowdowns.h"
#include "report/speed/wording.h"

#include <fmt/format.h>
#include <kainjow/mustache.hpp>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <map>
#include <tuple>

namespace xpurun::report {

using base::later;
using base::tr;
using kainjow::mustache::data;

namespace {

constexpr size_t kMostRankRows = 40;
constexpr size_t kMostMarks = 60;  // of one kind
// Progress is looked for every few seconds: a shorter time without it proves nothing.
constexpr double kLeastStillS = 10;

// One process of a rank; a restarted rank has several.
struct Life {
  double seen_s = 0;
  double progress_s = 0;
  std::vector<model::StillTime> still;  // before that
  double end_s = 0;
  bool ended = false;
  std::string ending;
};

struct Row {
  model::RankSet ranks;
  bool culprit = false;
  std::vector<Life> lives;
};

// Which part of a step the ranks of a row worked themselves, as an area over the time of the run.
class OwnArea {
 public:
  OwnArea(const std::optional<model::SpeedReport>& speed, const StepTimes& steps, const RunAxis& axis)
      : axis_(axis), steps_(steps) {
    if (speed && !steps.empty() && speed->waits_measured) {
      heat_ = speed->heat;
    }
  }

  bool empty() const { return heat_.empty() || heat_.columns == 0; }

  // The data of an SVG path in a field of 1000 by 100; empty: nothing is known of these ranks.
  std::string path(const model::RankSet& ranks) const {
    std::string out;
    for (size_t c = 0; !empty() && c < heat_.columns; ++c) {
      const double first = step_of(c);
      const double last = step_of(c + 1);
      const double from = steps_.begin_s(first);
      const double to = steps_.begin_s(last);
      const double own = own_s(ranks, c);
      if (own >= 0 && to > from) {
        const double share = std::clamp(own * (last - first) / (to - from), 0.0, 1.0);
        out += fmt::format("M{:.1f} 100V{:.0f}H{:.1f}V100z", 1000 * axis_.share(from), 100 - 100 * share,
                           1000 * axis_.share(to));
      }
    }
    return out;
  }

 private:
  double step_of(size_t column) const {
    return std::ceil(static_cast<double>(column) * static_cast<double>(heat_.steps) /
                     static_cast<double>(heat_.columns));
  }
  // The longest of these ranks, of which the others are waiting.
  double own_s(const model::RankSet& ranks, size_t column) const {
    double most = -1;
    for (size_t r = 0; r < heat_.rows.size(); ++r) {
      if (ranks.minus(heat_.rows[r]).size() < ranks.size()) {
        most = std::max(most, static_cast<double>(heat_.own_s[r * heat_.columns + column]));
      }
    }
    return most;
  }

  const RunAxis& axis_;
  const StepTimes& steps_;
  model::HeatMap heat_;
};

// Progress was looked for and not found.
bool is_still(const RunReport& report, double from_s, double to_s) {
  const auto& stalls = report.run.stalls;
  return to_s - from_s >= kLeastStillS ||
         std::any_of(stalls.begin(), stalls.end(), [&](const model::Stall& s) {
           const double since = s.since_s < 0 ? s.at_s : std::min(s.since_s, s.at_s);
           return from_s <= s.at_s && to_s > since && to_s - from_s >= (s.at_s - since) / 2;
         });
}

std::vector<model::StillTime> still_until(const RunReport& report, const model::ProcessRecord& p,
                                          double progress_s) {
  std::vector<model::StillTime> out;
  double after = p.seen_s;
  for (const model::StillTime& t : p.still) {
    if (t.from_s >= after && t.to_s > t.from_s && t.to_s <= progress_s &&
        is_still(report, t.from_s, t.to_s)) {
      out.push_back(t);
      after = t.to_s;
    }
  }
  return out;
}

std::vector<Row> rows_of(const RunReport& report, const RunAxis& axis, const OwnArea& own) {
  std::map<base::Rank, std::vector<Life>> by_rank;
  for (const model::ProcessRecord& p : report.run.processes) {
    if (p.role != model::ProcessRole::rank || p.rank < 0) {
      continue;
    }
    const double end = std::max(p.seen_s, p.death.happened ? p.death.at_s : axis.end());
    double progress = std::clamp(model::progress_before_end_s(report.run, p), p.seen_s, end);
    progress = is_still(report, progress, end) ? progress : end;
    by_rank[p.rank].push_back({.seen_s = p.seen_s,
                               .progress_s = progress,
                               .still = still_until(report, p, progress),
                               .end_s = end,
                               .ended = p.death.happened,
                               .ending = p.death.happened ? p.death.wait_status.text() : std::string()});
  }
  using Key = std::pair<bool, std::vector<std::tuple<int, int, int, std::string>>>;
  std::map<Key, Row> grouped;
  const bool apart = !own.empty() && by_rank.size() <= kMostRankRows;
  for (auto& [rank, lives] : by_rank) {
    const bool culprit = report.verdict.ranks.contains(rank);
    Key key{!culprit, {}};
    if (apart) {
      key.second.emplace_back(rank, 0, 0, std::string());
    }
    for (const Life& l : lives) {
      for (const model::StillTime& t : l.still) {
        key.second.emplace_back(axis.step(t.from_s), axis.step(t.to_s), 0, std::string());
      }
      key.second.emplace_back(axis.step(l.seen_s), axis.step(l.progress_s), axis.step(l.end_s), l.ending);
    }
    Row& row = grouped[key];
    row.culprit = culprit;
    row.ranks.insert(rank);
    if (row.lives.empty()) {
      row.lives = lives;
    }
  }
  std::vector<Row> out;
  for (auto& [key, row] : grouped) {
    out.push_back(std::move(row));
  }
  std::stable_sort(out.begin(), out.end(), [](const Row& a, const Row& b) {
    return std::pair(!a.culprit, a.ranks.lowest()) < std::pair(!b.culprit, b.ranks.lowest());
  });
  return out;
}

data bar(const RunAxis& axis, const char* look, double from, double to) {
  data d;
  d.set("look", look);
  d.set("left", axis.percent(from));
  d.set("width", fmt::format("{:.2f}%", 100 * std::max(0.0, axis.share(to) - axis.share(from))));
  return d;
}

// "load_batch (train.py:31)", of ranks that had not ended at the dump.
std::string place_at_dump(const RunReport& report, const Row& row) {
  const auto r = std::find_if(report.ranks.begin(), report.ranks.end(),
                              [&](const RankRow& one) { return one.rank == row.ranks.lowest(); });
  const bool known = r != report.ranks.end() && !r->function.empty() && !report.dump.empty();
  return !known ? "" : r->place.empty() ? r->function : fmt::format("{} ({})", r->function, r->place);
}

data row_data(const RunReport& report, const Row& row, const RunAxis& axis, const OwnArea& own) {
  data d;
  put_text(d, "own", own.path(row.ranks));
  put_text(d, "at_dump", place_at_dump(report, row));
  d.set("ranks", spaced_ranks(row.ranks));
  d.set("culprit", row.culprit);
  data bars{data::type::list};
  for (const Life& l : row.lives) {
    double moves_from = l.seen_s;
    for (const model::StillTime& t : l.still) {
      bars.push_back(bar(axis, "moves", moves_from, t.from_s));
      bars.push_back(bar(axis, "still", t.from_s, t.to_s));
      moves_from = t.to_s;
    }
    bars.push_back(bar(axis, "moves", moves_from, l.progress_s));
    bars.push_back(bar(axis, "still", l.progress_s, l.end_s));
    if (l.ended) {
      bars.push_back(bar(axis, "end", l.end_s, l.end_s));
    }
  }
  put_list(d, "bars", bars);
  const Life& last = row.lives.back();
  d.set("progress", last.progress_s > last.seen_s ? axis.time(last.progress_s) : "");
  d.set("ending", last.ended ? fmt::format("{} {}", axis.time(last.end_s), last.ending) : "");
  return d;
}

// Vertical marks over all rows.
class Marks {
 public:
  explicit Marks(const RunAxis& axis) : axis_(axis) {}
  void add(const char* look, double from, double to) {
    if (++counts_[look] <= kMostMarks) {
      list_.push_back(bar(axis_, look, from, to));
    }
  }
  const data& list() const { return list_; }

 private:
  const RunAxis& axis_;
  std::map<std::string, size_t> counts_;
  data list_{data::type::list};
};

std::string end_of_stall(const model::Stall& i, const RunReport& report, const RunAxis& axis) {
  if (i.cleared_s < 0) {
    return tr("was not cleared");
  }
  const bool killed = report.verdict.kind == model::VerdictKind::hang && i.dump == report.verdict.dump;
  return killed               ? tr("ended with the job at {}", axis.time(i.cleared_s))
         : i.restarted_s >= 0 ? tr("ended by a restart of the ranks at {}", axis.time(i.cleared_s))
                              : tr("cleared by itself at {}", axis.time(i.cleared_s));
}

data event_data(const RunAxis& axis, double at, std::string_view kind, const std::string& what) {
  data d;
  d.set("at", axis.moment(at));
  d.set("kind", tr(kind));
  d.set("what", what);
  return d;
}

void put_events(data& page, const RunReport& report, const RunAxis& axis) {
  struct Event {
    double at_s;
    std::string_view kind;
    std::string what;
  };
  std::vector<Event> events;
  // Without an axis there is no time line either.
  const model::RunManifest run = axis.empty() ? model::RunManifest() : report.run;
  for (const model::Stall& i : run.stalls) {
    events.push_back({i.at_s, later("stall"),
                      fmt::format("{}{}", end_of_stall(i, report, axis),
                                  i.verdict.sentence.empty() || i.dump == report.verdict.dump
                                      ? std::string()
                                      : tr("; ") + sentence_of(i.verdict))});
  }
  for (const model::DumpRecord& d : run.dumps) {
    events.push_back({d.at_s, later("dump"), tr("stacks of all ranks, {}", d.dir)});
  }
  for (const model::Slowdown& s : run.slowdowns) {
    events.push_back({slow_since_s(s, run), later("slow"), slowdown_sentence(s)});
  }
  for (const model::PythonException& x : run.exceptions) {
    if (is_exception(x.kind) && x.rank != base::kNoRank && !x.chain.empty()) {
      events.push_back({x.at_s, later("exception"), tr("rank {}: {}", x.rank, x.chain.front().type)});
    }
  }
  for (const model::CrashNotice& c : run.crashes) {
    // SIGTERM is how launchers, and xpurun, end the other ranks: no crash, unless the verdict says so.
    const bool of_verdict =
        report.verdict.kind != model::VerdictKind::hang && report.verdict.ranks.contains(c.rank);
    const bool is_cleanup = c.signal == SIGTERM && !of_verdict;
    if (c.rank != base::kNoRank && !is_cleanup) {
      events.push_back({c.at_s, later("crash"), tr("rank {}, signal {}", c.rank, c.signal)});
    }
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& a, const Event& b) { return a.at_s < b.at_s; });
  data list{data::type::list};
  for (size_t i = 0; i < std::min(events.size(), kMostMarks); ++i) {
    list.push_back(event_data(axis, events[i].at_s, events[i].kind, events[i].what));
  }
  put_list(page, "events", list);
}

}  // namespace

void put_times(data& page, const RunReport& report) {
  const RunAxis axis(report.run);
  const StepTimes steps(report.speed, axis);
  const OwnArea own(report.speed, steps, axis);
  const std::vector<Row> rows = axis.empty() ? std::vector<Row>() : rows_of(report, axis, own);
  data list{data::type::list};
  for (size_t i = 0; i < std::min(rows.size(), kMostRankRows); ++i) {
    list.push_back(row_data(report, rows[i], axis, own));
  }
  put_list(page, "times", list);
  put_text(page, "times_cut",
           rows.size() > kMostRankRows ? tr("{} more rows are left out.", rows.size() - kMostRankRows)
                                       : std::string());
  Marks marks(axis);
  data ticks{data::type::list};
  if (!rows.empty()) {
    for (const model::Stall& i : report.run.stalls) {
      marks.add("stall", i.since_s < 0 ? i.at_s : std::min(i.since_s, i.at_s),
                i.cleared_s < 0 ? axis.end() : i.cleared_s);
    }
    for (const model::Slowdown& s : report.run.slowdowns) {
      marks.add("slow", slow_since_s(s, report.run), s.cleared_s < 0 ? axis.end() : s.cleared_s);
    }
    for (const model::DumpRecord& d : report.run.dumps) {
      marks.add("dump", d.at_s, d.at_s);
    }
    for (const double at : axis.ticks()) {
      data d;
      d.set("left", axis.percent(at));
      d.set("text", axis.time(at));
      const int64_t step = steps.step_at(at);
      put_text(d, "step", step >= 0 ? tr("step {}", grouped(step)) : std::string());
      ticks.push_back(d);
    }
  }
  put_list(page, "marks", marks.list());
  put_list(page, "ticks", ticks);
  put_events(page, report, axis);
  page.set("has_run_times", !rows.empty());
  page.set("has_slow_marks", !rows.empty() && !report.run.slowdowns.empty());
  page.set("has_own", !own.empty());
  page.set("times_started", fmt::format("{}", report.run.started_wall_ns / 1'000'000));
  page.set("times_seconds", fmt::format("{:.3f}", axis.empty() ? 0 : axis.end()));
  page.set("times_steps", steps.text());
}

}  // namespace xpurun::report
