#include "report/render/terminal.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/frame_text.h"
#include "common/model/json_fields.h"
#include "common/model/rank_set.h"
#include "report/flamegraph/palette.h"
#include "report/render/json.h"
#include "report/render/json_access.h"
#include "report/run/run_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <tuple>

namespace xpurun::report {

using base::tr;

namespace {

using nlohmann::json;

constexpr size_t kMostGroups = 12;  // of ranks
constexpr size_t kMostNodes = 8;
constexpr size_t kMostClasses = 6;
constexpr size_t kFramesShown = 3;

class Writer {
 public:
  explicit Writer(const TerminalLook& look) : look_(look) {}

  void heading(const std::string& text) { out_ += fmt::format("\n{}\n", paint("1", text)); }
  void line(size_t indent, const std::string& text, std::string_view style = {}, size_t hang = 2) {
    const size_t columns = std::max<size_t>(look_.columns, 40) - indent;
    const std::string wrapped = base::wrap(text, columns, hang);
    for (std::string_view part : base::split(wrapped, '\n')) {
      out_ += std::string(indent, ' ') + paint(style, std::string(part)) + '\n';
    }
  }
  // To be copied: the terminal may break it, we do not.
  void unbroken(size_t indent, const std::string& text) { out_ += std::string(indent, ' ') + text + '\n'; }
  const char* pick(const char* utf8, const char* ascii) const {
    return look_.glyphs == Glyphs::utf8 ? utf8 : ascii;
  }
  std::string take() { return std::move(out_); }

 private:
  std::string paint(std::string_view style, const std::string& text) const {
    return style.empty() || look_.ink == Ink::plain ? text : fmt::format("\x1b[{}m{}\x1b[0m", style, text);
  }

  TerminalLook look_;
  std::string out_;
};

struct SeverityLook {
  const char* icon;
  const char* ascii;
  const char* style;
};

SeverityLook look_of(Severity severity) {
  switch (severity) {
    case Severity::error:
      return {"✗", "x", "1;31"};
    case Severity::warning:
      return {"▲", "!", "1;33"};
    case Severity::good:
      return {"✓", "+", "1;32"};
    case Severity::note:
      break;
  }
  return {"•", "*", "2"};
}

void put_source(Writer& w, const json& report) {
  for (const json& e : list_of(report, "source")) {
    const int64_t marked = number_of(e, "line", 0);
    w.heading(fmt::format("{}:{}", model::source_name(text_of(e, "file")), marked));
    for (const json& l : list_of(e, "lines")) {
      const int64_t number = number_of(l, "number", 0);
      w.unbroken(2, fmt::format("{} {:>4}  {}", number == marked ? ">" : " ", number, text_of(l, "text")));
    }
  }
}

void put_findings(Writer& w, const json& report) {
  if (list_of(report, "findings").empty()) {
    return;
  }
  w.heading(tr("Findings"));
  for (const json& f : list_of(report, "findings")) {
    const Severity severity = model::from_name<Severity>(text_of(f, "severity")).value_or(Severity::note);
    const SeverityLook look = look_of(severity);
    w.line(2,
           tr("{} {}: {} [{}]", w.pick(look.icon, look.ascii), tr(model::name_of(severity)),
              text_of(f, "title"), text_of(f, "id")),
           look.style);
    for (const json& e : list_of(f, "evidence")) {
      if (e.is_string()) {
        w.line(4, "- " + base::sanitize(e.get_ref<const std::string&>()));
      }
    }
    if (const std::string next = text_of(f, "next"); !next.empty()) {
      w.line(4, tr("next: {}", next), "", 6);
    }
    if (const std::string command = text_of(f, "command"); !command.empty()) {
      w.unbroken(4, "$ " + command);
    }
  }
}

std::string place_text(const json& r) {
  const std::string function = text_of(r, "function");
  const std::string place = text_of(r, "place");
  return function.empty() ? place : place.empty() ? function : fmt::format("{} ({})", function, place);
}

// The first ones: with culprits, or without complete data.
void put_nodes(Writer& w, const json& report) {
  const json& nodes = list_of(report, "nodes");
  if (nodes.empty()) {
    return;
  }
  w.heading(tr("Nodes ({})", nodes.size()));
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i == kMostNodes) {
      w.line(2, tr("and {} more nodes", nodes.size() - kMostNodes));
      break;
    }
    const json& n = nodes[i];
    const bool culprit = n.is_object() && n.contains("culprit") && n["culprit"] == json(true);
    const std::string name = text_of(n, "node");
    const std::string host = text_of(n, "host");
    std::string text = fmt::format("{} {}{}", culprit ? w.pick("▶", ">") : " ", name,
                                   host == name || host.empty() ? "" : tr(" (host {})", host));
    const auto ranks = model::RankSet::parse(text_of(n, "ranks"));
    text += ranks && !ranks->empty() ? tr(": ") + ranks_text(*ranks) : "";
    const std::string clock = text_of(n, "clock");
    for (const std::string& part :
         {text_of(n, "states"), text_of(n, "gap"),
          clock.empty() || clock == tr("this node") ? clock : tr("clock {}", clock)}) {
      text += part.empty() ? "" : tr("; ") + part;
    }
    w.line(culprit ? 2 : 4, text, culprit ? "1;31" : "", culprit ? 4 : 2);
  }
}

