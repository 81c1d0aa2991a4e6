#include "common/model/timing/speed_report.h"

#include "common/model/json_visitors.h"
#include "common/model/speed/gpu_capture_fields.h"
#include "common/model/speed/operation_fields.h"

namespace xpurun::model {

template <typename V, Self<StageSeconds> S>
void fields(V& visit, S& s) {
  for (size_t i = 0; i < kStepStages; ++i) {
    visit(std::string(kNames<Stage>[i]).c_str(), s.seconds[i]);
  }
}

template <typename V, Self<StepChange> C>
void fields(V& visit, C& c) {
  visit("kind", c.kind);
  visit("step", c.step);
  visit("found_step", c.found_step);
  visit("wall_ns", c.wall_ns);
  visit("before_s", c.before_s);
  visit("after_s", c.after_s);
  visit("share", c.share);
}

template <typename V, Self<RankSpeed> R>
void fields(V& visit, R& r) {
  visit.rank("rank", r.rank);
  visit("host", r.host);
  visit("gpu", r.gpu);
  visit("steps", r.steps);
  visit("step_s", r.step_s);
  visit("own_s", r.own_s);
  visit("wait_s", r.wait_s);
  visit("lead_s", r.lead_s);
  visit("exposed_s", r.exposed_s);
  visit("hidden_s", r.hidden_s);
  visit("cpu_s", r.cpu_s);
  visit("run_delay_s", r.run_delay_s);
  visit("throttled_s", r.throttled_s);
  visit("stolen_s", r.stolen_s);
  visit("faults", r.faults);
  visit("stages_s", r.stages);
  visit("since", r.since);
  visit("since_wall_ns", r.since_wall_ns);
  visit("risen", r.risen);
}

template <typename V, Self<SpeedFinding> F>
void fields(V& visit, F& f) {
  visit("problem", f.problem);
  visit("severity", f.severity);
  visit("cause", f.cause);
  visit("confidence", f.confidence);
  visit("ranks", f.ranks);
  visit("place", f.place);
  visit("function", f.function);
  visit("since", f.since);
  visit("since_wall_ns", f.since_wall_ns);
  visit("until", f.until);
  visit("until_wall_ns", f.until_wall_ns);
  visit("period", f.period, WhenEmpty::omit);
  visit("lost_s", f.lost_s);
  visit("share", f.share);
  visit("sentence", f.sentence);
  visit("next", f.next);
}

template <typename V, Self<CauseShare> C>
void fields(V& visit, C& c) {
  visit("cause", c.cause);
  visit("share", c.share);
}

template <typename V, Self<StagePause> P>
void fields(V& visit, P& p) {
  visit("stage", p.stage);
  visit("count", p.count);
  visit("every", p.every);
  visit("median_s", p.median_s);
  visit("longest_s", p.longest_s);
  visit("call_s", p.call_s, WhenEmpty::omit);
  visit("share", p.share);
  visit("name", p.name);
  visit("place", p.place);
  visit("ranks", p.ranks);
  visit("slow", p.slow);
  visit("slow_s", p.slow_s);
  visit("others_s", p.others_s);
  visit("sentence", p.sentence);
}

template <typename V, Self<RankLaunches> L>
void fields(V& visit, L& l) {
  visit.rank("rank", l.rank);
  visit("calls", l.calls);
  visit("mean_s", l.mean_s);
  visit("median_s", l.median_s);
  visit("p99_s", l.p99_s);
  visit("starved", l.starved);
}

template <typename V, Self<FunctionOfRank> F>
void fields(V& visit, F& f) {
  visit.rank("rank", f.rank);
  visit("calls", f.calls);
  visit("short_calls", f.short_calls);
  visit("total_s", f.total_s);
  visit("self_s", f.self_s);
  visit("mean_s", f.mean_s);
  visit("p99_s", f.p99_s);
  visit("longest_s", f.longest_s);
}

template <typename V, Self<FunctionTimes> F>
void fields(V& visit, F& f) {
  visit("name", f.name);
  visit("calls", f.calls);
  visit("total_s", f.total_s);
  visit("self_s", f.self_s);
  visit("mean_s", f.mean_s);
  visit("p99_s", f.p99_s);
  visit.rank("slowest", f.slowest);
  visit("slowest_mean_s", f.slowest_mean_s);
  visit("others_mean_s", f.others_mean_s);
  visit("outliers", f.outliers);
  visit("ranks", f.ranks);
}

template <typename V, Self<StepBin> B>
void fields(V& visit, B& b) {
  visit("first", b.first);
  visit("count", b.count);
  visit("wall_ns", b.wall_ns, WhenEmpty::omit);
  visit("median_s", b.median_s);
  visit("most_s", b.most_s);
  visit("exposed_s", b.exposed_s);
  visit("hidden_s", b.hidden_s);
}

template <typename V, Self<CapturedFunction> F>
void fields(V& visit, F& f) {
  visit("function", f.function);
  visit("file", f.file);
  visit("line", f.line);
  visit("worker", f.worker);
  visit("waits", f.waits);
  visit("total", f.total);
  visit("own", f.own);
  visit("spread", f.spread);
  visit("ranks", f.ranks);
  visit("ranks_total", f.ranks_total);
  visit("ranks_own", f.ranks_own);
  visit("by_line", f.by_line);
  visit("path", f.path);
  visit("ranks_path", f.ranks_path);
  visit("path_spread", f.path_spread);
  visit("stack", f.stack);
}

template <typename V, Self<GilHolder> H>
void fields(V& visit, H& h) {
  visit("rank", h.rank);
  visit("thread", h.thread);
  visit("function", h.function);
  visit("file", h.file);
  visit("line", h.line);
  visit("share", h.share);
}

template <typename V, Self<CaptureReport> C>
void fields(V& visit, C& c) {
  visit("dir", c.dir);
  visit("reason", c.reason);
  visit("wall_ns", c.wall_ns);
  visit("seconds", c.seconds);
  visit("samples", c.samples);
  visit("ranks", c.ranks);
  visit("sentence", c.sentence);
  visit("functions", c.functions);
  visit("gil_holders", c.gil_holders, WhenEmpty::omit);
  visit("gpu", c.gpu, WhenEmpty::omit);
  visit("notes", c.notes);
}

template <typename V, Self<HeatMap> H>
void fields(V& visit, H& h) {
  visit("rows", h.rows);
  visit("columns", h.columns);
  visit("first_step", h.first_step);
  visit("steps", h.steps);
  visit("own_s", h.own_s);
}

template <typename V, Self<SpeedReport> R>
void fields(V& visit, R& r) {
  visit("source", r.source);
  visit("clock", r.clock);
  visit("clock_steps", r.clock_steps);
  visit("confidence", r.confidence);
  visit("why", r.why);
  visit("steps", r.steps);
  visit("first_wall_ns", r.first_wall_ns);
  visit("last_wall_ns", r.last_wall_ns);
  visit("step_s", r.step_s);
  visit("spikes", r.spikes);
  visit("pauses", r.pauses);
  visit("waits_measured", r.waits_measured);
  visit("sentence", r.sentence);
  visit("findings", r.findings);
  visit("changes", r.changes);
  visit("what_if", r.what_if);
  visit("stage_pauses", r.stage_pauses);
  visit("launches", r.launches);
  visit("captures", r.captures);
  visit("ranks", r.ranks);
  visit("series", r.series);
  visit("functions", r.functions);
  visit("heat", r.heat, WhenEmpty::omit);
  visit("operations", r.operations);
}

nlohmann::ordered_json to_json(const CaptureReport& capture) {
  return write_object(kCaptureSchema, capture);
}

nlohmann::ordered_json to_json(const SpeedReport& report) {
  return write_object(kSpeedSchema, report);
}

}  // namespace xpurun::model
