#include "report/render/parts/page_parts.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/frame_text.h"
#include "common/model/language/vocabulary_words.h"
#include "report/flamegraph/palette.h"
#include "report/render/parts/embed.h"
#include "report/render/parts/text.h"
#include "report/run/collect.h"
#include "report/run/findings.h"
#include "report/tree/roles.h"

#include <fmt/format.h>
#include <kainjow/mustache.hpp>

#include <algorithm>

namespace xpurun::report {

using base::tr;
using kainjow::mustache::data;
using model::word_of;

namespace {

// Of dumps of more processes than this only the incomplete ones are listed.
constexpr size_t kListAll = 64;
// Names of C++ templates can be longer than a page.
constexpr size_t kLongestName = 240;
constexpr size_t kLongestTitle = 26;

// "29, 68, 107, …": a browser breaks lines at spaces only.
std::string spaced(const std::string& ranks) {
  std::string out;
  for (char c : ranks.substr(ranks.find(' ') + 1)) {
    out += c;
    out += c == ',' ? " " : "";
  }
  return out;
}

std::string more(size_t all, size_t shown, std::string_view what) {
  return all > shown ? tr("{} more {} are in report.json.", all - shown, what) : std::string();
}

data cell(const std::string& text, bool number) {
  data d;
  d.set("text", text);
  d.set("number", number);
  return d;
}

data frame_data(const StackClass& c, size_t i) {
  const model::Frame& f = c.frames[i];
  data d;
  const auto source = c.source.find(static_cast<std::ptrdiff_t>(i));
  d.set("has_source", source != c.source.end());
  d.set("source", source == c.source.end() ? "" : source->second);
  d.set("func", base::elide_middle(f.kind == model::FrameKind::python ? f.func : model::frame_label(f),
                                   kLongestName));
  d.set("place", f.kind == model::FrameKind::python ? model::short_location(f) : "");
  put_text(d, "file", base::elide_middle(f.file, kLongestName));
  d.set("kind", std::string(model::name_of(f.kind)));
  d.set("user", is_user_code(f));
  return d;
}

data short_stack(const StackClass& c) {
  data out{data::type::list};
  const std::vector<size_t> chosen = shown_frames(c.frames, kShownFrames);
  for (size_t i : chosen) {
    out.push_back(frame_data(c, i));
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

data class_data(const StackClass& c, const RunReport& report, const PageLimits& limits) {
  const model::Verdict& v = report.verdict;
  const size_t all = report.forest.ranks().size();
  data d;
  const bool culprit = !v.ranks.empty() && v.ranks.contains(c.ranks);
  const model::Waiting* waiting = culprit ? nullptr : waiting_of(v, c);
  // A long list of ranks is not a title.
  const std::string who = class_title(c);
  const bool listed = who.size() <= kLongestTitle;
  d.set("title", listed ? who : tr("{} ranks", c.ranks.size()));
  put_text(d, "rank_list", listed ? std::string() : spaced(ranks_text(c.ranks)));
  d.set("share", listed ? tr("{} of {}", c.ranks.size(), all) : tr("of {}", all));
  d.set("culprit", culprit);
  d.set("tag", culprit
                   ? (v.state == model::RankState::none ? tr("culprit") : tr("culprit: {}", word_of(v.state)))
                   : (waiting != nullptr
                          ? tr("waits in {}", waiting->what.empty() ? tr("a wait") : tr(waiting->what))
                          : std::string()));
  d.set("has_tag", culprit || waiting != nullptr);
  d.set("missing", tr(c.missing));
  d.set("is_missing", !c.missing.empty());
  put_text(d, "states", c.states.text());
  const std::string callee = callee_of(c);
  d.set("callee", callee);
  d.set("has_callee", !callee.empty());
  d.set("who", fmt::format("{}{}pid {}{}", c.host.empty() ? "" : tr("host {}", c.host),
                           c.host.empty() ? "" : tr(", "), c.pid,
                           c.ranks.size() > 1 ? tr(", shown for rank {}", c.representative) : ""));
  put_list(d, "short", short_stack(c));
  data frames{data::type::list};
  for (size_t i = 0; i < std::min(c.frames.size(), limits.frames); ++i) {
    frames.push_back(frame_data(c, i));
  }
  put_list(d, "frames", frames);
  d.set("count", fmt::format("{}", c.frames.size()));
  return d;
}

data node_data(const NodeRow& n) {
  data d;
  d.set("name", n.name);
  d.set("host", n.host);
  d.set("culprit", n.culprit);
  d.set("ranks", spaced(n.ranks.text()));
  d.set("states", n.states);
  d.set("good", n.status == model::NodeStatus::complete);
  d.set("status", n.gap.empty() ? word_of(n.status) : n.gap);
  d.set("clock", n.clock);
  return d;
}

void put_nodes(data& page, const RunReport& report, const PageLimits& limits) {
  data nodes{data::type::list};
  for (size_t i = 0; i < std::min(report.nodes.size(), limits.rows); ++i) {
    nodes.push_back(node_data(report.nodes[i]));
  }
  put_list(page, "nodes", nodes);
  page.set("node_count", tr("{} nodes", report.nodes.size()));
  page.set("many_nodes", report.nodes.size() > 20);
  put_text(page, "nodes_cut", more(report.nodes.size(), limits.rows, tr("nodes")));
}

data process_data(const ProcessLine& p) {
  data d;
  d.set("who", p.role == model::ProcessRole::rank
                   ? tr("rank {}", p.rank)
                   : (p.rank >= 0 ? tr("{} of rank {}", word_of(p.role), p.rank) : word_of(p.role)));
  d.set("pid", fmt::format("{}", p.pid));
  put_text(d, "host", p.host);
  d.set("status", word_of(p.status));
  d.set("good", p.status == model::DumpStatus::ok);
  d.set("reason", tr(p.reason));
  d.set("pause", p.pause_ns > 0 ? fmt::format("{:.2f} ms", static_cast<double>(p.pause_ns) * 1e-6) : "");
  d.set("threads", p.threads > 0 ? fmt::format("{}", p.threads) : "");
  return d;
}

data dump_data(const DumpSummary& dump, const RunReport& report, const PageLimits& limits) {
  data d;
  d.set("dir", dump.dir);
  d.set("shown", dump.dir == report.dump);
  d.set("about", "");
  if (dump.manifest) {
    d.set("about", tr("{} at {}, all within {:.1f} ms", word_of(dump.manifest->why),
                      base::human_duration(dump.manifest->at_s),
                      static_cast<double>(dump.manifest->spread_ns) * 1e-6));
  }
  const auto bad = static_cast<size_t>(
      std::count_if(dump.processes.begin(), dump.processes.end(),
                    [](const ProcessLine& p) { return p.status != model::DumpStatus::ok; }));
  d.set("tally", bad == 0 && dump.processes.size() == 1 ? tr("1 process, complete")
                 : bad == 0 ? tr("{} processes, all complete", dump.processes.size())
                            : tr("{} processes, {} incomplete", dump.processes.size(), bad));
  data processes{data::type::list};
  const bool all = dump.processes.size() <= kListAll;
  size_t listed = 0;
  for (const ProcessLine& p : dump.processes) {
    if (listed < limits.rows && (all || p.status != model::DumpStatus::ok)) {
      processes.push_back(process_data(p));
      ++listed;
    }
  }
  put_list(d, "processes", processes);
  put_text(d, "unlisted",
           more(dump.processes.size(), listed, bad > listed ? tr("processes") : tr("complete processes")));
  return d;
}

data finding_data(const Finding& f) {
  struct Look {
    const char* icon;
    std::string word;
  };
  const Look look = f.severity == Severity::error     ? Look{"!", tr("Error")}
                    : f.severity == Severity::warning ? Look{"▲", tr("Warning")}
                    : f.severity == Severity::good    ? Look{"✓", tr("Good")}
                                                      : Look{"i", tr("Note")};
  data d;
  d.set("severity", std::string(model::name_of(f.severity)));
  d.set("icon", look.icon);
  d.set("word", look.word);
  d.set("id", f.id);
  d.set("title", f.title);
  put_list(d, "evidence", string_list(f.evidence));
  d.set("next", f.next);
  d.set("has_next", !f.next.empty() || !f.command.empty());
  d.set("next_command", f.command);
  d.set("has_command", !f.command.empty());
  return d;
}

data called_data(const CallRow& row) {
  data d;
  d.set("ranks", spaced(row.ranks.text()));
  d.set("culprit", row.culprit);
  d.set("call", row.call);
  d.set("where", row.where);
  d.set("number", row.number);
  d.set("group", row.group);
  d.set("stage", row.stage);
  return d;
}

void put_calls(data& page, const RunReport& report, const PageLimits& limits) {
  data calls{data::type::list};
  for (size_t i = 0; i < std::min(report.calls.size(), limits.rows); ++i) {
    calls.push_back(called_data(report.calls[i]));
  }
  put_list(page, "calls", calls);
  page.set("calls_about", report.calls_about);
}

// Without a value, or with "0.0" in all rows. "0" may be a rank.
bool is_empty(const TextTable& table, size_t column) {
  return std::all_of(table.rows.begin(), table.rows.end(), [&](const std::vector<std::string>& row) {
    const std::string& text = row[column];
    return text.empty() || (text.starts_with("0.") && text.find_first_not_of("0.") == std::string::npos);
  });
}

}  // namespace

PageData table_data(const TextTable& table) {
  data d;
  d.set("title", tr(table.title));
  d.set("about", table.about);
  d.set("tall", table.rows.size() > 20);
  data columns{data::type::list};
  std::vector<size_t> shown;  // the first always
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (i == 0 || !is_empty(table, i)) {
      columns.push_back(cell(tr(table.columns[i].name), table.columns[i].number));
      shown.push_back(i);
    }
  }
  data rows{data::type::list};
  for (const std::vector<std::string>& row : table.rows) {
    data cells{data::type::list};
    for (const size_t i : shown) {
      if (i > 0) {
        cells.push_back(cell(row[i], table.columns[i].number));
      }
    }
    data one;
    one.set("first", row.front());
    one.set("cells", cells);
    rows.push_back(one);
  }
  d.set("columns", columns);
  d.set("rows", rows);
  put_text(d, "cut",
           table.rows.size() < table.all_rows
               ? tr("{} more rows are in report.json.", table.all_rows - table.rows.size())
               : "");
  return d;
}

std::string spaced_ranks(const model::RankSet& ranks) {
  return spaced(ranks.text());
}

void put_list(data& to, const std::string& name, const data& list) {
  to.set("has_" + name, list.is_non_empty_list());
  to.set(name, list);
}

std::string capitalized(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') {
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  }
  return text;
}

data string_list(const std::vector<std::string>& lines) {
  data out{data::type::list};
  for (const std::string& line : lines) {
    out.push_back(line);
  }
  return out;
}

void put_scripts(PageData& page, const std::vector<templates::Script>& scripts) {
  const PageScripts made = page_scripts(scripts);
  page.set("scripts", made.elements);
  page.set("script_sources", made.sources);
}

data pair_data(const std::string& key, const std::string& value) {
  data d;
  d.set("key", key);
  d.set("value", value);
  return d;
}

void put_text(data& to, const std::string& name, const std::string& text) {
  to.set(name, text.empty() ? data(false) : data(text));
}

void put_tables(data& page, const RunReport& report, const PageLimits& limits) {
  put_calls(page, report, limits);
  put_nodes(page, report, limits);
  data findings{data::type::list};
  // The first one of a run is the verdict, with which the page opens.
  for (size_t i = report.subject == Subject::run ? 1 : 0; i < report.findings.size(); ++i) {
    findings.push_back(finding_data(report.findings[i]));
  }
  put_list(page, "findings", findings);
  page.set("shows_findings", report.subject == Subject::run || findings.is_non_empty_list());
  data classes{data::type::list};
  for (size_t i = 0; i < std::min(report.classes.size(), limits.classes); ++i) {
    classes.push_back(class_data(report.classes[i], report, limits));
  }
  put_list(page, "classes", classes);
  put_text(page, "classes_cut", more(report.classes.size(), limits.classes, tr("groups")));
  data dumps{data::type::list};
  for (const DumpSummary& d : report.dumps) {
    dumps.push_back(dump_data(d, report, limits));
  }
  put_list(page, "dumps", dumps);
}

}  // namespace xpurun::report
