#include "report/render/opening.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/frame_text.h"
#include "report/diagnosis/ends/exceptions.h"

#include <fmt/format.h>
#include <kainjow/mustache.hpp>

#include <algorithm>
#include <set>

namespace xpurun::report {

using base::tr;
using kainjow::mustache::data;

namespace {

std::string place_of(const std::string& file, int line) {
  const std::string name(model::source_name(file));
  return line > 0 ? fmt::format("{}:{}", name, line) : name;
}

data excerpt_data(const SourceExcerpt& e) {
  data d;
  put_text(d, "function", e.function);
  d.set("place", place_of(e.file, e.line));
  d.set("file", e.file);
  d.set("changed", e.changed);
  data lines{data::type::list};
  for (const model::SourceLine& l : e.lines) {
    data line;
    line.set("number", fmt::format("{}", l.number));
    line.set("text", l.text);
    line.set("marked", l.number == e.line);
    lines.push_back(line);
  }
  put_list(d, "lines", lines);
  return d;
}

void put_source(data& page, const RunReport& report) {
  data list{data::type::list};
  for (const SourceExcerpt& e : report.source) {
    list.push_back(excerpt_data(e));
  }
  put_list(page, "source", list);
}

void put_tracebacks(data& page, const Tracebacks& tracebacks) {
  data list{data::type::list};
  for (const Traceback& t : tracebacks.shown) {
    data d;
    d.set("title", t.title);
    d.set("word", t.word);
    d.set("text", t.text);
    list.push_back(d);
  }
  put_list(page, "tracebacks", list);
  put_text(page, "tracebacks_cut",
           tracebacks.left_out > 0 ? tr("{} more are in run.json.", tracebacks.left_out) : std::string());
}

void put_log_tail(data& page, const model::Verdict& verdict) {
  const model::LogTail& tail = verdict.log_tail;
  std::string text;
  for (const std::string& line : tail.lines) {
    text += base::sanitize(line) + "\n";
  }
  page.set("has_log_tail", !tail.empty());
  put_text(page, "log_tail", text);
  const std::string of = verdict.ranks.empty() ? tr("The command") : tr("Rank {}", verdict.ranks.lowest());
  page.set("log_tail_about",
           tail.lines.empty()
               ? tr("{}: {}.", of,
                    tail.reason.empty() ? tr("nothing was written") : tr(base::sanitize(tail.reason)))
           : tail.shared.empty()
               ? tr("{}, {}.", of, base::sanitize(tail.file))
               : tr("{}; ranks {} share {}.", of, tail.shared.text(), base::sanitize(tail.file)));
}

// The table of calls has the same, and more.
void put_waiting(data& page, const RunReport& report) {
  data list{data::type::list};
  for (const model::Waiting& w : report.verdict.waiting) {
    if (!report.calls.empty()) {
      break;
    }
    data d;
    d.set("ranks", spaced_ranks(w.ranks));
    d.set("what", w.what.empty() ? tr("a wait") : tr(w.what));
    put_text(d, "function", w.where.function);
    d.set("place", place_of(w.where.file, w.where.line));
    list.push_back(d);
  }
  put_list(page, "waiting", list);
}

// Lines that stand elsewhere on the page are not repeated as evidence.
void put_evidence(data& page, const RunReport& report) {
  std::set<std::string> reported(report.verdict.log_tail.lines.begin(), report.verdict.log_tail.lines.end());
  for (const Traceback& t : report.tracebacks.shown) {
    for (const std::string_view line : base::split(t.text, '\n')) {
      reported.emplace(line);
    }
  }
  std::vector<std::string> evidence =
      report.findings.empty() ? report.verdict.evidence : report.findings.front().evidence;
  const size_t all = evidence.size();
  std::erase_if(evidence, [&reported](const std::string& line) { return reported.contains(line); });
  // The tail is announced by the line before it.
  if (evidence.size() < all && !evidence.empty() && !report.verdict.log_tail.lines.empty() &&
      evidence.front() == report.verdict.evidence.front()) {
    evidence.erase(evidence.begin());
  }
  put_list(page, "evidence", string_list(evidence));
}

void put_next(data& page, const RunReport& report) {
  const bool any = !report.findings.empty();
  const std::string command = any ? report.findings.front().command : "";
  // The traceback stands above.
  const bool read_here = any && command.empty() && !report.tracebacks.shown.empty() &&
                         asks_for_traceback(report.findings.front().next);
  const std::string next = any && !read_here ? capitalized(report.findings.front().next) : "";
  page.set("has_next_step", !next.empty() || !command.empty());
  put_text(page, "next_step", next.empty() || next.ends_with(tr(".")) ? next : next + tr("."));
  put_text(page, "next_step_command", command);
  put_text(page, "typed_in",
           command.empty() || report.run.cwd.empty()
               ? std::string()
               : tr("Run it in {}{}", report.run.cwd,
                    report.run.host.empty() ? "" : tr(" on host {}", report.run.host)));
}

}  // namespace

void put_opening(data& page, const RunReport& report) {
  put_source(page, report);
  put_tracebacks(page, report.tracebacks);
  put_log_tail(page, report.verdict);
  put_waiting(page, report);
  put_next(page, report);
  put_evidence(page, report);
}

}  // namespace xpurun::report
