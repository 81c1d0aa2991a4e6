// A simulator of training pipelines on GPUs: the host of each rank issues work and messages in order and runs
// ahead; a message begins when the work before it and the messages before it are done, and ends when both of
// its ranks have begun. The ranks of a stage (tensor parallelism) reduce after each pass. Tests only.
#pragma once

#include "report/events/rank_record.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace xpurun::tests {

// Milliseconds of one step of one rank.
struct StageStep {
  double forward = 4;  // of a micro-batch on the GPU; backward takes twice as long
  double host = 0.2;   // to issue a pass of a micro-batch
  double input = 0;    // the host waits for its batch
  double before = 0;   // the host does something else
  double extra = 0;    // of work on the GPU before the first micro-batch
  int extra_calls = 1;
  int extra_rows = 8192;  // 2048: the matmuls of the forward pass
  int reads = 0;          // values of the GPU that the host waits for at the end
};

struct QueuedPipeline {
  int stages = 2;
  int tensor = 1;  // ranks of a stage
  int micro_batches = 4;
  int steps = 300;
  int read_every = 10;
  double transfer = 0.2;
  double noise = 0.01;
  uint32_t seed = 1;
  std::function<void(int rank, int step, StageStep&)> change = [](int, int, StageStep&) {};
};

struct PipelineRun {
  std::vector<report::RankRecord> ranks;
  std::vector<double> ends;  // of each step on the first rank's GPU, ms

  // Every so many steps the host has lost its lead; this is the middle one.
  double usual_ms(size_t from, size_t to) const {
    std::vector<double> all;
    for (size_t i = from; i < to; ++i) {
      all.push_back(ends[i + 1] - ends[i]);
    }
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
    return all[all.size() / 2];
  }
  double step_ms(size_t from, size_t to) const {
    return (ends[to] - ends[from]) / static_cast<double>(to - from);
  }
};

class PipelineSimulation {
 public:
  explicit PipelineSimulation(const QueuedPipeline& job)
      : job_(job), random_(job.seed), noise_(0, job.noise) {
    const int ranks = job.stages * job.tensor;
    out_.ranks.resize(static_cast<size_t>(ranks));
    at_.resize(out_.ranks.size());
    for (int r = 0; r < ranks; ++r) {
      report::RankRecord& rank = out_.ranks[static_cast<size_t>(r)];
      rank.rank = r;
      rank.host = "a";
      rank.gpu = std::to_string(r);
      rank.spans.resize(1);
      rank.spans[0].names = {"",         "DataLoader.__next__", "forward", "backward",
                             "SGD.step", "train.py:40 (main)"};
      rank.events.resize(1);
      // Slot 0 is of the stage, the others of the pairs.
      rank.events[0].communicators = {{.slot = 0,
                                       .identity = 500U + static_cast<uint64_t>(r / job.tensor),
                                       .rank = r % job.tensor,
                                       .nranks = job.tensor}};
    }
  }

  PipelineRun run() {
    for (int step = 0; step < job_.steps; ++step) {
      number_ = step;
      timed_ = step % 32 < 6;
      for (size_t r = 0; r < at_.size(); ++r) {
        at_[r].todo = calls_of(r);
        at_[r].next = 0;
        at_[r].work_due = job_.tensor == 1 || timed_;
        at_[r].collective_due = job_.tensor > 1;
      }
      work_through();
      out_.ends.push_back(at_[0].gpu);
    }
    for (report::RankRecord& rank : out_.ranks) {
      auto& events = rank.events[0].events;
      std::stable_sort(events.begin(), events.end(),
                       [](const auto& a, const auto& b) { return a.event.begin_ns < b.event.begin_ns; });
    }
    return std::move(out_);
  }

 private:
  enum class Kind { data, host, work, meet, read, pass_ends };
  struct Call {
    Kind kind = Kind::host;
    double host = 0;  // ms
    double gpu = 0;
    int rows = 2048;
    std::vector<size_t> ranks;  // of a meeting; a message's sender first
    bool message = false;
    std::pair<model::Stage, uint32_t> stage{};  // of the pass that ends here
  };
  struct Rank {
    double host = 1000;
    double gpu = 1000;
    double communication = 1000;
    double pass_began = 1000;
    std::vector<Call> todo;
    size_t next = 0;
    std::optional<double> ready;  // of the meeting that it stands in
    double called = 0;
    std::map<int, uint64_t> works;  // by rows
    int reads = 0;
    bool work_due = false;  // the next one is timed as the first of its step
    bool collective_due = false;
  };

  static int64_t ns(double ms) { return static_cast<int64_t>(ms * 1e6); }
  double noisy(double value) { return value * std::exp(noise_(random_)); }
  size_t stage_of(size_t r) const { return r / static_cast<size_t>(job_.tensor); }

