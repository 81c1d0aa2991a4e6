#include "report/speed/steps/rank_events.h"

#include "report/events/op_facts.h"
#include "report/speed/steps/kept_samples.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <unordered_set>

namespace xpurun::report {

namespace {

constexpr size_t kMostSamples = 512;  // of one shape, the latest
constexpr size_t kMostEarlier = 128;  // and of those before
constexpr size_t kLeastRun = 8;       // collectives one after the other
constexpr size_t kLeastMessages = 4;  // equal messages, of which a step may have one
constexpr size_t kMostDelays = 4096;
constexpr size_t kMostEarlierDelays = 512;
constexpr size_t kMostShapes = 512;
constexpr size_t kMostReads = 1024;    // of one entry
constexpr int64_t kAtOnceNs = 50'000;  // from the end of a call to the begin of one that waited for it
constexpr uint64_t kFewBytes = 256;
constexpr uint8_t kToHost = 2;  // cudaMemcpyDeviceToHost
constexpr int64_t kBefore = std::numeric_limits<int64_t>::min();
constexpr int64_t kAfter = std::numeric_limits<int64_t>::max();

// A collective of one communicator.
struct RecordedCall {
  uint64_t sequence = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint32_t lead_us = 0;
  bool ends_together = false;
  bool sends = false;
};

constexpr int kMessages = -2;  // instead of the size of a communicator
constexpr int kReplays = -3;   // of a CUDA graph with collectives: ranks meet in them

// By communicator, or by messages that are equal but for their number.
using Calls = std::map<std::pair<uint64_t, int>, std::vector<RecordedCall>>;

// A trace and the rank's own file may hold the same call.
void put_in_order(std::vector<RecordedCall>& calls) {
  std::stable_sort(calls.begin(), calls.end(),
                   [](const RecordedCall& x, const RecordedCall& y) { return x.sequence < y.sequence; });
  calls.erase(
      std::unique(calls.begin(), calls.end(),
                  [](const RecordedCall& x, const RecordedCall& y) { return x.sequence == y.sequence; }),
      calls.end());
}

// The times in which every collective was timed: a communicator had kLeastRun timed collectives, or
// kLeastMessages messages, without a gap in their numbers. Another communicator, which the program no longer
// uses, does not end such a time.
std::vector<Hole> looked_at(const Calls& calls) {
  std::vector<Hole> periods;
  for (const auto& [identity, of] : calls) {
    const size_t least = identity.second == kMessages ? kLeastMessages : kLeastRun;
    for (size_t first = 0; first < of.size();) {
      size_t last = first;
      while (last + 1 < of.size() && of[last + 1].sequence == of[last].sequence + 1) {
        ++last;
      }
      if (last + 1 - first >= least) {
        periods.push_back({of[first].begin_ns, of[last].end_ns});
      }
      first = last + 1;
    }
  }
  std::sort(periods.begin(), periods.end(),
            [](const Hole& x, const Hole& y) { return x.begin_ns < y.begin_ns; });
  return periods;
}

// The times in which collectives were not timed, by begin.
std::vector<Hole> find_holes(const Calls& calls) {
  std::vector<Hole> out;
  for (const auto& [identity, of] : calls) {
    for (size_t i = 1; i < of.size(); ++i) {
      if (of[i].sequence > of[i - 1].sequence + 1) {
        out.push_back({of[i - 1].end_ns, of[i].begin_ns});
      }
    }
  }
  // A gap of a communicator matters inside of a period only; outside all is unknown.
  int64_t until = kBefore;
  std::vector<Hole> outside;
  for (const Hole& period : looked_at(calls)) {
    if (period.begin_ns > until) {
      outside.push_back({until, period.begin_ns});
    }
    until = std::max(until, period.end_ns);
  }
  outside.push_back({until, kAfter});
  out.insert(out.end(), outside.begin(), outside.end());
  std::sort(out.begin(), out.end(), [](const Hole& x, const Hole& y) { return x.begin_ns < y.begin_ns; });
  return out;
}

// A rank computes while its message waits for the receiver, unless its next call waits for the message: then
// nothing was left to compute. `arrivals`: by begin.
void free_senders(const std::unordered_set<uint64_t>& sends, std::vector<Arrival>& arrivals) {
  for (size_t i = 0; i < arrivals.size(); ++i) {
    const bool last = i + 1 == arrivals.size();
    if (sends.contains(arrivals[i].collective) &&
        (last || arrivals[i + 1].begin_ns > arrivals[i].end_ns + kAtOnceNs)) {
      arrivals[i].end_ns = arrivals[i].begin_ns;
    }
  }
}

// Whether a communicator is used in at least every second step.
bool meets_often(const Calls& calls, size_t steps) {
  return std::any_of(calls.begin(), calls.end(),
                     [steps](const auto& of) { return 2 * of.second.back().sequence >= steps; });
}

// Calls of one shape are numbered together.
std::string shape_of(const model::EventFile::Op& op) {
  const model::EventKey& key = op.key;
  return fmt::format("{} {} {} {} {} {} {}", op.function, shape_text(key), transposes_text(key),
                     fmt::join(key.dtype, " "), key.compute, key.epilogue, key.flags);
}

// A graph has no name that is equal on all ranks, but an order of appearance. `graphs`: by handle.
size_t number_of_graph(const model::EventFile::Op& op, std::map<int64_t, size_t>& graphs) {
  return graphs.emplace(op.key.k, graphs.size() + 1).first->second;
}

}  // namespace

void add_events(const RankRecord& rank, size_t steps, RankSteps& out) {
  Calls calls;
  std::map<std::string, KeptSamples> shapes;
  std::map<int64_t, size_t> graphs;
  KeptSamples delays(kMostDelays, kMostEarlierDelays);
  for (const model::EventFile& file : rank.events) {
    std::map<uint32_t, KeptSamples*> known;  // by entry
    std::map<uint32_t, KeptSamples> reads;
    for (const model::EventFile::Entry& entry : file.events) {
      const auto op = file.ops.find(entry.event.op);
      if (op == file.ops.end()) {
        continue;
      }
      const auto begin = static_cast<int64_t>(entry.event.begin_ns) + rank.offset_ns;
      const auto op_class = static_cast<wire::OpClass>(op->second.key.op_class);
      // In a program whose steps are replays, no collective is called but those in the graph.
      if (op_class == wire::OpClass::graph && out.source == model::StepSource::replays &&
          (op->second.key.flags & wire::kOpMeets) != 0) {
        calls[{number_of_graph(op->second, graphs), kReplays}].push_back(
            {.sequence = entry.event.sequence,
             .begin_ns = begin,
             .end_ns = begin + static_cast<int64_t>(entry.event.duration_ns),
             .lead_us = entry.event.delay_us,
             .ends_together = true});
      }
      if (const OpFacts facts = facts_of(file, op->second, entry); facts.meets || facts.pairs) {
        const int64_t end = begin + static_cast<int64_t>(entry.event.duration_ns);
        calls[{facts.identity, facts.pairs ? kMessages : facts.size}].push_back(
            {entry.event.sequence, begin, end, entry.event.delay_us, facts.ends_together,
             facts.pairs && op->second.function == "ncclSend"});
        Traffic& traffic = out.traffic[facts.identity];
        traffic.message = facts.pairs;
        traffic.sends = facts.pairs && op->second.function == "ncclSend";
        traffic.add(entry.event.sequence, static_cast<double>(op->second.work));
      } else if (op_class == wire::OpClass::memory && op->second.key.copy == kToHost &&
                 op->second.work <= kFewBytes) {
        reads.try_emplace(entry.event.op, kMostReads, kMostReads)
            .first->second.add({.at_ns = begin, .number = entry.event.sequence});
      } else if (op_class == wire::OpClass::graph ||
                 (op_class == wire::OpClass::matmul && (op->second.key.flags & wire::kOpOther) == 0)) {
        const auto [it, added] = known.emplace(entry.event.op, nullptr);
        if (added && shapes.size() < kMostShapes) {
          const std::string shape =
              op_class == wire::OpClass::matmul
                  ? shape_of(op->second)
                  : fmt::format("{}{}", kGraphShape, number_of_graph(op->second, graphs));
          it->second = &shapes.try_emplace(shape, kMostSamples, kMostEarlier).first->second;
        }
        if (it->second != nullptr) {
          it->second->add({begin, static_cast<float>(entry.event.duration_ns) * 1e-9F, entry.event.sequence});
        }
        if ((entry.event.flags & wire::kEventHostBegin) == 0) {
          delays.add({begin, static_cast<float>(entry.event.delay_us) * 1e-6F});
        }
      }
    }
    for (auto& [op, samples] : reads) {
      out.reads.push_back(std::move(samples).take());
    }
  }
  for (auto& [shape, samples] : shapes) {
    out.shapes.emplace(shape, std::move(samples).take());
  }
  out.launch_delays = std::move(delays).take();
  std::unordered_set<uint64_t> sends;
  for (auto& [comm, of] : calls) {
    put_in_order(of);
    for (const RecordedCall& call : of) {
      if (call.sends) {
        sends.insert(meeting_of(comm.first, comm.second, call.sequence));
      }
      const bool pair = comm.second == kMessages;
      // The time between two replays says nothing: the work is inside of them.
      const bool has_next = !pair && comm.second != kReplays;
      out.arrivals.push_back({.collective = meeting_of(comm.first, comm.second, call.sequence),
                              .next = has_next ? meeting_of(comm.first, comm.second, call.sequence + 1) : 0,
                              .begin_ns = call.begin_ns,
                              .end_ns = call.end_ns,
                              .lead_us = call.lead_us,
                              .pair = pair,
                              .ends_together = call.ends_together});
    }
  }
  if (!calls.empty()) {
    out.holes = rank.whole ? std::vector<Hole>() : find_holes(calls);
    out.meets = meets_often(calls, steps);
  }
  std::sort(out.arrivals.begin(), out.arrivals.end(),
            [](const Arrival& a, const Arrival& b) { return a.begin_ns < b.begin_ns; });
  free_senders(sends, out.arrivals);
}

}  // namespace xpurun::report
