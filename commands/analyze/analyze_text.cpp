#include "commands/analyze/analyze_text.h"

#include "commands/analyze/capture_text.h"
#include "commands/analyze/table_text.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/language/vocabulary_words.h"
#include "launcher/output/text_block.h"
#include "report/flamegraph/palette.h"
#include "report/speed/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace xpurun::launcher {

namespace {

using base::tr;
using model::Stage;
using model::word_of;
using report::brief_seconds;
using report::grouped;
using report::percent;
using report::short_seconds;

constexpr size_t kNarrow = 80;  // below it, a rank takes several lines
constexpr size_t kLabelColumn = 14;
constexpr size_t kShownRanks = 16;
constexpr size_t kShownFunctions = 20;
constexpr size_t kShownRows = 12;  // of a table of operations
constexpr size_t kCapturedFunctions = 12;

std::string label(std::string_view name, const std::string& text, size_t columns) {
  return text.empty() ? std::string() : definition(name, base::sanitize(text), columns, kLabelColumn);
}

std::string about_steps(const model::SpeedReport& r) {
  std::string out =
      tr("{}, {} each{}, found by {} (confidence {})", grouped(r.steps), short_seconds(r.step_s),
         report::clock_words(r), r.source == model::StepSource::mark ? tr("marks") : word_of(r.source),
         word_of(r.confidence));
  if (r.spikes + r.pauses > 0) {
    out += tr("; {} slow and {} very long single steps", grouped(r.spikes), grouped(r.pauses));
  }
  return out + (r.why.empty() ? "" : "; " + tr(r.why));
}

std::string about_change(const model::StepChange& c) {
  const std::string little = c.kind == model::ChangeKind::ramp ? tr(", little by little") : "";
  const std::string share = percent(std::abs(c.share));
  const std::string after = short_seconds(c.after_s);
  const std::string before = short_seconds(c.before_s);
  return c.share > 0
             ? tr("step {}: {} slower{}, {} instead of {}", grouped(c.step), share, little, after, before)
             : tr("step {}: {} faster{}, {} instead of {}", grouped(c.step), share, little, after, before);
}

std::string wait_text(const model::RankSpeed& rank) {
  return rank.wait_s < 0 ? "-" : short_seconds(rank.wait_s);
}

// Ranks of findings first, then those that wait least.
std::vector<const model::RankSpeed*> shown_ranks(const model::SpeedReport& r) {
  model::RankSet named;
  for (const model::SpeedFinding& f : r.findings) {
    named.insert(f.ranks);
  }
  std::vector<const model::RankSpeed*> out;
  for (const model::RankSpeed& rank : r.ranks) {
    if (rank.steps > 0) {
      out.push_back(&rank);
    }
  }
  if (out.size() > kShownRanks) {
    std::stable_sort(out.begin(), out.end(), [&named](const auto* a, const auto* b) {
      return std::pair(!named.contains(a->rank), -a->own_s) < std::pair(!named.contains(b->rank), -b->own_s);
    });
    out.resize(kShownRanks);
  }
  return out;
}

// Headings above columns of numbers.
std::string heads(std::initializer_list<std::pair<std::string, size_t>> names) {
  std::string out;
  for (const auto& [name, width] : names) {
    out += (out.empty() ? "" : " ") + pad_start(name, width);
  }
  return out;
}

std::string wide_table(const std::vector<const model::RankSpeed*>& ranks) {
  std::string out = heads({{tr("RANK"), 5},
                           {tr("STEP"), 8},
                           {tr("WAIT"), 8},
                           {tr("DATA"), 8},
                           {tr("FORWARD"), 8},
                           {tr("BACKWARD"), 8},
                           {tr("OPTIMIZ."), 8},
                           {tr("GARBAGE"), 8},
                           {tr("OTHER"), 8}}) +
                    '\n';
  for (const model::RankSpeed* r : ranks) {
    out += fmt::format("{:>5} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", r->rank,
                       short_seconds(r->step_s), wait_text(*r), short_seconds(r->stages[Stage::data]),
                       short_seconds(r->stages[Stage::forward]), short_seconds(r->stages[Stage::backward]),
                       short_seconds(r->stages[Stage::optimizer]), short_seconds(r->stages[Stage::garbage]),
                       short_seconds(r->stages[Stage::other]));
  }
  return out;
}

std::string narrow_table(const std::vector<const model::RankSpeed*>& ranks, size_t columns) {
  std::string out;
  for (const model::RankSpeed* r : ranks) {
    std::string parts;
    for (const Stage stage :
         {Stage::data, Stage::forward, Stage::backward, Stage::optimizer, Stage::garbage}) {
      parts += fmt::format(", {} {}", word_of(stage), short_seconds(r->stages[stage]));
    }
    out += definition(tr("rank {}", r->rank),
                      tr("step {}, wait {}{}", short_seconds(r->step_s), wait_text(*r), parts), columns,
                      kLabelColumn);
  }
  return out;
}

// "; rank 3: 45 ms, 3.7 times the others'"
std::string about_outliers(const model::FunctionTimes& f) {
  if (f.outliers.empty()) {
    return "";
  }
  const double times = f.others_mean_s > 0 ? f.slowest_mean_s / f.others_mean_s : 0;
  return tr("; slow on {}: {}{}", report::ranks_text(f.outliers), brief_seconds(f.slowest_mean_s),
            times > 0 ? tr(", {:.1f} times the others'", times) : "");
}

std::string p99_text(const model::FunctionTimes& f) {
  return f.p99_s < 0 ? tr("(short)") : brief_seconds(f.p99_s);
}

std::string function_table(const std::vector<model::FunctionTimes>& functions, size_t columns) {
  if (functions.empty()) {
    return "";
  }
  const bool narrow = columns < kNarrow;
  std::string out = '\n' + tr("traced functions") + '\n';
  out += narrow
             ? ""
             : heads({{tr("CALLS"), 9}, {tr("TOTAL"), 9}, {tr("SELF"), 9}, {tr("MEAN"), 9}, {tr("P99"), 9}}) +
                   ' ' + tr("FUNCTION") + '\n';
  for (size_t i = 0; i < std::min(functions.size(), kShownFunctions); ++i) {
    const model::FunctionTimes& f = functions[i];
    const std::string name = base::sanitize(f.name) + about_outliers(f);
    out += narrow
               ? definition(grouped(f.calls),
                            tr("{}; total {}, self {}, mean {}, p99 {}", name, brief_seconds(f.total_s),
                               brief_seconds(f.self_s), brief_seconds(f.mean_s), p99_text(f)),
                            columns, kLabelColumn)
               : fmt::format("{:>9} {:>9} {:>9} {:>9} {:>9} {}\n", grouped(f.calls), brief_seconds(f.total_s),
                             brief_seconds(f.self_s), brief_seconds(f.mean_s), p99_text(f), name);
  }
  if (functions.size() > kShownFunctions) {
    out += text_block(tr("{} of {} functions; --format json has all", kShownFunctions, functions.size()),
                      columns, 0);
  }
  return out;
}

// Ranks whose GPU waits for work first, then those with the shortest queues.
std::string launch_table(const std::vector<model::RankLaunches>& launches, size_t columns) {
  if (launches.empty()) {
    return "";
  }
  std::vector<const model::RankLaunches*> ranks;
  for (const model::RankLaunches& one : launches) {
    ranks.push_back(&one);
  }
  if (ranks.size() > kShownRanks) {
    std::stable_sort(ranks.begin(), ranks.end(), [](const auto* a, const auto* b) {
      return std::pair(!a->starved, a->median_s) < std::pair(!b->starved, b->median_s);
    });
    ranks.resize(kShownRanks);
  }
  std::string out =
      '\n' + text_block(tr("from the call to the start on the GPU, of timed calls"), columns, 0);
  out +=
      heads({{tr("RANK"), 4}, {tr("CALLS"), 8}, {tr("MEDIAN"), 8}, {tr("MEAN"), 8}, {tr("P99"), 8}}) + '\n';
  for (const model::RankLaunches* r : ranks) {
    out += fmt::format("{:>4} {:>8} {:>8} {:>8} {:>8}\n", r->rank, grouped(r->calls),
                       brief_seconds(r->median_s), brief_seconds(r->mean_s), brief_seconds(r->p99_s));
  }
  model::RankSet starved;
  for (const model::RankLaunches& one : launches) {
    if (one.starved) {
      starved.insert(one.rank);
    }
  }
  if (!starved.empty()) {
    out += text_block(tr("{}: the GPU waits for the host", report::ranks_text(starved)), columns, 0);
  }
  return out;
}

std::string operations_text(const model::OperationTables& operations, size_t columns) {
  std::string out;
  for (const report::TextTable& table : report::text_tables(operations, kShownRows)) {
    out += '\n' + table_text(table, columns);
  }
  if (const std::string missing = report::missing_text(operations); !missing.empty()) {
    out += '\n' + text_block(missing, columns, 0);
  }
  return out;
}

std::string newest_capture(const model::SpeedReport& r, size_t columns) {
  return r.captures.empty() ? "" : '\n' + capture_text(r.captures.back(), kCapturedFunctions, columns);
}

std::string tables(const model::SpeedReport& r, size_t columns) {
  return newest_capture(r, columns) + function_table(r.functions, columns) +
         operations_text(r.operations, columns);
}

}  // namespace