  std::vector<Call> calls_of(size_t r) {
    StageStep step;
    job_.change(static_cast<int>(r), number_, step);
    std::vector<Call> out;
    const auto tensor = static_cast<size_t>(job_.tensor);
    const size_t stage = stage_of(r);
    const size_t last = static_cast<size_t>(job_.stages) - 1;
    const auto message = [&](size_t from, size_t to) {
      out.push_back(
          {.kind = Kind::meet, .host = 0.05, .gpu = job_.transfer, .ranks = {from, to}, .message = true});
    };
    const auto pass = [&](model::Stage of, uint32_t name, double gpu) {
      for (int i = 0; i < 4; ++i) {
        out.push_back({.kind = Kind::work,
                       .host = noisy(step.host) / 4,
                       .gpu = noisy(gpu) / 4,
                       .rows = of == model::Stage::forward ? 2048 : 1024});
      }
      if (tensor > 1) {
        std::vector<size_t> peers;
        for (size_t t = 0; t < tensor; ++t) {
          peers.push_back(stage * tensor + t);
        }
        out.push_back({.kind = Kind::meet, .host = 0.02, .gpu = job_.transfer, .ranks = peers});
      }
      out.push_back({.kind = Kind::pass_ends, .stage = {of, name}});
    };
    out.push_back({.kind = Kind::data, .host = 0.1 + step.input});
    out.push_back({.kind = Kind::host, .host = step.before});
    for (int i = 0; i < (step.extra > 0 ? step.extra_calls : 0); ++i) {
      out.push_back(
          {.kind = Kind::work, .host = 0.1, .gpu = step.extra / step.extra_calls, .rows = step.extra_rows});
    }
    for (int b = 0; b < job_.micro_batches; ++b) {
      if (stage > 0) {
        message(r - tensor, r);
      }
      pass(model::Stage::forward, 2, step.forward);
      if (stage < last) {
        message(r, r + tensor);
      }
    }
    for (int b = 0; b < job_.micro_batches; ++b) {
      if (stage < last) {
        message(r + tensor, r);
      }
      pass(model::Stage::backward, 3, 2 * step.forward);
      if (stage > 0) {
        message(r, r - tensor);
      }
    }
    out.push_back({.kind = Kind::work, .host = 0.1, .gpu = 0.5});
    out.push_back({.kind = Kind::pass_ends, .stage = {model::Stage::optimizer, 4}});
    const bool reads = number_ % job_.read_every == job_.read_every - 1;
    for (int i = 0; i < step.reads + (reads ? 1 : 0); ++i) {
      out.push_back({.kind = Kind::read, .host = 0.02});
    }
    return out;
  }

  void work_through() {
    for (bool some = true; some;) {
      some = false;
      for (size_t r = 0; r < at_.size(); ++r) {
        while (at_[r].next < at_[r].todo.size() && take(r, at_[r].todo[at_[r].next])) {
          ++at_[r].next;
          some = true;
        }
      }
    }
  }

  // False if the rank stands in a meeting.
  bool take(size_t r, const Call& call) {
    Rank& rank = at_[r];
    if (call.kind == Kind::meet) {
      return meet(r, call);
    }
    const double began = rank.host;
    rank.host += call.host;
    switch (call.kind) {
      case Kind::data:
        add_span(r, model::Stage::data, 1, began);
        rank.pass_began = rank.host;
        break;
      case Kind::work:
        work(r, call);
        break;
      case Kind::read:
        rank.host = std::max(rank.host, rank.gpu) + 0.02;
        if (++rank.reads % 16 == 0) {
          add_event(r, "cudaMemcpyAsync", wire::OpClass::memory, 5, 4, static_cast<uint64_t>(rank.reads),
                    rank.host - 0.04, rank.host - 0.03, rank.host - 0.02, false);
        }
        break;
      case Kind::pass_ends:
        add_span(r, call.stage.first, call.stage.second, rank.pass_began);
        rank.pass_began = rank.host;
        break;
      default:
        rank.pass_began = rank.host;
        break;
    }
    return true;
  }

  void work(size_t r, const Call& call) {
    Rank& rank = at_[r];
    const double begin = std::max(rank.gpu, rank.host + 0.005);
    rank.gpu = begin + call.gpu;
    // With collectives, the first of these is timed in each step, and the first work in those timed as a
    // whole.
    const bool first = std::exchange(rank.work_due, false);
    const uint64_t number = rank.works[call.rows]++;
    if (number % 16 == 15 || first || std::has_single_bit(number)) {
      add_event(r, "cublasGemmEx", wire::OpClass::matmul, static_cast<uint32_t>(call.rows / 1024), call.rows,
                number, rank.host, begin, rank.gpu, first);
    }
  }

