#include "report/render/html.h"

#include "common/base/strings.h"
#include "common/model/frame_text.h"
#include "report/flamegraph/svg.h"
#include "report/render/escape.h"
#include "report/render/json.h"
#include "report/render/text.h"
#include "report/tree/roles.h"
#include "templates/templates.h"

#include <fmt/format.h>
#include <kainjow/mustache.hpp>

#include <algorithm>

namespace xpurun::report {

namespace {

using kainjow::mustache::data;
using kainjow::mustache::mustache;

// A table longer than this is cut, with a line that says so; report.json has every rank.
constexpr size_t kMaxRows = 2000;
constexpr size_t kMaxClasses = 60;
constexpr size_t kTellingFrames = 3;

// A list, and "has_<name>" beside it, because an empty list cannot hide its heading.
void put_list(data& to, const std::string& name, const data& list) {
  to.set("has_" + name, list.is_non_empty_list());
  to.set(name, list);
}

std::string kind_word(const model::Verdict& v) {
  const std::string_view kinds[][2] = {{"hang", "Hang"},
                                       {"crash", "Crash"},
                                       {"exception", "Exception"},
                                       {"exit", "Exit"},
                                       {"interrupted", "Interrupted"},
                                       {"running", "Running"}};
  for (const auto& [kind, word] : kinds) {
    if (v.kind == kind) {
      return std::string(word);
    }
  }
  return "Finished";
}

// Shape as well as colour: nothing is told by colour alone.
std::string kind_icon(const model::Verdict& v) {
  if (v.kind == "none") {
    return "✓";
  }
  if (v.kind == "running") {
    return "…";
  }
  return v.level == "suspected" ? "?" : "!";
}

// "hang: rank 2 ..." without the kind, which stands beside it.
std::string headline(const model::Verdict& v) {
  std::string text = v.sentence.empty() ? "No verdict." : v.sentence;
  if (text.starts_with(v.kind + ": ")) {
    text = text.substr(v.kind.size() + 2);
  }
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') {
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  }
  return text;
}

data frame_data(const model::Frame& f) {
  data d;
  d.set("func", f.kind == model::FrameKind::python ? f.func : model::frame_label(f));
  d.set("place", f.kind == model::FrameKind::python ? model::short_location(f) : "");
  d.set("file", f.file);
  d.set("kind", std::string(model::name_of(f.kind)));
  d.set("user", is_user_code(f));
  return d;
}

// The telling frames with a line "… n frames" for each gap between them.
data short_stack(const StackClass& c) {
  data out{data::type::list};
  const std::vector<size_t> chosen = telling_frames(c.frames, kTellingFrames);
  for (size_t i : chosen) {
    out.push_back(frame_data(c.frames[i]));
  }
  return out;
}

std::string callee_of(const StackClass& c) {
  for (const model::Frame& f : c.frames) {
    if (f.kind == model::FrameKind::python) {
      return f.callee;
    }
  }
  return {};
}

const model::Waiting* waiting_of(const model::Verdict& v, const StackClass& c) {
  for (const model::Waiting& w : v.waiting) {
    if (w.ranks.contains(c.ranks)) {
      return &w;
    }
  }
  return nullptr;
}

data class_data(const StackClass& c, const RunReport& report) {
  const model::Verdict& v = report.verdict;
  const size_t all = report.forest.ranks().size();
  data d;
  const bool culprit = !v.ranks.empty() && v.ranks.contains(c.ranks);
  const model::Waiting* waiting = culprit ? nullptr : waiting_of(v, c);
  d.set("title", class_title(c));
  d.set("share", fmt::format("{} of {}", c.ranks.size(), all));
  d.set("culprit", culprit);
  d.set("tag", culprit ? (v.state.empty() ? std::string("culprit") : fmt::format("culprit: {}", v.state))
                       : (waiting != nullptr
                              ? fmt::format("waits in {}", waiting->what.empty() ? "a wait" : waiting->what)
                              : std::string()));
  d.set("has_tag", culprit || waiting != nullptr);
  d.set("missing", c.missing);
  d.set("is_missing", !c.missing.empty());
  d.set("states", c.states.text());
  const std::string callee = callee_of(c);
  d.set("callee", callee);
  d.set("has_callee", !callee.empty());
  d.set("who",
        fmt::format("{}{}pid {}{}", c.host.empty() ? "" : "host " + c.host, c.host.empty() ? "" : ", ", c.pid,
                    c.ranks.size() > 1 ? fmt::format(", shown for rank {}", c.representative) : ""));
  put_list(d, "short", short_stack(c));
  data frames{data::type::list};
  for (const model::Frame& f : c.frames) {
    frames.push_back(frame_data(f));
  }
  put_list(d, "frames", frames);
  d.set("count", fmt::format("{}", c.frames.size()));
  return d;
}

data rank_data(const RankRow& r) {
  data d;
  d.set("rank", fmt::format("{}", r.rank));
  d.set("culprit", r.culprit);
  d.set("state", r.state);
  d.set("function", r.function);
  d.set("place", r.place);
  d.set("progress", r.progress);
  d.set("ending", r.ending);
  d.set("host", r.host);
  d.set("pid", r.pid == 0 ? "" : fmt::format("{}", r.pid));
  return d;
}

data process_data(const ProcessLine& p) {
  data d;
  d.set("who", p.role == "rank" ? fmt::format("rank {}", p.rank)
                                : (p.rank >= 0 ? fmt::format("{} of rank {}", p.role, p.rank) : p.role));
  d.set("pid", fmt::format("{}", p.pid));
  d.set("host", p.host);
  d.set("status", p.status);
  d.set("good", p.status == "ok");
  d.set("reason", p.reason);
  d.set("pause", p.pause_ns > 0 ? fmt::format("{:.2f} ms", static_cast<double>(p.pause_ns) * 1e-6) : "");
  d.set("threads", p.threads > 0 ? fmt::format("{}", p.threads) : "");
  return d;
}

data dump_data(const DumpSummary& dump, const RunReport& report) {
  data d;
  d.set("dir", dump.dir);
  d.set("shown", dump.dir == report.dump);
  d.set("about", "");
  if (dump.manifest) {
    d.set("about", fmt::format("{} at {}, all within {:.1f} ms", dump.manifest->why,
                               base::human_duration(dump.manifest->at_s),
                               static_cast<double>(dump.manifest->spread_ns) * 1e-6));
  }
  const auto bad = static_cast<size_t>(std::count_if(dump.processes.begin(), dump.processes.end(),
                                                     [](const ProcessLine& p) { return p.status != "ok"; }));
  d.set("tally", bad == 0 ? fmt::format("{} processes, all complete", dump.processes.size())
                          : fmt::format("{} processes, {} incomplete", dump.processes.size(), bad));
  data processes{data::type::list};
  for (size_t i = 0; i < std::min(dump.processes.size(), kMaxRows); ++i) {
    processes.push_back(process_data(dump.processes[i]));
  }
  put_list(d, "processes", processes);
  return d;
}

data incident_data(const model::Incident& i) {
  data d;
  d.set("n", fmt::format("{}", i.n));
  d.set("at", base::human_duration(i.at_s));
  d.set("cleared",
        i.cleared_s < 0 ? "not cleared" : fmt::format("cleared at {}", base::human_duration(i.cleared_s)));
  d.set("sentence", i.verdict.sentence);
  d.set("dump", i.dump);
  return d;
}

data string_list(const std::vector<std::string>& lines) {
  data out{data::type::list};
  for (const std::string& line : lines) {
    out.push_back(line);
  }
  return out;
}

data pair_data(const std::string& key, const std::string& value) {
  data d;
  d.set("key", key);
  d.set("value", value);
  return d;
}

data environment(const model::RunManifest& run) {
  data out{data::type::list};
  const auto put = [&out](const std::string& key, const std::string& value) {
    if (!value.empty()) {
      out.push_back(pair_data(key, value));
    }
  };
  put("Host", run.host);
  put("Working directory", run.cwd);
  put("Started", run.started_wall_ns > 0 ? base::utc_iso8601(run.started_wall_ns) + " (UTC)" : "");
  put("Elapsed", base::human_duration(run.elapsed_s));
  put("Outcome", run.outcome);
  put("Command", run.child_status >= 0 ? ending_text(run.child_status) : "");
  put("xpurun's exit status", run.exit_status >= 0 ? fmt::format("{}", run.exit_status) : "");
  put("Ranks", run.world_size > 0 ? fmt::format("{}", run.world_size) : "");
  put("Hang timeout", run.hang_timeout_s > 0 ? base::human_duration(run.hang_timeout_s) : "off");
  put("Preload library", run.preload_reason.empty() ? run.preload_path : run.preload_reason);
  return out;
}

// The three layers as tabs. Merged comes first and is the one on paper.
data pictures(const RunReport& report, const Palette& palette, size_t max_boxes) {
  data out{data::type::list};
  for (Layer layer : kLayers) {
    const Layout layout = lay_out(report.forest, layer, {.max_boxes = max_boxes});
    data d;
    d.set("layer", std::string(name_of(layer)));
    d.set("name", std::string(layer == Layer::merged   ? "Python and native"
                              : layer == Layer::python ? "Python only"
                                                       : "Native only"));
    d.set("first", layer == Layer::merged);
    d.set("svg", svg_fragment(layout, palette, {.layer = layer, .title = "Merged stacks"}));
    d.set("folded",
          layout.folded > 0 ? fmt::format("{} frames are folded into “(other)” here.", layout.folded) : "");
    out.push_back(d);
  }
  return out;
}

data trees(const RunReport& report) {
  data out{data::type::list};
  for (const RoleTree* role : report.forest.roles()) {
    const FrameTree& tree = role->tree(Layer::merged);
    if (tree.empty()) {
      continue;
    }
    data d;
    d.set("role", fmt::format("{}: {}", role->process, role->thread));
    d.set("text", tree_text(tree, report.forest.frames()));
    out.push_back(d);
  }
  return out;
}

void put_stacks(data& page, const RunReport& report, const HtmlOptions& options) {
  const Layout main_layout = lay_out(report.forest, Layer::merged, {.max_boxes = options.max_boxes});
  const Palette palette(main_layout, report.forest.ranks(), report.verdict.ranks);
  data legend{data::type::list};
  for (const LegendEntry& e : palette.legend()) {
    data d;
    d.set("css", e.css);
    d.set("text", e.text);
    legend.push_back(d);
  }
  put_list(page, "legend", legend);
  put_list(
      page, "pictures",
      main_layout.panels.empty() ? data{data::type::list} : pictures(report, palette, options.max_boxes));
  put_list(page, "trees", trees(report));
  page.set("patterns", std::string(svg_patterns()));
}

void put_verdict(data& page, const RunReport& report) {
  const model::Verdict& v = report.verdict;
  page.set("kind", kind_word(v));
  page.set("tone",
           v.kind == "none" || v.kind == "running" ? v.kind : (v.level == "suspected" ? "suspected" : "bad"));
  page.set("icon", kind_icon(v));
  page.set("headline", headline(v));
  page.set("sentence", v.sentence);
  page.set("confidence", v.confidence);
  page.set("has_confidence", !v.confidence.empty());
  page.set("level", v.level);
  page.set("has_level", !v.level.empty());
  page.set("verdict_id", v.id);
  page.set("next", v.next);
  page.set("has_next", !v.next.empty());
  page.set("is_running", report.run.outcome == "running");
  page.set("elapsed", base::human_duration(report.run.elapsed_s));
  put_list(page, "evidence", string_list(v.evidence));
}

void put_tables(data& page, const RunReport& report) {
  data classes{data::type::list};
  for (size_t i = 0; i < std::min(report.classes.size(), kMaxClasses); ++i) {
    classes.push_back(class_data(report.classes[i], report));
  }
  put_list(page, "classes", classes);
  page.set("classes_cut",
           report.classes.size() > kMaxClasses
               ? fmt::format("{} more groups are in report.json.", report.classes.size() - kMaxClasses)
               : "");
  data ranks{data::type::list};
  for (size_t i = 0; i < std::min(report.ranks.size(), kMaxRows); ++i) {
    ranks.push_back(rank_data(report.ranks[i]));
  }
  put_list(page, "ranks", ranks);
  page.set("rank_count", fmt::format("{}", report.ranks.size()));
  page.set("many_ranks", report.ranks.size() > 20);
  page.set("ranks_cut", report.ranks.size() > kMaxRows
                            ? fmt::format("{} more ranks are in report.json.", report.ranks.size() - kMaxRows)
                            : "");
  data dumps{data::type::list};
  for (const DumpSummary& d : report.dumps) {
    dumps.push_back(dump_data(d, report));
  }
  put_list(page, "dumps", dumps);
  data incidents{data::type::list};
  for (const model::Incident& i : report.run.incidents) {
    incidents.push_back(incident_data(i));
  }
  put_list(page, "incidents", incidents);
}

void put_environment(data& page, const RunReport& report) {
  const model::RunManifest& run = report.run;
  std::vector<std::string> words;
  for (const std::string& word : run.command) {
    words.push_back(base::shell_quote(word));
  }
  page.set("command", base::join(words, " "));
  page.set("host", run.host);
  page.set("id", run.id);
  page.set("version", run.version);
  page.set("started", run.started_wall_ns > 0 ? base::utc_iso8601(run.started_wall_ns) : "");
  put_list(page, "facts", environment(run));
  data env{data::type::list};
  for (const auto& [key, value] : run.env) {
    env.push_back(pair_data(key, value));
  }
  put_list(page, "env", env);
  put_list(page, "notes", string_list(report.notes));
}

}  // namespace

std::string report_html(const RunReport& report, const HtmlOptions& options) {
  data page;
  put_verdict(page, report);
  put_tables(page, report);
  put_stacks(page, report, options);
  put_environment(page, report);
  page.set("dump", report.dump);
  page.set("css", std::string(templates::kFlamegraphCss) + std::string(templates::kReportCss));
  page.set("flame_js", std::string(templates::kFlamegraphJs));
  page.set("page_js", std::string(templates::kReportJs));
  page.set("json", escape_script_json(report_json(report, JsonLayout::one_line)));
  mustache page_template{std::string(templates::kReportMustache)};
  page_template.set_custom_escape([](const std::string& text) { return escape_attribute(text); });
  return page_template.render(page);
}

}  // namespace xpurun::report
