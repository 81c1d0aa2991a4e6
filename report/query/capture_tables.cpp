#include "report/query/capture_tables.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::report {

namespace {

using model::CapturedWork;

// Of the resource that fits the work; nullptr without samples.
const model::ResourceUse* use_of(const CapturedWork& work) {
  const auto at = std::find_if(work.resources.begin(), work.resources.end(), [&](const auto& one) {
    return model::name_of(one.resource) == work.resource;
  });
  return at == work.resources.end() ? nullptr : &*at;
}

SqlValue outliers(const model::RankSet& ranks) {
  return ranks.empty() ? SqlValue() : SqlValue(ranks.text());
}

SqlValue place_in_file(const model::CapturedFunction& f) {
  return f.file.empty() ? SqlValue() : SqlValue(base::sanitize(fmt::format("{}:{}", f.file, f.line)));
}

// Without records of the GPU, the time of a thread in a function is all on its own path; waits are not.
SqlValue beta_of(const model::CapturedFunction& f) {
  return f.path >= 0 ? SqlValue(f.path) : f.waits ? SqlValue() : SqlValue(f.own);
}

}  // namespace

void add_captures(RunTables& tables, const std::vector<model::CaptureReport>& captures, int64_t began_ns) {
  Inserter all = tables.database.inserter("captures");
  Inserter functions = tables.database.inserter("captured");
  for (const model::CaptureReport& c : captures) {
    const double at_s = static_cast<double>(c.wall_ns - began_ns) / 1e9;
    all.add({c.dir, base::sanitize(c.reason), at_s, c.seconds, base::sanitize(c.sentence)});
    for (const CapturedWork& w : c.gpu.work) {
      const model::ResourceUse* use = use_of(w);
      ++tables.rows;
      functions.add(
          {c.dir, std::string(model::name_of(w.kind)), base::sanitize(w.name), SqlValue(), w.path, w.share,
           static_cast<int64_t>(w.count), w.mean_s, w.median_s, w.spread_s,
           use == nullptr ? SqlValue() : SqlValue(w.resource),
           use == nullptr ? SqlValue() : known_or_null(use->mean),
           use == nullptr ? SqlValue() : known_or_null(use->spread), outliers(w.ranks),
           w.ranks.empty() ? SqlValue() : SqlValue(w.ranks_share), SqlValue(),
           w.link == model::LinkClass::unknown ? SqlValue() : SqlValue(std::string(model::name_of(w.link)))});
    }
    for (const model::CapturedFunction& f : c.functions) {
      ++tables.rows;
      functions.add({c.dir, std::string(f.worker ? "worker" : "python"), base::sanitize(f.function),
                     place_in_file(f), beta_of(f), f.total, SqlValue(), SqlValue(), SqlValue(), f.spread,
                     SqlValue(), SqlValue(), SqlValue(), outliers(f.ranks),
                     f.ranks.empty() ? SqlValue() : SqlValue(f.ranks_total),
                     f.stack.empty() ? SqlValue() : SqlValue(base::sanitize(f.stack)), SqlValue()});
    }
  }
}

}  // namespace xpurun::report
