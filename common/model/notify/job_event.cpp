#include "common/model/notify/job_event.h"

#include "common/base/strings.h"
#include "common/model/exception_fields.h"
#include "common/model/json_visitors.h"
#include "common/model/verdict_fields.h"

namespace xpurun::model {

template <typename V, Self<JobEvent> E>
void fields(V& visit, E& e) {
  visit("event", e.event);
  visit("run", e.run);
  visit("host", e.host);
  visit("directory", e.directory);
  visit("report", e.report);
  visit.derived("time", base::utc_iso8601(e.wall_ns));
  visit("wall_ns", e.wall_ns);
  visit("at_s", e.at_s);
  visit("sentence", e.sentence);
  visit("ranks", e.ranks);
  visit("pid", e.pid, WhenEmpty::omit);
  visit("signal", e.signal, WhenEmpty::omit);
  visit("hangs", e.hangs);
  visit("outcome", e.outcome);
  visit("exit_status", e.exit_status);
  visit.optional("verdict", e.verdict, e.has_verdict);
  visit.optional("exception", e.exception, e.has_exception);
}

nlohmann::ordered_json to_json(const JobEvent& event) {
  return write_object(kJobEventSchema, event);
}

}  // namespace xpurun::model
