#include "common/model/speed/replay.h"

#include "common/model/json_visitors.h"

namespace xpurun::model {

template <typename V, Self<ShapeOnRank> R>
void fields(V& visit, R& r) {
  visit.rank("rank", r.rank);
  visit("count", r.count);
  visit("median_s", r.median_s);
  visit("tflops", r.tflops);
  visit("of_median", r.of_median);
  visit("of_replay", r.of_replay);
  visit("slow", r.slow);
  visit("only_overlapped", r.only_overlapped, WhenEmpty::omit);
}

template <typename V, Self<ReplayTimes> T>
void fields(V& visit, T& t) {
  visit("repeats", t.repeats);
  visit("median_s", t.median_s);
  visit("p10_s", t.p10_s);
  visit("p90_s", t.p90_s);
  visit("sm_clock_mhz", t.sm_clock_mhz);
  visit("skipped", t.skipped);
}

template <typename V, Self<ReplayedMatmul> M>
void fields(V& visit, M& m) {
  visit("shape", m.shape);
  visit("types", m.types);
  visit("transposes", m.transposes);
  visit("function", m.function);
  visit("epilogue", m.epilogue);
  visit("flop", m.flop);
  visit("count", m.count);
  visit("overlapped", m.overlapped);
  visit("share", m.share);
  visit("median_s", m.median_s);
  visit("tflops", m.tflops);
  visit("replay", m.replay);
  visit("replay_tflops", m.replay_tflops);
  visit("of_replay", m.of_replay);
  visit("ranks", m.ranks);
}

template <typename V, Self<ReplayedCollective> C>
void fields(V& visit, C& c) {
  visit("operation", c.operation);
  visit("type", c.type);
  visit("bytes", c.bytes);
  visit("size", c.size);
  visit("count", c.count);
  visit("share", c.share);
  visit("transfer_s", c.transfer_s);
  visit("bus_gb_s", c.bus_gb_s);
  visit("devices", c.devices);
  visit("replay", c.replay);
  visit("replay_bus_gb_s", c.replay_bus_gb_s);
  visit("of_replay", c.of_replay);
}

template <typename V, Self<ReplayedRank> R>
void fields(V& visit, R& r) {
  visit.rank("rank", r.rank);
  visit("host", r.host);
  visit("gpu", r.gpu);
  visit("of_median", r.of_median);
  visit("of_replay", r.of_replay);
  visit("slow_shapes", r.slow_shapes);
  visit("slow", r.slow);
}

template <typename V, Self<ReplayDevice> D>
void fields(V& visit, D& d) {
  visit("index", d.index);
  visit("name", d.name);
  visit("uuid", d.uuid);
  visit("driver", d.driver);
  visit("libraries", d.libraries);
  visit("memory_bytes", d.memory_bytes);
  visit("sm_clock_mhz", d.sm_clock_mhz);
  visit("sm_clock_max_mhz", d.sm_clock_max_mhz);
  visit("temperature_c", d.temperature_c);
  visit("power_w", d.power_w);
  visit("throttle_reasons", d.throttle_reasons);
}

template <typename V, Self<Replay> R>
void fields(V& visit, R& r) {
  visit("sentence", r.sentence);
  visit("factor", r.factor);
  visit("all_matmuls", r.all_matmuls);
  visit("covered", r.covered);
  visit("all_collectives", r.all_collectives);
  visit("device", r.device);
  visit("matmuls", r.matmuls);
  visit("collectives", r.collectives);
  visit("ranks", r.ranks);
  visit("slow", r.slow);
  visit("notes", r.notes);
}

nlohmann::ordered_json to_json(const Replay& replay) {
  return write_object(kReplaySchema, replay);
}

}  // namespace xpurun::model
