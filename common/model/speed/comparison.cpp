#include "common/model/speed/comparison.h"

#include "common/model/json_visitors.h"

namespace xpurun::model {

template <typename V, Self<ComparedMetric> M>
void fields(V& visit, M& m) {
  visit("kind", m.kind);
  visit("name", m.name);
  visit("a_s", m.a_s);
  visit("b_s", m.b_s);
  visit("a_spread_s", m.a_spread_s, WhenEmpty::omit);
  visit("b_spread_s", m.b_spread_s, WhenEmpty::omit);
  if (m.kind == MetricKind::matmul) {
    visit("a_tflops", m.a_tflops);
    visit("b_tflops", m.b_tflops);
  }
  visit("a_count", m.a_count);
  visit("b_count", m.b_count);
  visit("effect", m.effect);
  visit("superiority", m.superiority);
  visit("p", m.p);
  visit("q", m.q);
  visit("step_share", m.step_share);
  visit("ranks", m.ranks);
  visit("judgement", m.judgement);
}

template <typename V, Self<ComparedSide> S>
void fields(V& visit, S& s) {
  visit("name", s.name);
  visit("ranks", s.ranks);
  visit("steps", s.steps);
  visit("step_s", s.step_s);
  visit("gpu", s.gpu);
  visit("finding", s.finding);
  visit("note", s.note);
}

template <typename V, Self<Comparison> C>
void fields(V& visit, C& c) {
  visit("a", c.a);
  visit("b", c.b);
  visit("sentence", c.sentence);
  visit("least_effect", c.least_effect);
  visit("most_q", c.most_q);
  visit("metrics", c.metrics);
  visit("only_a", c.only_a);
  visit("only_b", c.only_b);
}

nlohmann::ordered_json to_json(const Comparison& comparison) {
  return write_object(kComparisonSchema, comparison);
}

}  // namespace xpurun::model
