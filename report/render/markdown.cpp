#include "report/render/markdown.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/frame_text.h"
#include "common/model/rank_set.h"
#include "report/flamegraph/palette.h"
#include "report/render/json.h"
#include "report/render/json_access.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace xpurun::report {

using base::tr;

namespace {

using nlohmann::json;

// In prose every character stands for itself.
std::string prose(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\`*_[]<>|#~&").find(c) != std::string_view::npos) {
      out += '\\';
    }
    out += c;
  }
  return out;
}

size_t longest_run(std::string_view text, char of) {
  size_t best = 0;
  size_t run = 0;
  for (const char c : text) {
    run = c == of ? run + 1 : 0;
    best = std::max(best, run);
  }
  return best;
}

std::string code(const std::string& text) {
  const std::string quote(longest_run(text, '`') + 1, '`');
  const char* gap = quote.size() > 1 ? " " : "";
  return quote + gap + text + gap + quote;
}

std::string block(const std::string& text, const char* language) {
  const std::string fence(std::max<size_t>(3, longest_run(text, '`') + 1), '`');
  return fmt::format("{}{}\n{}{}{}\n\n", fence, language, text, text.ends_with('\n') ? "" : "\n", fence);
}

std::string lines_of(const json& list) {
  std::string out;
  for (const json& line : list) {
    if (line.is_string()) {
      out += base::sanitize(line.get_ref<const std::string&>()) + "\n";
    }
  }
  return out;
}

std::string place_of(const json& where) {
  const std::string file(model::source_name(text_of(where, "file")));
  const int64_t line = number_of(where, "line", 0);
  return line > 0 ? fmt::format("{}:{}", file, line) : file;
}

std::string source(const json& report) {
  std::string out;
  for (const json& e : list_of(report, "source")) {
    const int64_t marked = number_of(e, "line", 0);
    std::string text;
    for (const json& l : list_of(e, "lines")) {
      const int64_t number = number_of(l, "number", 0);
      text += fmt::format("{} {:>4}  {}\n", number == marked ? ">" : " ", number, text_of(l, "text"));
    }
    const std::string function = text_of(e, "function");
    out +=
        code(place_of(e)) + (function.empty() ? "" : tr(" in {}", code(function))) + "\n\n" + block(text, "");
  }
  return out;
}

std::string waiting(const json& verdict) {
  std::string out;
  for (const json& w : list_of(verdict, "waiting")) {
    const json& where = object_of(w, "where");
    const std::string function = text_of(where, "function");
    std::vector<std::string> ranks;
    for (const json& r : list_of(w, "ranks")) {
      if (r.is_number_integer()) {
        ranks.push_back(fmt::format("{}", r.get<int64_t>()));
      }
    }
    const auto set = model::RankSet::parse(base::join(ranks, ","));
    out += "- " +
           tr("{} in {}{}", set ? ranks_text(*set) : tr("ranks"), prose(tr(text_of(w, "what"))),
              function.empty() ? "" : tr(": ") + code(fmt::format("{} ({})", function, place_of(where)))) +
           "\n";
  }
  return out.empty() ? out : "**" + tr("The others wait:") + "**\n\n" + out + "\n";
}

std::string evidence(const json& verdict) {
  std::string out;
  for (const json& e : list_of(verdict, "evidence")) {
    if (e.is_string()) {
      out += "- " + prose(base::sanitize(e.get_ref<const std::string&>())) + "\n";
    }
  }
  return out.empty() ? out
                     : "<details><summary>" + tr("Evidence") + "</summary>\n\n" + out + "\n</details>\n\n";
}

}  // namespace

base::Result<std::string> markdown_text(std::string_view report_json) {
  XPURUN_TRY_ASSIGN(const json report, parse_report(report_json));
  const json& verdict = object_of(report, "verdict");
  const json& environment = object_of(report, "environment");
  const std::string sentence = text_of(verdict, "sentence");
  std::string out = fmt::format("**{}**\n\n", prose(sentence.empty() ? tr("no verdict") : sentence));
  out += source(report);
  for (const json& t : list_of(report, "tracebacks")) {
    const auto text = t.is_object() ? t.find("text") : t.end();
    if (t.is_object() && text != t.end() && text->is_string()) {
      out += tr("{}:", prose(text_of(t, "title"))) + "\n\n" +
             block(base::sanitize_lines(text->get_ref<const std::string&>()), "");
    }
  }
  if (const std::string tail = lines_of(list_of(object_of(verdict, "log_tail"), "lines")); !tail.empty()) {
    out += tr("Last lines of standard error:") + "\n\n" + block(tail, "");
  }
  out += waiting(verdict);
  if (const json& findings = list_of(report, "findings"); !findings.empty()) {
    const std::string next = text_of(findings.front(), "next");
    const std::string command = text_of(findings.front(), "command");
    if (!next.empty() || !command.empty()) {
      out +=
          "**" + tr("Next:") + "** " + prose(next) + "\n\n" + (command.empty() ? "" : block(command, "sh"));
    }
  }
  out += evidence(verdict);
  const std::string host = text_of(environment, "host");
  return out +
         tr("Run {}{}, xpurun {}.", code(text_of(report, "id")), host.empty() ? "" : tr(" on {}", code(host)),
            prose(text_of(report, "version"))) +
         "\n";
}

}  // namespace xpurun::report
