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
std::string heads(const std::vector<std::pair<std::string, size_t>>& names) {
  std::string out;
  for (const auto& [name, width] : names) {
    out += (out.empty() ? "" : " ") + pad_start(name, width);
  }
  return out;
}

// A part of a rank's mean step; all parts together are the step.
struct StepPart {
  std::string head;
  std::vector<Stage> stages;
  bool always = false;  // shown where it is 0 on all ranks, too

  double seconds(const model::RankSpeed& r) const {
    double sum = 0;
    for (const Stage stage : stages) {
      sum += r.stages[stage];
    }
    return sum;
  }
};

// A forward pass is known from the batch before it. Without batches it is a part of the rest, not 0.
std::vector<StepPart> parts_of_steps(const std::vector<const model::RankSpeed*>& ranks) {
  std::vector<StepPart> out = {
      {tr("DATA"), {Stage::data}},           {tr("FORWARD"), {Stage::forward}},
      {tr("BACKW."), {Stage::backward}},     {tr("OPTIM."), {Stage::optimizer}},
      {tr("CALLS"), {Stage::communication}}, {tr("PAUSES"), {Stage::checkpoint, Stage::evaluation}},
      {tr("GARBAGE"), {Stage::garbage}},     {tr("OTHER"), {Stage::other}, true}};
  std::erase_if(out, [&ranks](const StepPart& part) {
    return !part.always && std::none_of(ranks.begin(), ranks.end(), [&part](const model::RankSpeed* r) {
      return short_seconds(part.seconds(*r)) != "0";
    });
  });
  return out;
}

double mean_step(const std::vector<StepPart>& parts, const model::RankSpeed& r) {
  double sum = 0;
  for (const StepPart& part : parts) {
    sum += part.seconds(r);
  }
  return sum;
}

// What the numbers mean, and what is not known.
std::string about_table(const std::vector<const model::RankSpeed*>& ranks, size_t columns) {
  const bool forward =
      std::any_of(ranks.begin(), ranks.end(), [](const auto* r) { return r->stages[Stage::forward] > 0; });
  return text_block(
      tr("STEP is a median. MEAN is the sum of the columns to its right; WAIT, for other ranks, is a part of "
         "them.") +
          (forward ? ""
                   : " " + tr("Where the forward pass begins is not known, as no data loader was seen: the "
                              "forward pass is in OTHER.")),
      columns, 0);
}

std::string wide_table(const std::vector<const model::RankSpeed*>& ranks) {
  constexpr size_t kColumn = 7;
  const std::vector<StepPart> parts = parts_of_steps(ranks);
  std::vector<std::pair<std::string, size_t>> names = {
      {tr("RANK"), 4}, {tr("STEP"), kColumn}, {tr("WAIT"), kColumn}, {tr("MEAN"), kColumn}};
  for (const StepPart& part : parts) {
    names.emplace_back(part.head, kColumn);
  }
  std::string out = heads(names) + '\n';
  for (const model::RankSpeed* r : ranks) {
    out += fmt::format("{:>4} {:>7} {:>7} {:>7}", r->rank, short_seconds(r->step_s), wait_text(*r),
                       short_seconds(mean_step(parts, *r)));
    for (const StepPart& part : parts) {
      out += fmt::format(" {:>7}", short_seconds(part.seconds(*r)));
    }
    out += '\n';
  }
  return out;
}

std::string narrow_table(const std::vector<const model::RankSpeed*>& ranks, size_t columns) {
  const std::vector<StepPart> parts = parts_of_steps(ranks);
  std::string out;
  for (const model::RankSpeed* r : ranks) {
    std::string stages;
    for (const StepPart& part : parts) {
      stages += fmt::format(", {} {}", part.head, short_seconds(part.seconds(*r)));
    }
    out += definition(tr("rank {}", r->rank),
                      tr("step {}, wait {}, mean {}{}", short_seconds(r->step_s), wait_text(*r),
                         short_seconds(mean_step(parts, *r)), stages),
                      columns, kLabelColumn);
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
    out += label(tr("what if"), report::what_if_words(one), columns);
  }
  const auto ranks = shown_ranks(r);
  const std::string wide = wide_table(ranks);
  out += '\n' + (wide.find('\n') > columns ? narrow_table(ranks, columns) : wide);
  out += about_table(ranks, columns);
  if (ranks.size() < r.ranks.size()) {
    out += text_block(tr("{} of {} ranks; --format json has all", ranks.size(), r.ranks.size()), columns, 0);
  }
  return out + launch_table(r.launches, columns) + tables(r, columns);
}

}  // namespace xpurun::launcher