// Ranks of which the same can be said share a line.
void put_ranks(Writer& w, const json& report) {
  const json& ranks = list_of(report, "ranks");
  if (ranks.empty()) {
    return;
  }
  using Key = std::tuple<bool, std::string, std::string, std::string, std::string>;
  struct Group {
    model::RankSet ranks;
    std::string host;
    bool one_host = true;
    int64_t pid = 0;
  };
  std::map<Key, Group> groups;
  for (const json& r : ranks) {
    const bool culprit = r.is_object() && r.contains("culprit") && r["culprit"] == json(true);
    const int64_t rank = number_of(r, "rank", -1);
    if (rank < 0 || rank > INT32_MAX) {
      continue;
    }
    Group& g =
        groups[{!culprit, text_of(r, "state"), place_text(r), text_of(r, "progress"), text_of(r, "ending")}];
    const std::string host = text_of(r, "host");
    g.one_host = g.one_host && (g.ranks.empty() || g.host == host);
    g.ranks.insert(static_cast<base::Rank>(rank));
    g.host = host;
    g.pid = number_of(r, "pid", 0);
  }
  std::vector<std::pair<Key, Group>> sorted(groups.begin(), groups.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::tuple(std::get<0>(a.first), a.second.ranks.size(), a.second.ranks.lowest()) <
           std::tuple(std::get<0>(b.first), b.second.ranks.size(), b.second.ranks.lowest());
  });
  const bool several = list_of(report, "nodes").size() > 1;
  w.heading(tr("Ranks ({})", ranks.size()));
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i == kMostGroups) {
      w.line(2, tr("and {} more groups of ranks", sorted.size() - kMostGroups));
      break;
    }
    const auto& [key, g] = sorted[i];
    const auto& [innocent, state, where, progress, ending] = key;
    std::string text = fmt::format("{} {}", innocent ? " " : w.pick("▶", ">"), ranks_text(g.ranks));
    text += state.empty() ? "" : tr(": {}", state);
    text += where.empty() ? "" : tr(" in {}", where);
    text += progress.empty() ? "" : tr(", last progress {}", progress);
    text += ending.empty() ? "" : tr(", {}", ending);
    if (g.ranks.size() == 1) {
      text += g.host.empty() ? tr(" [pid {}]", g.pid) : tr(" [{}, pid {}]", g.host, g.pid);
    } else if (several && g.one_host && !g.host.empty()) {
      text += fmt::format(" [{}]", g.host);
    }
    // wrap() drops leading blanks, so the mark of the innocent is put back as indentation.
    w.line(innocent ? 4 : 2, text, innocent ? "" : "1;31", innocent ? 2 : 4);
  }
}

void put_classes(Writer& w, const json& report) {
  const json& classes = list_of(report, "classes");
  if (classes.empty()) {
    return;
  }
  w.heading(tr("Ranks grouped by stack, smallest group first"));
  size_t shown = 0;
  for (const json& c : classes) {
    if (shown++ == kMostClasses) {
      w.line(2, tr("and {} more groups", classes.size() - kMostClasses));
      break;
    }
    const auto ranks = model::RankSet::parse(text_of(c, "ranks"));
    w.line(2, tr("{} ({} of {})", ranks_text(ranks.value_or(model::RankSet())), number_of(c, "count", 0),
                 list_of(report, "ranks").size()));
    if (const std::string missing = text_of(c, "missing"); !missing.empty()) {
      w.line(4, tr("no stacks: {}", tr(missing)));
    }
    size_t left = kFramesShown;
    for (const json& i : list_of(c, "telling")) {
      const json& frames = list_of(c, "frames");
      if (left > 0 && i.is_number_unsigned() && i.get<size_t>() < frames.size()) {
        --left;
        w.line(4, text_of(frames[i.get<size_t>()], "label"));
      }
    }
  }
}

void put_environment(Writer& w, const json& report) {
  const json& environment = object_of(report, "environment");
  std::string command;
  for (const json& word : list_of(environment, "command")) {
    command +=
        word.is_string() ? " " + base::shell_quote(base::sanitize(word.get_ref<const std::string&>())) : "";
  }
  w.heading(tr("Environment"));
  const std::string host = text_of(environment, "host");
  w.line(2, tr("run {}{}, xpurun {}", text_of(report, "id"), host.empty() ? "" : tr(" on host {}", host),
               text_of(report, "version")));
  w.line(2, tr("command{}", command));
}

}  // namespace

base::Result<std::string> terminal_text(std::string_view report_json, const TerminalLook& look) {
  XPURUN_TRY_ASSIGN(const json report, parse_report(report_json));
  Writer w(look);
  const json& verdict = object_of(report, "verdict");
  const std::string sentence = text_of(verdict, "sentence");
  w.line(0, sentence.empty() ? tr("no verdict") : sentence, "1");
  put_source(w, report);
  put_findings(w, report);
  put_nodes(w, report);
  put_ranks(w, report);
  put_classes(w, report);
  put_environment(w, report);
  return w.take();
}

}  // namespace xpurun::report
