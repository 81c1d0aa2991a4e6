#include "report/render/html.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/language/vocabulary_words.h"
#include "report/diagnosis/title.h"
#include "report/diagnosis/wording.h"
#include "report/flamegraph/escape.h"
#include "report/flamegraph/svg.h"
#include "report/render/json.h"
#include "report/render/machine/machine_section.h"
#include "report/render/markdown.h"
#include "report/render/opening.h"
#include "report/render/parts/embed.h"
#include "report/render/parts/page_parts.h"
#include "report/render/parts/rank_parts.h"
#include "report/render/parts/text.h"
#include "report/render/pipeline/pipeline_section.h"
#include "report/render/run_times.h"
#include "report/render/speed/memory_section.h"
#include "report/render/speed/speed_section.h"
#include "report/render/stack_data.h"
#include "report/run/collect.h"
#include "templates/templates.h"

#include <fmt/format.h>
#include <kainjow/mustache.hpp>

#include <algorithm>

namespace xpurun::report {

using base::tr;
using model::word_of;

namespace {

using kainjow::mustache::data;
using kainjow::mustache::mustache;
using model::VerdictKind;

std::string kind_word(const RunReport& report) {
  if (report.subject == Subject::stacks) {
    return tr("Stacks");
  }
  const model::Verdict& v = report.verdict;
  return v.kind == VerdictKind::none ? tr("Finished") : capitalized(tr(heading_word(v)));
}

// Its culprit may be healthy. That a job was slow has been measured, and no slow job is broken: its level
// says nothing to a reader.
bool doubtful(const model::Verdict& v) {
  return v.level == model::VerdictLevel::suspected && v.kind != VerdictKind::slow;
}

// Shape as well as colour: no information is in the colour alone.
std::string kind_icon(const RunReport& report) {
  if (report.subject == Subject::stacks) {
    return "≡";
  }
  const model::Verdict& v = report.verdict;
  if (v.kind == VerdictKind::none) {
    return "✓";
  }
  if (v.kind == VerdictKind::running) {
    return "…";
  }
  return doubtful(v) ? "?" : "!";
}

// The kind stands beside it. A run directory of an older version has the sentence only.
std::string headline(const model::Verdict& v) {
  const std::string title = v.title.empty() ? title_of(v) : v.title;
  return title.empty() ? tr("No verdict.") : capitalized(title);
}

// What the headline leaves out; empty if it is the whole sentence.
std::string detail(const model::Verdict& v) {
  return v.headline.empty() || capitalized(v.headline) == headline(v) ? "" : capitalized(v.headline);
}

void put_headline(data& page, const model::Verdict& v) {
  const std::string text = headline(v);
  const std::string code = place_in_title(v, text);
  const size_t at = code.empty() ? text.size() : text.find(code);
  page.set("headline", text);
  page.set("headline_before", text.substr(0, at));
  put_text(page, "headline_code", code);
  page.set("headline_after", text.substr(std::min(text.size(), at + code.size())));
}

data environment(const model::RunManifest& run) {
  data out{data::type::list};
  const auto put = [&out](const std::string& key, const std::string& value) {
    if (!value.empty()) {
      out.push_back(pair_data(key, value));
    }
  };
  put(tr("Host"), run.host);
  put(tr("Working directory"), run.cwd);
  put(tr("Started"), run.started_wall_ns > 0 ? base::utc_iso8601(run.started_wall_ns) + " (UTC)" : "");
  put(tr("Elapsed"), base::human_duration(run.elapsed_s));
  put(tr("Outcome"), word_of(run.outcome));
  put(tr("Command"), run.child_status.known() ? run.child_status.text() : "");
  put(tr("xpurun's exit status"), run.exit_status >= 0 ? fmt::format("{}", run.exit_status) : "");
  put(tr("Ranks"), run.world_size > 0 ? fmt::format("{}", run.world_size) : "");
  put(tr("Hang timeout"), run.hang_timeout_s > 0 ? base::human_duration(run.hang_timeout_s) : tr("off"));
  put(tr("Preload library"), run.preload_reason.empty() ? run.preload_path : run.preload_reason);
  return out;
}

data trees(const RunReport& report, const PageLimits& limits) {
  data out{data::type::list};
  for (const RoleTree* role : report.forest.roles()) {
    const FrameTree& tree = role->tree(Layer::merged);
    if (tree.empty()) {
      continue;
    }
    data d;
    d.set("role", tr("{}: {}", word_of(role->process), role->thread));
    d.set("text", tree_text(tree, report.forest.frames(), limits.tree_lines));
    out.push_back(d);
  }
  return out;
}

void put_stacks(data& page, const RunReport& report, const PageLimits& limits) {
  const Layout layout = lay_out(report.forest, Layer::merged, {.max_boxes = limits.boxes});
  const Palette palette(layout, report.forest.ranks(), report.verdict.ranks);
  data legend{data::type::list};
  for (const LegendEntry& e : palette.legend()) {
    data d;
    d.set("css", e.css);
    d.set("text", e.text);
    legend.push_back(d);
  }
  put_list(page, "legend", legend);
  const bool any = !layout.panels.empty();
  page.set("has_stacks", any);
  page.set("stacks_of_ranks", !report.forest.ranks().empty());
  page.set("svg",
           any ? svg_fragment(layout, palette, {.layer = Layer::merged, .title = tr("Merged stacks")}) : "");
  put_text(page, "folded",
           layout.folded > 0 ? tr("{} frames are folded into “(other)” in this picture; the "
                                  "text below and the files have them.",
                                  layout.folded)
                             : "");
  put_list(page, "trees", trees(report, limits));
  page.set("patterns", std::string(svg_patterns()));
  std::vector<DumpedStacks> moments;
  if (any) {
    moments.push_back({.name = report.dump, .forest = &report.forest});
    for (const OtherDump& other : report.others) {
      moments.push_back({.name = other.dir, .forest = &other.forest});
    }
  }
  const StackData stacks = stack_data(moments, report.verdict.ranks, limits.nodes);
  page.set("stack_data", any ? data_block(kStackDataId, stacks.json, Packing::always) : "");
  put_text(page, "left_out",
           stacks.left_out > 0
               ? tr("The stacks of {} threads did not fit into this page; stacks/merged.folded has them all.",
                    stacks.left_out)
               : "");
}

void put_timeline(data& page, const CallsPicture& picture, const PageLimits& limits) {
  const bool any = !picture.about.empty() && limits.picture;
  page.set("has_timeline", any);
  page.set("timeline_about", picture.about);
  page.set("timeline_svg", picture.svg);
  page.set("timeline_data", any ? data_block(kTimelineDataId, picture.json, Packing::always) : "");
  data kinds{data::type::list};
  for (const auto& [kind, word] : picture.kinds) {
    data d;
    d.set("kind", kind);
    d.set("word", word);
    kinds.push_back(d);
  }
  page.set("timeline_kinds", kinds);
  page.set("timeline_open", picture.svg.find("\"tl-open\"") != std::string::npos);
}

void put_verdict(data& page, const RunReport& report) {
  const model::Verdict& v = report.verdict;
  page.set("kind", kind_word(report));
  page.set("is_run", report.subject == Subject::run);
  page.set("tone", report.subject == Subject::stacks ? std::string("running")
                   : v.kind == VerdictKind::none || v.kind == VerdictKind::running
                       ? std::string(name_of(v.kind))
                   : v.level == model::VerdictLevel::suspected ? "suspected"
                                                               : "bad");
  page.set("lang", base::spoken() == base::Language::chinese ? "zh-CN" : "en");
  page.set("icon", kind_icon(report));
  put_headline(page, v);
  put_text(page, "detail", report.subject == Subject::run ? detail(v) : "");
  put_text(page, "since", v.since);
  page.set("since_word",
           v.slow.until_step > 0 ? tr("Slow from")
           : v.kind == VerdictKind::hang || v.kind == VerdictKind::slow || v.kind == VerdictKind::interrupted
               ? tr("Since")
               : tr("At"));
  put_text(page, "waiting_brief",
           v.waiting.empty() ? "" : capitalized(waiting_clause(v.waiting, v.ranks.size())));
  page.set("sentence", v.sentence);
  // How sure the verdict is, once: the confidence is that in the culprits, and says little where they may
  // work.
  page.set("doubtful", doubtful(v));
  page.set("confidence", word_of(v.confidence));
  page.set("has_confidence", v.confidence != model::Confidence::none && !doubtful(v));
  put_text(page, "verdict_id", v.id);
  page.set("is_running", report.run.outcome == model::RunOutcome::running);
  page.set("elapsed", base::human_duration(report.run.elapsed_s));
}

void put_environment(data& page, const RunReport& report) {
  const model::RunManifest& run = report.run;
  std::vector<std::string> words;
  for (const std::string& word : run.command) {
    words.push_back(base::shell_quote(word));
  }
  put_text(page, "command", base::join(words, " "));
  put_text(page, "host", run.host);
  page.set("id", run.id);
  page.set("version", run.version);
  put_text(page, "started", run.started_wall_ns > 0 ? base::utc_iso8601(run.started_wall_ns) : "");
  put_list(page, "facts", environment(run));
  data env{data::type::list};
  for (const auto& [key, value] : run.env) {
    env.push_back(pair_data(key, value));
  }
  put_list(page, "env", env);
  put_text(page, "other_variables", base::join(run.env_names, ", "));
}

// At most seven entries. What stands on the first screen goes first, then what a failure is seldom about.
void put_navigation(data& page) {
  constexpr size_t kMostEntries = 7;
  const auto has = [&page](const std::string& flag) {
    const data* value = page.get(flag);
    return value != nullptr && value->is_true();
  };
  size_t entries = has("has_run_times") || has("has_timeline") ? 1 : 0;
  for (const char* flag : {"has_tracebacks", "has_calls", "has_speed", "machine_tells", "has_ranks",
                           "has_stacks", "has_waiting", "has_source", "has_memory"}) {
    entries += has(flag) ? 1 : 0;
  }
  for (const char* name : {"waiting", "source", "memory"}) {
    const bool wanted = has(fmt::format("has_{}", name));
    const bool shown = wanted && entries <= kMostEntries;
    entries -= wanted && !shown ? 1 : 0;
    page.set(fmt::format("nav_{}", name), shown);
  }
}

std::string render(const RunReport& report, const std::string& json, const PageLimits& limits,
                   const std::string& folded_note) {
  data page;
  put_verdict(page, report);
  put_opening(page, report);
  put_times(page, report);
  put_ranks(page, report, limits);
  put_gpus(page, report);
  put_tables(page, report, limits);
  put_speed(page, report, limits);
  put_pipeline(page, report, limits);
  put_memory(page, report, limits);
  put_machine(page, report, limits);
  put_stacks(page, report, limits);
  put_timeline(page, report.picture, limits);
  put_environment(page, report);
  put_navigation(page);
  put_text(page, "dump", report.dump);
  put_text(page, "folded_note", folded_note);
  put_text(page, "markdown", report.subject == Subject::run ? markdown_text(json).value_or("") : "");
  page.set("css", std::string(templates::kFlamegraphCss) + std::string(templates::kReportCss) +
                      (report.picture.about.empty() ? "" : std::string(templates::kTimelineCss)));
  std::vector<templates::Script> scripts = {templates::kWordsJs,         templates::kReportJs,
                                            templates::kStackmodelJs,    templates::kStacktablesJs,
                                            templates::kFunctiontableJs, templates::kStackviewJs,
                                            templates::kRanktableJs};
  if (!report.picture.about.empty()) {
    scripts.push_back(templates::kTimelineJs);
  }
  put_scripts(page, scripts);
  page.set("report_data",
           report.subject == Subject::run ? data_block(kReportDataId, json, Packing::automatic) : "");
  mustache page_template{base::tr_template(templates::kReportMustache)};
  page_template.set_custom_escape([](const std::string& text) { return escape_attribute(text); });
  return page_template.render(page);
}

PageLimits halved(PageLimits limits) {
  for (size_t* limit :
       {&limits.rows, &limits.classes, &limits.frames, &limits.tree_lines, &limits.boxes, &limits.nodes}) {
    *limit = std::max<size_t>(*limit / 2, 1);
  }
  limits.picture = false;
  return limits;
}

}  // namespace

std::string report_html(const RunReport& report, size_t max_bytes) {
  const std::string json = report_json(report, JsonLayout::one_line);
  PageLimits limits;
  std::string page = render(report, json, limits, "");
  constexpr int kMostRounds = 10;
  for (int round = 0; page.size() > max_bytes && round < kMostRounds; ++round) {
    limits = halved(limits);
    // Without its data the page can still be read by people; report.json lies beside it.
    const bool keep_data = round < kMostRounds / 2;
    page = render(report, keep_data ? json : std::string("{}"), limits,
                  tr("To keep this page below {} MB it holds at most {} ranks, {} groups, {} frames of each "
                     "and {} lines of each text{}. report.json and stacks/ have everything.",
                     max_bytes >> 20, limits.rows, limits.classes, limits.frames, limits.tree_lines,
                     keep_data ? "" : tr(", and not the data of report.json")));
  }
  return page;
}

}  // namespace xpurun::report
