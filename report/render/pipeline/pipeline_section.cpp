#include "report/render/pipeline/pipeline_section.h"

#include "common/base/tr.h"
#include "common/model/names.h"
#include "report/pipeline/view/wording.h"

#include <kainjow/mustache.hpp>

#include <algorithm>

namespace xpurun::report {

using kainjow::mustache::data;

namespace {

constexpr size_t kShownSteps = 100;

data pipeline_data(const model::Pipeline& pipeline, const std::string& svg, const PageLimits& limits) {
  data d;
  put_text(d, "name", pipeline.name);
  d.set("label", pipeline.name.empty() ? base::tr("Jobs of the stages over time")
                                       : base::tr("Jobs of the stages over time, {}", pipeline.name));
  put_text(d, "sentence", pipeline.name.empty() ? "" : capitalized(pipeline.sentence));
  put_text(d, "svg", svg);
  data tables{data::type::list};
  for (const TextTable& table : {stage_table(pipeline, limits.rows), step_table(pipeline, kShownSteps)}) {
    data one = table_data(table);
    one.set("title", capitalized(table.title));
    tables.push_back(one);
  }
  put_list(d, "tables", tables);
  return d;
}

}  // namespace

void put_pipeline(PageData& page, const RunReport& report, const PageLimits& limits) {
  page.set("has_pipeline", report.pipeline.has_value());
  if (!report.pipeline) {
    return;
  }
  page.set("pipeline_sentence", capitalized(report.pipeline->sentence));
  data kinds{data::type::list};
  for (const std::string_view kind : model::kNames<model::JobKind>) {
    data one;
    one.set("kind", std::string(kind));
    one.set("word", base::tr(kind));
    kinds.push_back(one);
  }
  page.set("pipeline_kinds", kinds);
  put_list(page, "pipeline_notes", string_list(report.pipeline->notes));
  data pipelines{data::type::list};
  for (size_t i = 0; i < report.pipeline_svgs.size(); ++i) {
    pipelines.push_back(pipeline_data(report.pipeline->pipelines[i], report.pipeline_svgs[i], limits));
  }
  page.set("pipelines", pipelines);
  const size_t shown = report.pipeline_svgs.size();
  const size_t all = report.pipeline->pipelines.size();
  put_text(page, "pipelines_cut",
           shown < all ? base::tr("{} more pipelines are in report.json.", all - shown) : "");
}

}  // namespace xpurun::report