  bool meet(size_t r, const Call& call) {
    Rank& rank = at_[r];
    if (!rank.ready) {
      rank.host += call.host;
      rank.called = rank.host;
      rank.ready = std::max({rank.communication, rank.gpu, rank.host + 0.005});
    }
    double last = 0;
    for (const size_t other : call.ranks) {
      const Rank& o = at_[other];
      const bool there = o.ready && o.next < o.todo.size() && o.todo[o.next].kind == Kind::meet &&
                         o.todo[o.next].ranks == call.ranks;
      if (!there) {
        return false;
      }
      last = std::max(last, *o.ready);
    }
    const uint64_t number = ++numbers_[call.ranks];
    for (const size_t other : call.ranks) {
      Rank& o = at_[other];
      const double end = last + call.gpu;
      add_meeting(other, call, number, *o.ready, end);
      o.communication = end;
      // The sender computes on; who receives or reduces waits.
      o.gpu = call.message && other == call.ranks[0] ? o.gpu : std::max(o.gpu, end);
      o.ready.reset();
      o.next += other == r ? 0 : 1;
    }
    return true;
  }

  void add_meeting(size_t r, const Call& call, uint64_t number, double begin, double end) {
    const bool first = !call.message && std::exchange(at_[r].collective_due, false);
    if (!timed_ && !first) {
      return;
    }
    if (!call.message) {
      add_event(r, "ncclAllReduce", wire::OpClass::collective, 10, 0, number, at_[r].called, begin, end,
                first);
      return;
    }
    const bool sends = call.ranks[0] == r;
    const size_t peer = sends ? call.ranks[1] : call.ranks[0];
    const bool higher = peer > r;
    const uint32_t op = 20U + (sends ? 1U : 0U) + (higher ? 2U : 0U);
    model::EventFile& file = out_.ranks[r].events[0];
    const uint32_t slot = higher ? 2 : 1;
    auto comm = std::find_if(file.communicators.begin(), file.communicators.end(),
                             [slot](const auto& c) { return c.slot == slot; });
    if (comm == file.communicators.end()) {
      file.communicators.push_back(
          {.slot = slot, .identity = 1000 + std::min(r, peer), .rank = higher ? 0 : 1, .nranks = 2});
      comm = file.communicators.end() - 1;
    }
    add_event(r, sends ? "ncclSend" : "ncclRecv", wire::OpClass::collective, op, 0, number, at_[r].called,
              begin, end, false, static_cast<int>(comm - file.communicators.begin()));
    file.ops[op].work = 1 << 20;
    file.ops[op].key.peer = higher ? 1 : 0;
  }

  void add_span(size_t r, model::Stage stage, uint32_t name, double from) {
    const int64_t took = ns(at_[r].host) - ns(from);
    out_.ranks[r].spans[0].spans.push_back({.begin_ns = ns(from),
                                            .duration_ns = took,
                                            .cpu_ns = took,
                                            .stage = stage,
                                            .name = name,
                                            .place = 5,
                                            .thread = 100});
  }

  void add_event(size_t r, const char* function, wire::OpClass op_class, uint32_t op, int rows,
                 uint64_t sequence, double called, double begin, double end, bool first,
                 int communicator = 0) {
    model::EventFile& file = out_.ranks[r].events[0];
    const bool collective = op_class == wire::OpClass::collective;
    model::EventFile::Op& entry = file.ops[op];
    entry.function = function;
    entry.key.op_class = static_cast<uint8_t>(op_class);
    entry.key.m = rows;
    entry.key.copy = op_class == wire::OpClass::memory ? 2 : 0;
    entry.work = op_class == wire::OpClass::memory ? 4 : 1 << 16;
    entry.key.comm =
        collective ? file.communicators[static_cast<size_t>(communicator)].slot : model::kNoCommunicator;
    model::EventFile::Entry event;
    event.event = {.begin_ns = static_cast<uint64_t>(ns(begin)),
                   .duration_ns = static_cast<uint64_t>(ns(end) - ns(begin)),
                   .op = op,
                   .sequence = static_cast<uint32_t>(sequence),
                   .delay_us = static_cast<uint32_t>(std::max(begin - called, 0.0) * 1e3),
                   .source = static_cast<uint8_t>(wire::Source::events),
                   .flags = static_cast<uint8_t>(first ? wire::kEventFirstOfStep : 0)};
    event.communicator = collective ? communicator : -1;
    file.events.push_back(event);
  }

  const QueuedPipeline& job_;
  PipelineRun out_;
  std::vector<Rank> at_;
  std::mt19937 random_;
  std::normal_distribution<double> noise_;
  std::map<std::vector<size_t>, uint64_t> numbers_;
  int number_ = 0;
  bool timed_ = false;
};

inline PipelineRun simulate(const QueuedPipeline& job) {
  return PipelineSimulation(job).run();
}

}  // namespace xpurun::tests
