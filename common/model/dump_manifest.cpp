#include "common/model/dump_manifest.h"

#include "common/model/json_visitors.h"
#include "common/model/verdict_fields.h"

namespace xpurun::model {

template <typename V, Self<DumpedProcess> P>
void fields(V& visit, P& p) {
  visit("pid", p.pid);
  visit.rank("rank", p.rank);
  visit("role", p.role);
  visit("status", p.status);
  visit("reason", p.reason);
  visit("pause_ns", p.pause_ns);
  visit("file", p.file);
  visit("host", p.host, WhenEmpty::omit);
}

template <typename V, Self<HelperObservation> H>
void fields(V& visit, H& h) {
  visit("pid", h.pid);
  visit("name", h.name);
  visit("python", h.python);
  visit("awaited", h.awaited);
  visit("reads_input", h.reads_input, WhenEmpty::omit);
  visit("parent", h.parent, WhenEmpty::omit);
  visit("syscall", h.syscall, WhenEmpty::omit);
  visit("syscall_file", h.syscall_file, WhenEmpty::omit);
  visit("target", h.target, WhenEmpty::omit);
  visit("peers", h.peers, WhenEmpty::omit);
  visit("lock_file", h.lock.path, WhenEmpty::omit);
  visit("lock_pids", h.lock.pids, WhenEmpty::omit);
  visit("life", h.life);
  visit("still_s", h.still_s);
  visit("cpu_share", h.cpu_share);
  visit("function", h.function);
  visit("file", h.file);
  visit("line", h.line);
}

template <typename V, Self<RankObservation> O>
void fields(V& visit, O& o) {
  visit.rank("rank", o.rank);
  visit("pid", o.pid);
  visit("host", o.host);
  visit("alive", o.alive);
  visit.derived("exited_ok", !o.alive && o.wait_status.succeeded());
  visit("wait_status", o.wait_status);
  visit("dead_s", o.dead_s);
  visit("state", o.state);
  visit("has_python", o.has_python);
  visit("still_s", o.still_s);
  visit("cpu_share", o.cpu_share);
  visit("main_cpu_share", o.main_cpu_share);
  visit("main_queue_share", o.main_queue_share);
  visit("io_bytes_per_s", o.io_bytes_per_s);
  visit("window_s", o.window_s);
  visit("function", o.function);
  visit("file", o.file);
  visit("line", o.line);
  visit("common_place", o.common_place, WhenEmpty::omit);
  visit("helper_life", o.helper_life, WhenEmpty::omit);
  visit("outside", o.outside, WhenEmpty::omit);
  visit("helpers", o.helpers, WhenEmpty::omit);
}

template <typename V, Self<DumpManifest> D>
void fields(V& visit, D& d) {
  visit("n", d.n);
  visit("why", d.why);
  visit("host", d.host);
  visit("wall_ns", d.wall_ns);
  visit("at_s", d.at_s);
  visit("hang_timeout_s", d.hang_timeout_s);
  visit("escalated", d.escalated);
  visit("idle_counts", d.idle_counts, WhenEmpty::omit);
  visit("spread_ns", d.spread_ns);
  visit.rank("trigger_rank", d.trigger_rank);
  visit("processes", d.processes);
  visit("ranks", d.ranks);
}

std::string reason_or_status(const std::string& reason, DumpStatus status) {
  return reason.empty() ? std::string(name_of(status)) : reason;
}

nlohmann::ordered_json to_json(const DumpManifest& d) {
  return write_object(kDumpSchema, d);
}

base::Result<DumpManifest> dump_manifest_from_json(const nlohmann::json& j) {
  return read_object<DumpManifest>(kDumpSchema, "dump manifest", j);
}

base::Result<DumpManifest> load_dump_manifest(const std::string& path) {
  return load_object(path, dump_manifest_from_json);
}

}  // namespace xpurun::model
