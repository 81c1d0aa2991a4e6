// Spans of a made training job: all ranks load data, compute, wait for each other in the backward pass or in
// all_reduce, and step the optimizer. Tests of report/speed only.
#pragma once

#include "report/events/rank_record.h"

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace xpurun::tests {

// Milliseconds of one step of one rank.
struct StepParts {
  double data = 5;
  double forward = 30;
  double backward = 50;
  double optimizer = 10;
  double transfer = 5;
  double garbage = 0;  // inside the forward pass
  double delay = 0;    // the forward pass gets no CPU for this time
  // Parts of the time without a CPU, if the job knows them; the hypervisor's is no part of `delay`.
  double throttled = 0;
  double stolen = 0;
  double checkpoint = 0;
  double evaluation = 0;  // before the step, as the checkpoint
  double between = 2;     // outside of all spans
};

struct MadeJob {
  int ranks = 4;
  int steps = 100;
  int ranks_per_host = 0;      // 0: one host
  bool visible_calls = false;  // all_reduce is a span of its own; else it is hidden in the backward pass
  bool cpu_times = true;
  bool takers_known = false;  // who takes the CPU
  std::string gpu;
  double noise = 0.02;  // of each part, log-normal
  uint32_t seed = 1;
  int64_t begin_ns = 1'000'000'000;
  std::function<void(int rank, int step, StepParts&)> change = [](int, int, StepParts&) {};
};

// Factors on the steps of a machine that is shared with others: heavy tails, loads of 10 to 30 % for 5 to 30
// steps, and a slow drift.
inline std::vector<double> shared_machine(size_t steps, uint32_t seed) {
  std::mt19937 random(seed);
  std::student_t_distribution<double> tail(3);
  std::uniform_real_distribution<double> chance;
  std::normal_distribution<double> normal(0, 0.004);
  std::vector<double> out;
  double drift = 0;
  double load = 0;
  size_t until = 0;
  for (size_t i = 0; i < steps; ++i) {
    drift = 0.995 * drift + normal(random);
    if (i >= until) {
      const bool busy = load == 0 && chance(random) < 0.7;
      load = busy ? 0.1 + 0.2 * chance(random) : 0;
      until = i + 5 + static_cast<size_t>((busy ? 25 : 60) * chance(random));
    }
    out.push_back(std::exp(drift + 0.05 * std::clamp(tail(random), -3.0, 8.0)) * (1 + load));
  }
  return out;
}

inline int64_t ms(double value) {
  return static_cast<int64_t>(value * 1e6);
}

inline std::vector<report::RankRecord> make_ranks(const MadeJob& job) {
  using model::Stage;
  std::mt19937 random(job.seed);
  std::normal_distribution<double> normal(0, job.noise);
  const auto noisy = [&](double value) { return value * std::exp(normal(random)); };
  std::vector<report::RankRecord> out(static_cast<size_t>(job.ranks));
  std::vector<int64_t> used(out.size(), 0);
  std::vector<int64_t> delays(out.size(), 0);
  std::vector<int64_t> throttled(out.size(), 0);
  std::vector<int64_t> stolen(out.size(), 0);
  for (int r = 0; r < job.ranks; ++r) {
    report::RankRecord& rank = out[static_cast<size_t>(r)];
    rank.rank = r;
    rank.host = job.ranks_per_host > 0 ? "host" + std::to_string(r / job.ranks_per_host) : "a";
    rank.gpu = job.gpu.empty() ? "" : std::to_string(r);
    rank.spans.resize(1);
    rank.spans[0].names = {"",         "DataLoader.__next__", "Net",       "backward",
                           "SGD.step", "all_reduce",          "world",     "gc",
                           "save",     "train.py:40 (main)",  "evaluation"};
  }
  int64_t now = job.begin_ns;
  for (int i = 0; i < job.steps; ++i) {
    std::vector<StepParts> parts(out.size());
    std::vector<int64_t> at(out.size(), now);
    int64_t last = 0;
    double transfer = 0;
    for (size_t r = 0; r < out.size(); ++r) {
      StepParts& p = parts[r];
      job.change(static_cast<int>(r), i, p);
      for (double* part : {&p.data, &p.forward, &p.backward, &p.optimizer}) {
        *part = noisy(*part);
      }
      const double before = p.checkpoint + p.evaluation + p.between + p.data + p.forward + p.garbage +
                            p.delay + p.stolen + p.backward;
      last = std::max(last, now + ms(before));
      transfer = std::max(transfer, p.transfer);
    }
    const int64_t together = last + ms(transfer);
    int64_t latest = 0;
    for (size_t r = 0; r < out.size(); ++r) {
      const StepParts& p = parts[r];
      model::SpanFile& file = out[r].spans[0];
      int64_t& t = at[r];
      const auto add = [&](Stage stage, uint32_t name, double length, double cpu) -> model::Span& {
        file.spans.push_back({.begin_ns = t,
                              .duration_ns = ms(length),
                              .cpu_ns = job.cpu_times ? ms(cpu) : -1,
                              .stage = stage,
                              .name = name,
                              .place = 9,
                              .thread = 100});
        t += ms(length);
        return file.spans.back();
      };
      if (p.checkpoint > 0) {
        add(Stage::checkpoint, 8, p.checkpoint, p.checkpoint);
      }
      if (p.evaluation > 0) {
        add(Stage::evaluation, 10, p.evaluation, p.evaluation).inferred = true;
      }
      t += ms(p.between);
      add(Stage::data, 1, p.data, 0.1 * p.data);
      if (p.garbage > 0) {
        const int64_t begin = t;
        t += ms(p.forward / 2);
        add(Stage::garbage, 7, p.garbage, p.garbage);
        t = begin;
      }
      add(Stage::forward, 2, p.forward + p.garbage + p.delay + p.stolen, p.forward + p.garbage);
      if (job.visible_calls) {
        add(Stage::backward, 3, p.backward, p.backward);
        model::Span& call = add(Stage::communication, 5, static_cast<double>(together - t) / 1e6, 0.1);
        call.group = 6;
        call.sequence = static_cast<uint64_t>(i) + 1;
        call.bytes = 4096;
      } else {
        add(Stage::backward, 3, static_cast<double>(together - t) / 1e6, p.backward);
      }
      t = together;
      add(Stage::optimizer, 4, p.optimizer, p.optimizer);
      latest = std::max(latest, t);
      const double cpu = 0.1 * p.data + p.forward + p.garbage + p.backward + p.optimizer;
      used[r] += ms(cpu);
      delays[r] += ms(p.delay);
      throttled[r] += ms(p.throttled);
      // As the supervisor counts: of a thread that never sleeps.
      stolen[r] += static_cast<int64_t>(p.stolen / (cpu + p.stolen) * static_cast<double>(t - now));
      file.loads.push_back({.at_ns = t,
                            .cpu_ns = used[r],
                            .run_delay_ns = delays[r],
                            .major_faults = 0,
                            .throttled_ns = job.takers_known ? throttled[r] : -1,
                            .stolen_ns = job.takers_known ? stolen[r] : -1});
    }
    // The next step begins on each rank when its optimizer is done; a little difference does not matter here.
    now = latest;
  }
  return out;
}

}  // namespace xpurun::tests
