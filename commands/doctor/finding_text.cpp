#include "commands/doctor/finding_text.h"

#include "common/base/tr.h"
#include "launcher/output/text_block.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace xpurun::launcher {

namespace {

using base::later;
using base::tr;

constexpr size_t kNarrow = 60;
constexpr size_t kGradeWidth = 6;
constexpr size_t kTextColumn = 18;

Ink::Colour colour_of(Grade grade) {
  return grade == Grade::ok     ? Ink::Colour::good
         : grade == Grade::none ? Ink::Colour::faint
         : grade == Grade::warn ? Ink::Colour::doubtful
                                : Ink::Colour::bad;
}

size_t count(const Findings& findings, Grade grade) {
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.grade == grade; }));
}

}  // namespace

std::string_view name_of(Grade grade) {
  return grade == Grade::ok     ? later("ok")
         : grade == Grade::none ? later("n/a")
         : grade == Grade::warn ? later("warn")
                                : later("fail");
}

std::string finding_text(const Finding& f, size_t columns, const Ink& ink) {
  const std::string grade = pad_end(tr(name_of(f.grade)), kGradeWidth);
  const bool narrow = columns < kNarrow;
  const size_t indent = narrow ? kGradeWidth : kTextColumn;
  const std::string head =
      ink.paint(colour_of(f.grade), grade) + fmt::format("{:<{}}", f.check, kTextColumn - kGradeWidth);
  std::string out = narrow ? ink.paint(colour_of(f.grade), grade) + f.check + '\n' : head;
  const std::string text = text_block(f.text, columns, indent);
  out += narrow ? text : text.substr(std::min(indent, text.size()));
  for (const auto& [label, words] :
       {std::pair(later("lost: "), &f.lost), std::pair(later("do: "), &f.remedy)}) {
    if (!words->empty()) {
      out += text_block(tr(label) + *words, columns, indent);
    }
  }
  return out;
}

std::string findings_summary(const Findings& findings, size_t columns, const Ink& ink) {
  std::string out = "\n";
  std::string sep;
  for (const Grade grade : {Grade::ok, Grade::none, Grade::warn, Grade::fail}) {
    const size_t n = count(findings, grade);
    if (grade == Grade::none && n == 0) {
      continue;
    }
    const std::string part = tr("{} {}", n, tr(name_of(grade)));
    out += sep + (n != 0 ? ink.paint(colour_of(grade), part) : part);
    sep = tr(", ");
  }
  out += '\n';
  if (!any_failed(findings)) {
    return out + text_block(tr("xpurun can work here."), columns, 0);
  }
  return out + text_block(tr("The lines above list what is lost."), columns, 0);
}

nlohmann::ordered_json to_json(const Findings& findings) {
  nlohmann::ordered_json j;
  j["schema"] = "xpurun.doctor/1";
  j["version"] = XPURUN_VERSION;
  j["ok"] = !any_failed(findings);
  auto& checks = j["checks"] = nlohmann::ordered_json::array();
  for (const Finding& f : findings) {
    checks.push_back({{"check", f.check},
                      {"grade", name_of(f.grade)},
                      {"text", f.text},
                      {"lost", f.lost},
                      {"remedy", f.remedy}});
  }
  return j;
}

bool any_failed(const Findings& findings) {
  return count(findings, Grade::fail) != 0;
}

}  // namespace xpurun::launcher
