#include "common/base/tr.h"
#include "common/model/language/vocabulary_words.h"
#include "report/diagnosis/call_words.h"
#include "report/diagnosis/wording.h"
#include "report/run/run_report.h"

#include <fmt/format.h>

namespace xpurun::report {

using base::tr;
using model::word_of;

std::vector<CallRow> call_rows(const model::Verdict& verdict) {
  std::vector<CallRow> out;
  for (const model::CalledBy& row : verdict.collective.calls) {
    CallRow r{.ranks = row.ranks,
              .culprit = !verdict.ranks.empty() && verdict.ranks.contains(row.ranks),
              .call = tr("not entered")};
    if (row.entered()) {
      r.call = call_text(row);
      r.where = short_place(row.where);
      r.number = fmt::format("{}", row.sequence);
      r.group = row.communicator;
      r.stage = word_of(row.stage);
    }
    out.push_back(std::move(r));
  }
  return out;
}

std::string about_calls(const model::VerdictCollective& c) {
  using Kind = model::CommunicatorKind;
  if (!c.present()) {
    return {};
  }
  const bool guessed = c.kind != Kind::unknown && c.kind != Kind::world;
  return tr("Call {} of {}, {} ranks{}{}.", c.sequence, group_text(c), c.size,
            c.ranks.empty() ? "" : fmt::format(" ({})", c.ranks.text()),
            guessed ? tr(", {} judging by its ranks", name_of(c.kind)) : "");
}

}  // namespace xpurun::report
