#include "report/compare/comparison_table.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/compare/metric_test.h"
#include "report/compare/verdict.h"
#include "report/operations/blocks.h"
#include "report/speed/wording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace xpurun::report {

namespace {

std::string q_text(const model::ComparedMetric& m) {
  return m.judgement == model::Judgement::unclear ? "" : m.q < 0.0005 ? "0.000" : fmt::format("{:.3f}", m.q);
}

std::string rate_text(double tflops) {
  return tflops < 0 ? "" : short_number(tflops);
}

}  // namespace

TextTable comparison_table(const model::Comparison& comparison, size_t most) {
  TextTable out{.id = "metrics", .title = base::tr("What was compared"), .about = about_test(comparison)};
  out.columns = {{"Metric", false, 9},   {"A ms", true, 7},        {"B ms", true, 7},
                 {"Change %", true, 8},  {"Of a step %", true, 4}, {"q", true, 3},
                 {"P(B > A)", true, 0},  {"Judgement", false, 8},  {"Ranks", false, 5},
                 {"A TFLOP/s", true, 2}, {"B TFLOP/s", true, 2},   {"Values A", true, 1},
                 {"Values B", true, 1}};
  out.all_rows = comparison.metrics.size();
  for (size_t i = 0; i < std::min(out.all_rows, most); ++i) {
    const model::ComparedMetric& m = comparison.metrics[i];
    const bool reported = m.judgement == model::Judgement::slower || m.judgement == model::Judgement::faster;
    out.rows.push_back({metric_words(m.kind, base::sanitize(m.name)), short_number(m.a_s * 1e3),
                        short_number(m.b_s * 1e3),
                        m.effect < kLargestEffect ? fmt::format("{:+.1f}", m.effect * 100) : "",
                        reported && m.step_share != 0 ? fmt::format("{:+.1f}", m.step_share * 100) : "",
                        q_text(m), fmt::format("{:.2f}", m.superiority), std::string(name_of(m.judgement)),
                        m.ranks, rate_text(m.a_tflops), rate_text(m.b_tflops), fmt::format("{}", m.a_count),
                        fmt::format("{}", m.b_count)});
  }
  return out;
}

std::string about_test(const model::Comparison& comparison) {
  return base::tr(
      "Mann-Whitney test on the medians of up to {} blocks of consecutive steps or calls, widened where "
      "neighbouring blocks are correlated. A difference is reported if it is at least {}{}; at most {} of "
      "the reported differences are expected to be wrong (q, Benjamini-Hochberg).",
      kMostBlocks, percent(comparison.least_effect),
      comparison.a.gpu && comparison.b.gpu ? "" : base::tr(" (not all ranks have a GPU)"),
      percent(comparison.most_q));
}

std::string side_words(const model::ComparedSide& side) {
  std::string out = base::sanitize(side.name);
  if (!side.ranks.empty()) {
    out += side.ranks.find_first_of(",-") == std::string::npos ? base::tr(", rank {}", side.ranks)
                                                               : base::tr(", ranks {}", side.ranks);
  }
  if (side.steps > 0) {
    out += base::tr(", {} steps of {}", grouped(side.steps), call_time(side.step_s));
  } else {
    out += base::tr(", no steps");
  }
  return out + (side.note.empty() ? "" : "; " + side.note);
}

}  // namespace xpurun::report
