#include "common/model/speed/pipeline.h"

#include "common/model/json_visitors.h"

namespace xpurun::model {

template <typename V, Self<PipelineJob> J>
void fields(V& visit, J& j) {
  visit("kind", j.kind);
  visit("type", j.type);
  visit("number", j.number);
  visit("micro_batch", j.micro_batch);
  visit("chunk", j.chunk);
  visit("step", j.step);
  visit("gpu", j.gpu);
  visit("at_least", j.at_least, WhenEmpty::omit);
  visit("begin_ns", j.begin_ns);
  visit("duration_ns", j.duration_ns);
}

template <typename V, Self<PipelineStage> S>
void fields(V& visit, S& s) {
  visit("stage", s.stage);
  visit.rank("rank", s.rank);
  visit("device", s.device);
  visit("machine", s.machine);
  visit("host", s.host);
  visit("source", s.source);
  visit("forward_s", s.forward_s);
  visit("backward_s", s.backward_s);
  visit("busy_s", s.busy_s);
  visit("bubble", s.bubble);
  visit("gpu_share", s.gpu_share);
  visit("at_least_share", s.at_least_share);
  visit("jobs", s.jobs, WhenEmpty::omit);
}

template <typename V, Self<PipelineStep> S>
void fields(V& visit, S& s) {
  visit("number", s.number);
  visit("begin_s", s.begin_s);
  visit("duration_s", s.duration_s);
  visit("complete", s.complete);
  visit("at_least", s.at_least);
  visit("jobs", s.jobs);
  visit("bubble", s.bubble);
  visit("critical", s.critical);
  visit("idle", s.idle);
}

template <typename V, Self<Pipeline> P>
void fields(V& visit, P& p) {
  visit("name", p.name);
  visit("stages", p.stages);
  visit("steps", p.steps);
  visit("at_least", p.at_least);
  visit("step_s", p.step_s);
  visit("bubble", p.bubble);
  visit("schedule", p.schedule);
  visit("critical", p.critical);
  visit("saving_s", p.saving_s);
  visit("sentence", p.sentence);
}

template <typename V, Self<PipelineReport> R>
void fields(V& visit, R& r) {
  visit("begin_ns", r.begin_ns);
  visit("sentence", r.sentence);
  visit("pipelines", r.pipelines);
  visit("notes", r.notes);
}

nlohmann::ordered_json to_json(const PipelineReport& report) {
  return write_object(kPipelineSchema, report);
}

}  // namespace xpurun::model
