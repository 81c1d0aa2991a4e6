#include "launcher/notify/github_actions.h"

#include "common/base/os/io.h"
#include "common/base/output/log.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "report/render/markdown.h"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <string_view>

namespace xpurun::launcher {

namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Of the text of a workflow command; a property has two more special characters.
std::string escaped(std::string_view text, bool property) {
  std::string out;
  for (const char c : text) {
    const bool special = c == '%' || c == '\r' || c == '\n' || (property && (c == ':' || c == ','));
    out += special ? fmt::format("%{:02X}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return out;
}

}  // namespace

std::string github_annotation(const model::Verdict& v, const std::string& workspace) {
  using model::VerdictKind;
  const bool fine = v.kind == VerdictKind::none || v.kind == VerdictKind::running;
  const std::string_view level = fine                                        ? "notice"
                                 : v.level == model::VerdictLevel::suspected ? "warning"
                                                                             : "error";
  std::string where;
  const std::string below = workspace + "/";
  if (!workspace.empty() && v.where.file.starts_with(below) && v.where.line > 0) {
    where = fmt::format("file={},line={},", escaped(base::sanitize(v.where.file.substr(below.size())), true),
                        v.where.line);
  }
  return fmt::format("::{} {}title=xpurun%3A {}::{}\n", level, where, heading_word(v),
                     escaped(base::sanitize(v.sentence), false));
}

void tell_github(const model::Verdict& verdict, const std::string& report_json) {
  if (variable("GITHUB_ACTIONS") != "true" || verdict.sentence.empty()) {
    return;
  }
  base::write_stderr(github_annotation(verdict, variable("GITHUB_WORKSPACE")));
  const std::string summary = variable("GITHUB_STEP_SUMMARY");
  if (summary.empty() || report_json.empty()) {
    return;
  }
  const auto report = base::read_file(report_json);
  if (!report) {
    return;
  }
  const auto markdown = report::markdown_text(*report);
  std::ofstream out(summary, std::ios::app);
  if (!markdown || !(out << *markdown << '\n')) {
    base::log_warn("no summary in {}", summary);
  }
}

}  // namespace xpurun::launcher
