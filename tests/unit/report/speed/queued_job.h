// A simulator of hosts and GPUs: each rank's host issues work into the queue of its GPU and runs ahead, until
// the queue is full or the program reads its loss. The collectives of a step begin on a rank when its work
// before them is done, and end when the last rank has begun. Tests only.
#pragma once

#include "report/events/rank_record.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace xpurun::tests {

// Milliseconds of one step of one rank.
struct QueuedStep {
  double host = 3;    // to issue the work
  double gpu = 28;    // of its own work
  double before = 0;  // the host does something else before the forward pass
  double asleep = 0;  // so long it sleeps there, which takes no CPU
  double writes = 0;  // likewise: it writes a checkpoint
  int stops = 0;      // so many times within the step, the host waits for the GPU
  double matmul = 1;  // factor on each matmul; `gpu` says the sum
  int rows = 2048;    // shape of the matmuls
  int passes = 1;     // forward ones; `gpu` is with one
};

struct QueuedJob {
  int ranks = 2;
  int steps = 400;
  int read_every = 10;    // the loss is read every so many steps
  int queue = 600;        // works that fit into the queue
  double transfer = 0.3;  // of each of the four collectives of a step
  double noise = 0.01;
  bool first_timed = true;  // the first collective of each step, and all of four in 32; else one in 64
  uint32_t seed = 1;
  std::function<void(int rank, int step, QueuedStep&)> change = [](int, int, QueuedStep&) {};
};

struct QueuedRun {
  std::vector<report::RankRecord> ranks;
  std::vector<int64_t> ends;  // of each step on the GPU of rank 0, ns
  // Steps may differ by turns; this is the middle one.
  double usual_ms(size_t from, size_t to) const {
    std::vector<double> all;
    for (size_t i = from; i < to; ++i) {
      all.push_back(static_cast<double>(ends[i + 1] - ends[i]) * 1e-6);
    }
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
    return all[all.size() / 2];
  }
  double step_ms(size_t from, size_t to) const {
    return static_cast<double>(ends[to] - ends[from]) * 1e-6 / static_cast<double>(to - from);
  }
};

class QueuedSimulation {
 public:
  explicit QueuedSimulation(const QueuedJob& job) : job_(job), random_(job.seed), noise_(0, job.noise) {
    out_.ranks.resize(static_cast<size_t>(job.ranks));
    at_.resize(out_.ranks.size());
    for (int r = 0; r < job.ranks; ++r) {
      report::RankRecord& rank = out_.ranks[static_cast<size_t>(r)];
      rank.rank = r;
      rank.host = "a";
      rank.gpu = std::to_string(r);
      rank.spans.resize(1);
      rank.spans[0].names = {"",         "DataLoader.__next__", "forward (inferred)", "backward",
                             "SGD.step", "train.py:40 (main)",  "torch.save"};
      rank.events.resize(1);
      rank.events[0].communicators = {
          {.slot = 0, .identity = 77, .rank = r, .nranks = job.ranks, .name = "world"}};
    }
  }

  QueuedRun run() {
    for (int step = 0; step < job_.steps; ++step) {
      one_step(step);
    }
    for (report::RankRecord& rank : out_.ranks) {
      auto& events = rank.events[0].events;
      std::stable_sort(events.begin(), events.end(),
                       [](const auto& a, const auto& b) { return a.event.begin_ns < b.event.begin_ns; });
    }
    return std::move(out_);
  }

 private:
  static constexpr int kForward = 8;
  static constexpr int kBackward = 8;
  static constexpr int kOptimizer = 4;
  static constexpr int kWorks = kForward + kBackward + kOptimizer;
  static constexpr int kCollectives = 4;

  // Milliseconds.
  struct Rank {
    double host = 1000;
    double gpu = 1000;            // end of the work so far
    double communication = 1000;  // end of the collectives so far
    std::deque<double> queue;     // begins of the works on the GPU
    int works = 0;
    double asleep = 0;                // in all
    std::map<int, uint64_t> numbers;  // of the works, by rows
    bool work_due = false;            // the next work is timed as the first of its step
  };

  static int64_t ns(double ms) { return static_cast<int64_t>(ms * 1e6); }
  double noisy(double value) { return value * std::exp(noise_(random_)); }

  void add_span(size_t r, model::Stage stage, uint32_t name, double from, double to) {
    out_.ranks[r].spans[0].spans.push_back({.begin_ns = ns(from),
                                            .duration_ns = ns(to) - ns(from),
                                            .cpu_ns = ns(to) - ns(from),
                                            .stage = stage,
                                            .name = name,
                                            .place = 5,
                                            .thread = 100});
  }

  void add_event(size_t r, const char* function, wire::OpClass op_class, uint32_t op, int rows,
                 uint64_t sequence, double called, double begin, double end, bool first) {
    model::EventFile& file = out_.ranks[r].events[0];
    model::EventFile::Op& entry = file.ops[op];
    entry.function = function;
    entry.key.op_class = static_cast<uint8_t>(op_class);
    entry.key.m = rows;
    entry.key.comm = op_class == wire::OpClass::collective ? 0 : model::kNoCommunicator;
    model::EventFile::Entry event;
    event.event.begin_ns = static_cast<uint64_t>(ns(begin));
    event.event.duration_ns = static_cast<uint64_t>(ns(end) - ns(begin));
    event.event.op = op;
    event.event.sequence = static_cast<uint32_t>(sequence);
    event.event.delay_us = static_cast<uint32_t>(std::max(begin - called, 0.0) * 1e3);
    event.event.source = static_cast<uint8_t>(
        op_class == wire::OpClass::collective ? wire::Source::nccl_profiler : wire::Source::events);
    event.event.flags = first ? wire::kEventFirstOfStep : 0;
    event.communicator = op_class == wire::OpClass::collective ? 0 : -1;
    file.events.push_back(event);
  }

