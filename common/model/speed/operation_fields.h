// JSON of OperationTables. For .cpp files of common/model only.
#pragma once

#include "common/model/json_visitors.h"
#include "common/model/speed/operations.h"

namespace xpurun::model {

template <typename V, Self<CallTimes> T>
void fields(V& visit, T& t) {
  visit("count", t.count);
  visit("calls", t.calls);
  visit("median_s", t.median_s);
  visit("p99_s", t.p99_s);
  visit("total_s", t.total_s);
  visit("sources", t.sources);
}

template <typename V, Self<SlowestRank> R>
void fields(V& visit, R& r) {
  visit.rank("rank", r.rank);
  visit("count", r.count);
  visit("median_s", r.median_s);
  visit("excess", r.excess);
  visit("outlier", r.outlier);
}

template <typename V, Self<LateRank> R>
void fields(V& visit, R& r) {
  visit.rank("rank", r.rank);
  visit("times", r.times);
  visit("cost_s", r.cost_s);
}

template <typename V, Self<Lateness> L>
void fields(V& visit, L& l) {
  visit("meetings", l.meetings);
  visit("wait_s", l.wait_s);
  visit("transfer_s", l.transfer_s);
  visit("ranks", l.ranks);
}

template <typename V, Self<MatmulRow> M>
void fields(V& visit, M& m) {
  visit("shape", m.shape);
  visit("types", m.types);
  visit("transposes", m.transposes);
  visit("flop", m.flop);
  visit("times", m.times);
  visit("tflops", m.tflops);
  visit("peak_share", m.peak_share);
  visit("slowest", m.slowest);
}

template <typename V, Self<CollectiveOnRank> C>
void fields(V& visit, C& c) {
  visit.rank("rank", c.rank);
  visit("count", c.count);
  visit("median_s", c.median_s);
  visit("algorithm_gb_s", c.algorithm_gb_s);
  visit("bus_gb_s", c.bus_gb_s);
}

template <typename V, Self<CollectiveRow> C>
void fields(V& visit, C& c) {
  visit("communicator", c.communicator);
  visit("group", c.group);
  visit("members", c.members);
  visit("size", c.size);
  visit("link", c.link);
  visit("operation", c.operation);
  visit("type", c.type);
  visit("least_bytes", c.least_bytes);
  visit("most_bytes", c.most_bytes);
  visit("mean_bytes", c.mean_bytes);
  visit("times", c.times);
  visit("algorithm_gb_s", c.algorithm_gb_s);
  visit("bus_gb_s", c.bus_gb_s);
  visit("transfer_algorithm_gb_s", c.transfer_algorithm_gb_s);
  visit("transfer_bus_gb_s", c.transfer_bus_gb_s);
  visit("lateness", c.lateness);
  visit("ranks", c.ranks, WhenEmpty::omit);
}

template <typename V, Self<MemoryRow> M>
void fields(V& visit, M& m) {
  visit("operation", m.operation);
  visit("least_bytes", m.least_bytes);
  visit("most_bytes", m.most_bytes);
  visit("mean_bytes", m.mean_bytes);
  visit("times", m.times);
  visit("gb_s", m.gb_s);
  visit("slowest", m.slowest);
}

template <typename V, Self<ProgramCallRow> C>
void fields(V& visit, C& c) {
  visit("function", c.function);
  visit("place", c.place);
  visit("ranks", c.ranks);
  visit("mean_bytes", c.mean_bytes);
  visit("times", c.times);
  visit("share", c.share);
  visit.optional("bus_gb_s", c.bus_gb_s);
  visit("lateness", c.lateness);
}

template <typename V, Self<RankBreakdown> R>
void fields(V& visit, R& r) {
  visit.rank("rank", r.rank);
  visit("window_s", r.window_s);
  visit("timed_share", r.timed_share);
  visit("untraced_share", r.untraced_share);
  visit("compute_s", r.compute_s);
  visit("communication_s", r.communication_s);
  visit("memory_s", r.memory_s);
  visit("exposed_share", r.exposed_share);
  visit("idle_s", r.idle_s);
  visit("exact", r.exact);
}

template <typename V, Self<QueueLength> Q>
void fields(V& visit, Q& q) {
  visit("mean", q.mean);
  visit("median", q.median);
  visit("p99", q.p99);
  visit("most", q.most);
}

template <typename V, Self<RankIdle> R>
void fields(V& visit, R& r) {
  visit.rank("rank", r.rank);
  visit("window_s", r.window_s);
  visit("works", r.works);
  visit("timed_share", r.timed_share);
  visit("untraced_share", r.untraced_share);
  visit("idle_s", r.idle_s);
  visit("host_wait_s", r.host_wait_s);
  visit("kernel_wait_s", r.kernel_wait_s);
  visit("between_steps_s", r.between_steps_s);
  visit.derived("void_share", r.void_share());
  visit("queue", r.queue);
  visit("others_void_share", r.others_void_share);
  visit("outlier", r.outlier);
}

template <typename V, Self<IdleGap> G>
void fields(V& visit, G& g) {
  visit.rank("rank", g.rank);
  visit("wall_ns", g.wall_ns);
  visit("seconds", g.seconds);
  visit("kernel_wait_s", g.kernel_wait_s);
  visit("after", g.after);
  visit("before", g.before);
  visit("python", g.python);
  visit("call", g.call);
}

template <typename V, Self<IdleTime> I>
void fields(V& visit, I& i) {
  visit("dir", i.dir);
  visit("source", i.source);
  visit("wall_ns", i.wall_ns);
  visit("ranks", i.ranks);
  visit("gaps", i.gaps);
  visit("notes", i.notes);
}

template <typename V, Self<RankDurations> R>
void fields(V& visit, R& r) {
  visit.rank("rank", r.rank);
  visit("count", r.count);
  visit("p5_s", r.p5_s);
  visit("p25_s", r.p25_s);
  visit("median_s", r.median_s);
  visit("p75_s", r.p75_s);
  visit("p95_s", r.p95_s);
  visit("p99_s", r.p99_s);
}

template <typename V, Self<DurationRow> D>
void fields(V& visit, D& d) {
  visit("name", d.name);
  visit("bytes", d.bytes);
  visit("bus_factor", d.bus_factor);
  visit("ranks", d.ranks);
}

template <typename V, Self<LatenessRow> R>
void fields(V& visit, R& r) {
  visit("name", r.name);
  visit("late_s", r.late_s);
}

template <typename V, Self<LatenessMatrix> M>
void fields(V& visit, M& m) {
  visit("ranks", m.ranks);
  visit("rows", m.rows);
}

template <typename V, Self<UnsafeSendRow> R>
void fields(V& visit, R& r) {
  visit("places", r.places);
  visit("ranks", r.ranks);
  visit("times", r.times);
  visit("most_bytes", r.most_bytes);
}

template <typename V, Self<OperationTables> O>
void fields(V& visit, O& o) {
  visit("ranks", o.ranks);
  visit("idle", o.idle);
  visit("durations", o.durations);
  visit("matmuls", o.matmuls);
  visit("collectives", o.collectives);
  visit("memory", o.memory);
  visit("program_calls", o.program_calls);
  visit("unsafe_sends", o.unsafe_sends, WhenEmpty::omit);
  visit("lateness", o.lateness, WhenEmpty::omit);
  visit("left_out", o.left_out);
  visit("lost", o.lost);
}

}  // namespace xpurun::model
