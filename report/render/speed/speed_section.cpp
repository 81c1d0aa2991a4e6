#include "report/render/speed/speed_section.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/language/vocabulary_words.h"
#include "report/operations/tables/text_tables.h"
#include "report/profile/captured_functions.h"
#include "report/profile/gpu_words.h"
#include "report/profile/resource_words.h"
#include "report/render/speed/bandwidth_svg.h"
#include "report/render/speed/slowdowns.h"
#include "report/render/speed/speed_svg.h"
#include "report/render/speed/spread_svg.h"
#include "report/speed/wording.h"

#include <fmt/format.h>
#include <kainjow/mustache.hpp>

#include <algorithm>

namespace xpurun::report {

using kainjow::mustache::data;

namespace {

using base::tr;
using model::Stage;
using model::word_of;

constexpr size_t kMostFunctions = 30;  // of a capture
constexpr double kShownS = 5e-5;       // less is "0" in a table of steps

data finding_data(const model::SpeedFinding& f) {
  const bool warning = f.severity == model::SpeedSeverity::warning;
  data d;
  d.set("severity", std::string(name_of(f.severity)));
  d.set("word", warning ? tr("Warning") : tr("Note"));
  d.set("icon", warning ? "!" : "i");
  d.set("id", fmt::format("speed.{}.{}", name_of(f.problem), name_of(f.cause)));
  d.set("title", capitalized(f.sentence));
  d.set("about", tr("{} of a step ({}), confidence {}", percent(f.share), short_seconds(f.lost_s),
                    word_of(f.confidence)));
  put_text(d, "next", f.next);
  return d;
}

// The stages in the order of the table, "other" last, without those that take no time on any rank.
std::vector<size_t> shown_stages(const std::vector<const model::RankSpeed*>& ranks) {
  std::vector<size_t> out;
  for (size_t s = 1; s <= model::kStepStages; ++s) {
    const size_t stage = s % model::kStepStages;
    if (std::any_of(ranks.begin(), ranks.end(),
                    [&](const auto* r) { return r->stages.seconds[stage] >= kShownS; })) {
      out.push_back(stage);
    }
  }
  return out;
}

data rank_data(const model::RankSpeed& r, bool culprit, const std::vector<size_t>& shown) {
  data d;
  d.set("rank", fmt::format("{}", r.rank));
  d.set("culprit", culprit);
  d.set("host", r.host);
  d.set("step", short_seconds(r.step_s));
  d.set("own", r.own_s < 0 ? "-" : short_seconds(r.own_s));
  d.set("wait", r.wait_s < 0 ? "-" : short_seconds(r.wait_s));
  data stages{data::type::list};
  for (const size_t stage : shown) {
    data one;
    one.set("time", short_seconds(r.stages.seconds[stage]));
    stages.push_back(one);
  }
  put_list(d, "stages", stages);
  d.set("exposed", r.exposed_s < 0 ? "" : short_seconds(r.exposed_s));
  d.set("hidden", r.hidden_s < 0 ? "" : short_seconds(r.hidden_s));
  d.set("cpu", r.cpu_s < 0 ? "" : short_seconds(r.cpu_s));
  d.set("delay", r.run_delay_s < 0 ? "" : short_seconds(r.run_delay_s));
  d.set("throttled", r.throttled_s < 0 ? "" : short_seconds(r.throttled_s));
  d.set("stolen", r.stolen_s < 0 ? "" : short_seconds(r.stolen_s));
  return d;
}

data stage_names(const std::vector<size_t>& shown) {
  data out{data::type::list};
  for (const size_t stage : shown) {
    data one;
    one.set("name", capitalized(word_of(static_cast<Stage>(stage))));
    out.push_back(one);
  }
  return out;
}

data levels() {
  data out{data::type::list};
  for (size_t level = 0; level < kHeatLevels; ++level) {
    data one;
    one.set("look", fmt::format("h{}", level));
    one.set("text", heat_level_text(level));
    out.push_back(one);
  }
  return out;
}

void put_operations(PageData& page, const model::OperationTables& operations, size_t most) {
  data tables{data::type::list};
  for (const TextTable& table : text_tables(operations, most)) {
    tables.push_back(table_data(table));
  }
  put_list(page, "operation_tables", tables);
  put_text(page, "bandwidth_plot", bandwidth_plot(operations.collectives, operations.durations));
  put_text(page, "spread_plot", spread_plot(operations.durations));
  put_text(page, "operations_missing", missing_text(operations));
}

std::string share(double part) {
  return fmt::format("{:.1f} %", 100 * part);
}

data function_data(const model::CapturedFunction& f) {
  const bool stands_out = !f.ranks.empty();
  data d;
  d.set("culprit", stands_out && !f.waits && f.ranks_own > f.own);
  d.set("name", (f.worker ? tr("worker: ") : "") + place_of(f));
  put_text(d, "stack", stands_out ? base::sanitize(f.stack) : "");
  d.set("own", share(f.own));
  d.set("total", share(f.total));
  d.set("ranks", f.ranks.brief());
  const double path = f.ranks_path >= 0 ? f.ranks_path : f.path;
  d.set("path", path >= 0 ? share(path) : "");
  d.set("ranks_own", stands_out ? share(f.ranks_own) : "");
  d.set("ranks_total", stands_out ? share(f.ranks_total) : "");
  return d;
}

data work_data(const model::CapturedWork& w) {
  data d;
  d.set("culprit", !w.ranks.empty());
  d.set("name", base::sanitize(w.name));
  d.set("kind", w.link == model::LinkClass::unknown ? word_of(w.kind)
                                                    : tr("{}, {}", word_of(w.kind), word_of(w.link)));
  d.set("path", share(w.path));
  d.set("total", share(w.share));
  d.set("count", grouped(static_cast<int64_t>(w.count)));
  d.set("median", work_duration(w.median_s));
  d.set("mean", work_duration(w.mean_s));
  d.set("spread", work_duration(w.spread_s));
  d.set("ranks", w.ranks.brief());
  d.set("ranks_total", w.ranks.empty() ? "" : share(w.ranks_share));
  put_text(d, "resource", fitting_words(w));
  if (!w.resource.empty()) {
    d.set("filled", fmt::format("{:.0f} %", 100 * w.filled));
  }
  return d;
}

data capture_data(const model::CaptureReport& c) {
  data d;
  d.set("dir", c.dir);
  d.set("about", tr("{} samples of ranks {} in {}{}{}{}", grouped(static_cast<int64_t>(c.samples)),
                    c.ranks.brief(), base::human_duration(c.seconds), tr(capture_reason(c.reason)),
                    c.sentence.empty() ? tr(".") : tr(". "), capitalized(c.sentence)));
  data functions{data::type::list};
  for (size_t i = 0; i < std::min(c.functions.size(), kMostFunctions); ++i) {
    functions.push_back(function_data(c.functions[i]));
  }
  put_list(d, "functions", functions);
  d.set("paths", std::any_of(c.functions.begin(), c.functions.end(), [](const model::CapturedFunction& f) {
          return f.path >= 0 || f.ranks_path >= 0;
        }));
  put_text(d, "gpu_about", fmt::format("{}", fmt::join(gpu_sentences(c.gpu), " ")));
  data work{data::type::list};
  for (size_t i = 0; i < std::min(c.gpu.work.size(), kMostFunctions); ++i) {
    work.push_back(work_data(c.gpu.work[i]));
  }
  put_list(d, "work", work);
  d.set("sampled", std::any_of(c.gpu.work.begin(), c.gpu.work.end(),
                               [](const model::CapturedWork& w) { return !w.resource.empty(); }));
  return d;
}

// The ranks whose GPU waits for work first.
void put_launches(PageData& page, const model::SpeedReport& speed, size_t most) {
  std::vector<const model::RankLaunches*> ranks;
  for (const model::RankLaunches& one : speed.launches) {
    ranks.push_back(&one);
  }
  std::stable_partition(ranks.begin(), ranks.end(), [](const auto* r) { return r->starved; });
  data rows{data::type::list};
  for (size_t i = 0; i < std::min(ranks.size(), most); ++i) {
    const model::RankLaunches& r = *ranks[i];
    data d;
    d.set("culprit", r.starved);
    d.set("rank", std::to_string(r.rank));
    d.set("calls", grouped(r.calls));
    d.set("median", brief_seconds(r.median_s));
    d.set("mean", brief_seconds(r.mean_s));
    d.set("p99", brief_seconds(r.p99_s));
    d.set("note", r.starved ? tr("the GPU waits for the host") : "");
    rows.push_back(d);
  }
  put_list(page, "speed_launches", rows);
  page.set("launches_starve",
           std::any_of(ranks.begin(), ranks.end(), [](const auto* r) { return r->starved; }));
  page.set("many_launches", ranks.size() > 20);
}

void put_captures(PageData& page, const model::SpeedReport& speed) {
  data captures{data::type::list};
  for (auto c = speed.captures.rbegin(); c != speed.captures.rend(); ++c) {
    captures.push_back(capture_data(*c));
  }
  put_list(page, "captures", captures);
}

}  // namespace

void put_speed(PageData& page, const RunReport& report, const PageLimits& limits) {
  const bool any = report.speed && (report.speed->steps > 0 || !report.speed->operations.empty() ||
                                    !report.speed->captures.empty());
  page.set("has_speed", any);
  if (!any) {
    return;
  }
  const model::SpeedReport& speed = *report.speed;
  put_operations(page, speed.operations, limits.rows);
  put_captures(page, speed);
  put_slowdowns(page, report.run);
  page.set("speed_sentence", capitalized(speed.sentence));
  page.set("has_steps", speed.steps > 0);
  if (speed.steps == 0) {
    page.set("speed_about", "");
    return;
  }
  page.set("speed_about",
           tr("{} steps{}, found by {} (confidence {}). {}", grouped(speed.steps), clock_words(speed),
              speed.source == model::StepSource::mark ? tr("marks") : word_of(speed.source),
              word_of(speed.confidence),
              speed.waits_measured ? tr("Waits were measured at the collectives.")
                                   : tr("Waits were inferred from stages and CPU time.")));
  data pauses{data::type::list};
  for (const model::StagePause& pause : speed.stage_pauses) {
    data one;
    one.set("text", capitalized(pause.sentence));
    pauses.push_back(one);
  }
  put_list(page, "speed_pauses", pauses);
  put_launches(page, speed, limits.rows);
  page.set("step_plot", step_plot(speed, report.run.slowdowns));
  put_text(page, "heat_picture", heat_picture(speed.heat, speed.step_s));
  put_list(page, "heat_levels", levels());
  model::RankSet named;
  data findings{data::type::list};
  for (const model::SpeedFinding& finding : speed.findings) {
    findings.push_back(finding_data(finding));
    named.insert(finding.ranks);
  }
  put_list(page, "speed_findings", findings);
  std::vector<const model::RankSpeed*> ranks;
  for (const model::RankSpeed& rank : speed.ranks) {
    if (rank.steps > 0) {
      ranks.push_back(&rank);
    }
  }
  std::stable_partition(ranks.begin(), ranks.end(),
                        [&named](const auto* r) { return named.contains(r->rank); });
  const std::vector<size_t> stages = shown_stages(ranks);
  put_list(page, "speed_stages", stage_names(stages));
  data rows{data::type::list};
  const size_t shown = std::min(ranks.size(), limits.rows);
  for (size_t i = 0; i < shown; ++i) {
    rows.push_back(rank_data(*ranks[i], named.contains(ranks[i]->rank), stages));
  }
  put_list(page, "speed_ranks", rows);
  const auto any_takes = [&ranks](double model::RankSpeed::*seconds) {
    return std::any_of(ranks.begin(), ranks.end(), [&](const auto* r) { return r->*seconds >= kShownS; });
  };
  page.set("speed_exposed", any_takes(&model::RankSpeed::exposed_s));
  page.set("speed_hidden", any_takes(&model::RankSpeed::hidden_s));
  page.set("speed_cpu", any_takes(&model::RankSpeed::cpu_s));
  page.set("speed_no_cpu", any_takes(&model::RankSpeed::run_delay_s));
  page.set("speed_throttled", any_takes(&model::RankSpeed::throttled_s));
  page.set("speed_stolen", any_takes(&model::RankSpeed::stolen_s));
  page.set("speed_hosts", std::any_of(ranks.begin(), ranks.end(),
                                      [&](const auto* r) { return r->host != ranks.front()->host; }));
  page.set("many_speed_ranks", shown > 20);
  put_text(page, "speed_cut",
           shown < ranks.size() ? tr("{} more ranks are in report.json.", ranks.size() - shown) : "");
}

}  // namespace xpurun::report
