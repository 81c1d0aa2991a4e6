#include "report/speed/steps/rank_events.h"

#include "report/speed/statistics.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::report {

namespace {

constexpr size_t kMostSamples = 4096;  // of one shape
constexpr size_t kMostShapes = 512;

std::string shape_of(const model::EventFile::Op& op) {
  const wire::OpKey& key = op.key;
  return fmt::format("{} {}x{}x{}x{}", op.function, key.batch, key.m, key.n, key.k);
}

}  // namespace

uint64_t collective_key(uint64_t group, uint64_t sequence) {
  uint64_t x = group * 0x9e3779b97f4a7c15 + sequence;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

void add_events(const RankInput& rank, RankSteps& out) {
  std::map<std::string, std::vector<double>> samples;
  std::vector<double> delays;
  for (const model::EventFile& file : rank.events) {
    std::map<uint32_t, std::vector<double>*> known;  // by entry
    for (const model::EventFile::Entry& entry : file.events) {
      const auto op = file.ops.find(entry.event.op);
      if (op == file.ops.end()) {
        continue;
      }
      const auto op_class = static_cast<wire::OpClass>(op->second.key.op_class);
      if (op_class == wire::OpClass::collective && entry.communicator >= 0 && entry.event.sequence != 0) {
        const uint64_t identity = file.communicators[static_cast<size_t>(entry.communicator)].identity;
        const auto begin = static_cast<int64_t>(entry.event.begin_ns) + rank.offset_ns;
        if (identity != 0) {
          out.arrivals.push_back({collective_key(identity, entry.event.sequence), begin,
                                  begin + static_cast<int64_t>(entry.event.duration_ns)});
        }
      } else if (op_class == wire::OpClass::matmul && (op->second.key.flags & wire::kOpOther) == 0) {
        const auto [it, added] = known.emplace(entry.event.op, nullptr);
        if (added && samples.size() < kMostShapes) {
          it->second = &samples[shape_of(op->second)];
        }
        if (it->second != nullptr && it->second->size() < kMostSamples) {
          it->second->push_back(static_cast<double>(entry.event.duration_ns));
        }
        if ((entry.event.flags & wire::kEventHostBegin) == 0 && delays.size() < kMostSamples) {
          delays.push_back(entry.event.delay_us * 1e-6);
        }
      }
    }
  }
  std::sort(out.arrivals.begin(), out.arrivals.end(),
            [](const Arrival& a, const Arrival& b) { return a.begin_ns < b.begin_ns; });
  for (auto& [shape, times] : samples) {
    ShapeTimes& to = out.shapes[shape];
    to.count = times.size();
    for (const double one : times) {
      to.total_ns += one;
    }
    to.median_ns = quantile(times, 0.5);
  }
  out.launch_delay_s = delays.empty() ? -1 : quantile(delays, 0.5);
}

}  // namespace xpurun::report
