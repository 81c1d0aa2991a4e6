#include "report/pipeline/jobs/jobs.h"

#include <algorithm>
#include <tuple>

namespace xpurun::report {

bool is_pass(model::JobKind kind) {
  return kind == model::JobKind::forward || kind == model::JobKind::backward ||
         kind == model::JobKind::weight;
}

void put_in_order(std::vector<Job>& jobs) {
  std::stable_sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) {
    return std::tuple(a.begin_ns, a.end_ns) < std::tuple(b.begin_ns, b.end_ns);
  });
}

}  // namespace xpurun::report