std::string analysis_text(const model::SpeedReport& r, size_t columns) {
  std::string out = text_block(base::sanitize(r.sentence), columns, 0);
  if (r.source == model::StepSource::none) {
    return out + tables(r, columns);
  }
  out += '\n' + label(tr("steps"), about_steps(r), columns);
  for (const model::StepChange& change : r.changes) {
    out += label(tr("since"), about_change(change), columns);
  }
  for (const model::StagePause& pause : r.stage_pauses) {
    out += label(tr("pauses"), pause.sentence, columns);
  }
  for (const model::SpeedFinding& f : r.findings) {
    out += '\n' + label(word_of(f.severity), f.sentence, columns);
    out += label(tr("confidence"), word_of(f.confidence), columns);
    out += label(tr("next"), f.next, columns);
  }
  for (const model::CauseShare& one : r.what_if) {
    out +=
        label(tr("what if"), tr("without {}: {} of a step", word_of(one.cause), percent(one.share)), columns);
  }
  const auto ranks = shown_ranks(r);
  out += '\n' + (columns < kNarrow ? narrow_table(ranks, columns) : wide_table(ranks));
  if (ranks.size() < r.ranks.size()) {
    out += text_block(tr("{} of {} ranks; --format json has all", ranks.size(), r.ranks.size()), columns, 0);
  }
  return out + launch_table(r.launches, columns) + tables(r, columns);
}

}  // namespace xpurun::launcher
