// JSON of GpuCapture. For .cpp files of common/model only.
#pragma once

#include "common/model/json_visitors.h"
#include "common/model/speed/gpu_capture.h"

namespace xpurun::model {

template <typename V, Self<ResourceUse> U>
void fields(V& visit, U& u) {
  visit("resource", u.resource);
  visit.derived("unit", is_share(u.resource) ? "share" : "bytes/s");
  visit("mean", u.mean);
  visit("spread", u.spread);
  visit("metric", u.metric, WhenEmpty::omit);
}

template <typename V, Self<ResourceSampling> S>
void fields(V& visit, S& s) {
  visit("status", s.status);
  visit("reason", s.reason);
  visit("asked_s", s.asked_s);
  visit("interval_s", s.interval_s);
  visit("begin_mono_ns", s.begin_mono_ns);
  visit("seconds", s.seconds);
  visit("samples", s.samples);
  visit("lost", s.lost);
  visit("overflows", s.overflows);
  visit("setup_s", s.setup_s);
  visit("handling_s", s.handling_s);
  visit("stop_s", s.stop_s);
  visit("file", s.file);
  visit("resources", s.resources);
}

template <typename V, Self<RankActivity> R>
void fields(V& visit, R& r) {
  visit.rank("rank", r.rank);
  visit("status", r.status);
  visit("reason", r.reason);
  visit("cupti", r.cupti);
  visit("begin_mono_ns", r.begin_mono_ns);
  visit("seconds", r.seconds);
  visit("records", r.records);
  visit("lost", r.lost);
  visit("overhead_s", r.overhead_s);
  visit("handling_s", r.handling_s);
  visit("setup_s", r.setup_s);
  visit("teardown_s", r.teardown_s);
  visit("file", r.file);
  visit("gpu_uuid", r.gpu_uuid);
  visit("busy_share", r.busy_share);
  visit("sampling", r.sampling, WhenEmpty::omit);
}

template <typename V, Self<CapturedWork> W>
void fields(V& visit, W& w) {
  visit("name", w.name);
  visit("kind", w.kind);
  visit("link", w.link, WhenEmpty::omit);
  visit("count", w.count);
  visit("total_s", w.total_s);
  visit("share", w.share);
  visit("path", w.path);
  visit("mean_s", w.mean_s);
  visit("median_s", w.median_s);
  visit("spread_s", w.spread_s);
  visit("ranks", w.ranks);
  visit("ranks_share", w.ranks_share);
  visit.rank("normal_rank", w.normal_rank);
  visit("normal_share", w.normal_share);
  visit("resource", w.resource, WhenEmpty::omit);
  visit("filled", w.filled, WhenEmpty::omit);
  visit("resources", w.resources, WhenEmpty::omit);
}

template <typename V, Self<GpuClocks> C>
void fields(V& visit, C& c) {
  visit.rank("rank", c.rank);
  visit("uuid", c.uuid);
  visit("samples", c.samples);
  visit("sm_lowest_mhz", c.sm_lowest_mhz);
  visit("sm_median_mhz", c.sm_median_mhz);
  visit("sm_limit_mhz", c.sm_limit_mhz);
  visit("power_w", c.power_w);
  visit("power_limit_w", c.power_limit_w);
  visit("temperature_c", c.temperature_c);
  visit("utilization_percent", c.utilization_percent);
  visit.columns("throttle_reasons", &ThrottleShare::reason, "throttle_shares", &ThrottleShare::share,
                c.throttled);
}

template <typename V, Self<GpuCapture> C>
void fields(V& visit, C& c) {
  visit("step_before_s", c.step_before_s);
  visit("step_during_s", c.step_during_s);
  visit("ranks", c.ranks);
  visit("work", c.work, WhenEmpty::omit);
  visit("clocks", c.clocks, WhenEmpty::omit);
}

}  // namespace xpurun::model
