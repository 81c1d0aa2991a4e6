#include "report/operations/tables/idle_tables.h"

#include "common/base/tr.h"
#include "report/speed/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace xpurun::report {

namespace {

using model::IdleGap;
using model::IdleTime;
using model::RankIdle;

const IdleTime* newest(const model::OperationTables& operations) {
  for (auto it = operations.idle.rbegin(); it != operations.idle.rend(); ++it) {
    if (!it->ranks.empty()) {
      return &*it;
    }
  }
  return nullptr;
}

// "99.8% to 100%"
std::string range(double least, double most) {
  const std::string a = percent(least);
  const std::string b = percent(most);
  return a == b ? a : base::tr("{} to {}", a, b);
}

std::string coverage(const IdleTime& idle) {
  double least = 1;
  double most = 0;
  double untraced = 0;
  bool known = true;
  for (const RankIdle& r : idle.ranks) {
    known = known && r.timed_share >= 0;
    least = std::min(least, r.timed_share);
    most = std::max(most, r.timed_share);
    untraced = std::max(untraced, r.untraced_share);
  }
  if (!known) {
    return base::tr("The number of untimed calls is unknown.");
  }
  return idle.source == "CUPTI" ? base::tr("{} of the kernels and copies were recorded.", range(least, most))
                                : base::tr(
                                      "{} of the calls were timed; kernels outside of library calls take up "
                                      "to {} of a rank's GPU time.",
                                      range(least, most), percent(untraced));
}

std::string about_notes(const IdleTime& idle) {
  return idle.notes.empty()
             ? ""
             : base::tr(" Not measured: {}{}.", idle.notes.front(),
                        idle.notes.size() > 1 ? base::tr("; {} more notes in the JSON", idle.notes.size() - 1)
                                              : "");
}

TextTable idle_table(const IdleTime& idle, size_t most) {
  TextTable out{
      .id = "idle",
      .title = "Idle time and queue",
      .about = base::tr("From {}, by {}. {} Host wait: idle, nothing was launched; kernel wait: "
                        "idle although work was launched. Queue: work launched and not begun, over "
                        "time. Waiting inside a collective does not count as idle. Others idle: the "
                        "median of the other ranks, where a rank stands out.{}",
                        idle.dir, idle.source, coverage(idle), about_notes(idle))};
  out.columns = {{"Rank", true, 9},       {"Seconds", true, 4},      {"Timed %", true, 3},
                 {"Untraced %", true, 2}, {"Idle %", true, 8},       {"Between steps %", true, 6},
                 {"In steps %", true, 6}, {"Host wait %", true, 8},  {"Kernel wait %", true, 8},
                 {"Queue mean", true, 7}, {"Queue p50", true, 6},    {"Queue p99", true, 6},
                 {"Queue most", true, 1}, {"Others idle %", true, 7}};
  std::vector<RankIdle> rows = idle.ranks;
  if (rows.size() > most) {
    std::stable_sort(rows.begin(), rows.end(), [](const RankIdle& a, const RankIdle& b) {
      return a.idle_s / a.window_s > b.idle_s / b.window_s;
    });
  }
  out.all_rows = rows.size();
  rows.resize(std::min(rows.size(), most));
  for (const RankIdle& r : rows) {
    const auto part = [&r](double seconds) { return percent_cell(seconds / r.window_s); };
    const bool known = r.between_steps_s >= 0;
    out.rows.push_back({fmt::format("{}", r.rank), short_number(r.window_s), percent_cell(r.timed_share),
                        percent_cell(r.untraced_share), part(r.idle_s), known ? part(r.between_steps_s) : "",
                        known ? part(r.idle_s - r.between_steps_s) : "", part(r.host_wait_s),
                        part(r.kernel_wait_s), short_number(r.queue.mean),
                        fmt::format("{:.0f}", r.queue.median), fmt::format("{:.0f}", r.queue.p99),
                        fmt::format("{}", r.queue.most), r.outlier ? percent_cell(r.others_void_share) : ""});
  }
  return out;
}

TextTable gap_table(const IdleTime& idle, size_t most) {
  TextTable out{.id = "gaps",
                .title = "Longest gaps",
                .about = base::tr("Times without running work on a GPU, in {}; at: ms after its begin. "
                                  "Python: the host's innermost span in the middle of the gap.",
                                  idle.dir)};
  out.columns = {{"Rank", true, 9},   {"At ms", true, 5},   {"ms", true, 9},      {"Host wait %", true, 6},
                 {"After", false, 7}, {"Before", false, 7}, {"Python", false, 8}, {"CUDA call", false, 4}};
  out.all_rows = idle.gaps.size();
  for (size_t i = 0; i < std::min(most, idle.gaps.size()); ++i) {
    const IdleGap& g = idle.gaps[i];
    const double at_ms = static_cast<double>(g.wall_ns - idle.wall_ns) * 1e-6;
    out.rows.push_back({fmt::format("{}", g.rank), fmt::format("{:.1f}", at_ms), ms_cell(g.seconds),
                        percent_cell(g.seconds > 0 ? 1 - g.kernel_wait_s / g.seconds : 0), g.after, g.before,
                        g.python, g.call});
  }
  return out;
}

}  // namespace

std::vector<TextTable> idle_tables(const model::OperationTables& operations, size_t most) {
  const IdleTime* idle = newest(operations);
  if (idle == nullptr) {
    return {};
  }
  return {idle_table(*idle, most), gap_table(*idle, most)};
}

std::string missing_idle_text(const model::OperationTables& operations) {
  if (operations.ranks.empty() || newest(operations) != nullptr) {
    return "";
  }
  const std::string why = operations.idle.empty() || operations.idle.back().notes.empty()
                              ? base::tr("needs a trace (xpurun ctl trace, or --timeline)")
                              : operations.idle.back().dir + ": " + operations.idle.back().notes.front();
  return base::tr("Idle time by cause, queue length and gaps were not measured: {}.", why);
}

}  // namespace xpurun::report
