#include "report/diagnosis/rank_exceptions.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/ends/exceptions.h"
#include "report/diagnosis/waits/code_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace xpurun::report {

using base::tr;
using model::ExceptionKind;
using model::ExceptionLink;
using model::PythonException;

namespace {

// Programs may run indefinitely inside a handler of these exceptions. They only say that something does not
// exist or is exhausted.
constexpr std::array<std::string_view, 4> kOrdinary = {"ImportError", "ModuleNotFoundError", "StopIteration",
                                                       "StopAsyncIteration"};

// The last report of the rank's Python before the dump. Later exceptions may be caused by the job's end.
const PythonException* last_of(const Scene& scene, const RankView& v, ExceptionKind kind) {
  const auto& all = scene.facts.run.exceptions;
  const auto it = std::find_if(all.rbegin(), all.rend(), [&](const PythonException& x) {
    return x.kind == kind && x.pid == v.pid && !x.chain.empty() &&
           (!scene.facts.dump || x.at_s <= scene.facts.dump->at_s);
  });
  return it == all.rend() ? nullptr : &*it;
}

const ExceptionLink* handled_by(const RankView& v) {
  return v.thread != nullptr && !v.thread->handling.empty() ? &v.thread->handling : nullptr;
}

}  // namespace

std::string exception_clause(const Scene& scene, const RankView& v) {
  if (v.state != RankState::stuck && v.state != RankState::waiting) {
    return {};
  }
  if (const PythonException* raised = last_of(scene, v, ExceptionKind::raised)) {
    return tr(" after it {}", raised_words(*raised));
  }
  const ExceptionLink* handled = handled_by(v);
  if (handled != nullptr && std::find(kOrdinary.begin(), kOrdinary.end(), handled->type) == kOrdinary.end()) {
    return tr(" while handling {}", words_of(*handled));
  }
  if (const PythonException* thread = last_of(scene, v, ExceptionKind::thread)) {
    return tr("; its thread {} {}", base::sanitize(thread->thread), raised_words(*thread));
  }
  return {};
}

void add_handled(const Scene& scene, const model::Verdict& verdict, std::vector<std::string>& out) {
  for (const RankView& v : scene.ranks) {
    const ExceptionLink* handled = handled_by(v);
    const bool in_sentence =
        handled != nullptr && verdict.sentence.find(words_of(*handled)) != std::string::npos;
    if (handled == nullptr || in_sentence || !verdict.ranks.contains(v.rank)) {
      continue;
    }
    out.push_back(tr("rank {} is handling {}", v.rank, words_of(*handled)));
    // The outermost frame is the function that caught the exception.
    if (!handled->frames.empty()) {
      const model::PythonFrame& f = handled->frames.front();
      out.back() +=
          tr(", caught in {} ({})", base::sanitize(f.function), base::sanitize(base::base_name(f.file)));
    }
    return;
  }
}

}  // namespace xpurun::report
