#include "report/query/idle_tables.h"

#include "common/base/strings.h"

namespace xpurun::report {

void add_idle(RunTables& tables, const std::vector<model::IdleTime>& records, int64_t began_ns) {
  Inserter idle = tables.database.inserter("idle");
  Inserter gaps = tables.database.inserter("gaps");
  for (const model::IdleTime& record : records) {
    for (const model::RankIdle& r : record.ranks) {
      ++tables.rows;
      idle.add({record.dir, record.source, int64_t{r.rank}, r.window_s, r.works, r.idle_s, r.host_wait_s,
                r.kernel_wait_s, known_or_null(r.between_steps_s), r.queue.mean, r.queue.p99,
                known_or_null(r.void_share()), known_or_null(r.others_void_share),
                int64_t{r.outlier ? 1 : 0}});
    }
    for (const model::IdleGap& g : record.gaps) {
      ++tables.rows;
      gaps.add({record.dir, int64_t{g.rank}, static_cast<double>(g.wall_ns - began_ns) / 1e9, g.seconds,
                g.kernel_wait_s, text_or_null(base::sanitize(g.after)),
                text_or_null(base::sanitize(g.before)), text_or_null(base::sanitize(g.python)),
                text_or_null(base::sanitize(g.call))});
    }
  }
}

}  // namespace xpurun::report