  // The host issues one work; the GPU does it after the one before.
  void work(size_t r, const QueuedStep& step, double host_ms, double gpu_ms, double not_before, bool stops) {
    Rank& rank = at_[r];
    rank.host += host_ms;
    if (rank.queue.size() >= static_cast<size_t>(job_.queue)) {
      rank.host = std::max(rank.host, rank.queue.front());
      rank.queue.pop_front();
    }
    const double called = rank.host;
    const double begin = std::max({rank.gpu, called + 0.005, not_before});
    rank.gpu = begin + gpu_ms;
    rank.queue.push_back(begin);
    const bool first = std::exchange(rank.work_due, false);
    const uint64_t number = rank.numbers[step.rows]++;
    if (++rank.works % 64 == 0 || first || std::has_single_bit(number)) {
      add_event(r, "cublasGemmEx", wire::OpClass::matmul, step.rows == 2048 ? 1 : 2, step.rows, number,
                called, begin, rank.gpu, first);
    }
    rank.host = stops ? std::max(rank.host, rank.gpu + 0.02) : rank.host;
  }

  void one_step(int number) {
    const size_t ranks = out_.ranks.size();
    std::vector<QueuedStep> steps(ranks);
    std::vector<std::array<double, kCollectives>> ready(ranks);
    std::vector<std::array<double, kCollectives>> called(ranks);
    for (size_t r = 0; r < ranks; ++r) {
      QueuedStep& step = steps[r];
      job_.change(static_cast<int>(r), number, step);
      step.host = noisy(step.host);
      step.gpu = noisy(step.gpu);
      Rank& rank = at_[r];
      const double host_ms = step.host / kWorks;
      const double gpu_ms = step.gpu / kWorks;
      const int stop_every = step.stops > 0 ? std::max(kWorks / step.stops, 1) : 0;
      const auto stops = [&](int i) { return stop_every > 0 && i % stop_every == stop_every - 1; };
      rank.work_due = job_.first_timed && number % 32 < 4;
      if (step.writes > 0) {
        add_span(r, model::Stage::checkpoint, 6, rank.host, rank.host + step.writes);
        rank.host += step.writes;
      }
      const double data = rank.host;
      rank.host += 0.1;
      add_span(r, model::Stage::data, 1, data, rank.host);
      rank.host += step.before + step.asleep;
      const double forward = data + 0.1;
      for (int i = 0; i < step.passes * kForward; ++i) {
        work(r, step, host_ms, gpu_ms, 0, stops(i));
      }
      add_span(r, model::Stage::forward, 2, forward, rank.host);
      const double backward = rank.host;
      for (int i = 0; i < kBackward; ++i) {
        work(r, step, host_ms, gpu_ms, 0, stops(kForward + i));
        if (i % 2 == 1) {
          ready[r][static_cast<size_t>(i / 2)] = rank.gpu;
          called[r][static_cast<size_t>(i / 2)] = rank.host;
        }
      }
      add_span(r, model::Stage::backward, 3, backward, rank.host);
    }
    for (size_t c = 0; c < kCollectives; ++c) {
      std::vector<double> begin(ranks);
      double last = 0;
      for (size_t r = 0; r < ranks; ++r) {
        begin[r] = std::max(ready[r][c], at_[r].communication);
        last = std::max(last, begin[r]);
      }
      ++sequence_;
      const bool first = job_.first_timed && c == 0;
      const bool timed = job_.first_timed ? first || number % 32 < 4 : sequence_ % 64 == 0;
      for (size_t r = 0; r < ranks; ++r) {
        at_[r].communication = last + job_.transfer;
        if (timed) {
          add_event(r, "ncclAllReduce", wire::OpClass::collective, 10, 0, sequence_, called[r][c], begin[r],
                    at_[r].communication, first);
        }
      }
    }
    for (size_t r = 0; r < ranks; ++r) {
      Rank& rank = at_[r];
      const double optimizer = rank.host;
      for (int i = 0; i < kOptimizer; ++i) {
        work(r, steps[r], steps[r].host / kWorks, steps[r].gpu / kWorks, rank.communication, false);
      }
      add_span(r, model::Stage::optimizer, 4, optimizer, rank.host);
      if (number % job_.read_every == job_.read_every - 1) {
        rank.host = std::max(rank.host, rank.gpu);
      }
      rank.asleep += steps[r].asleep;
      out_.ranks[r].spans[0].loads.push_back({.at_ns = ns(rank.host), .cpu_ns = ns(rank.host - rank.asleep)});
    }
    out_.ends.push_back(ns(at_[0].gpu));
  }

  const QueuedJob& job_;
  QueuedRun out_;
  std::vector<Rank> at_;
  std::mt19937 random_;
  std::normal_distribution<double> noise_;
  uint64_t sequence_ = 0;
};

inline QueuedRun simulate(const QueuedJob& job) {
  return QueuedSimulation(job).run();
}

}  // namespace xpurun::tests
