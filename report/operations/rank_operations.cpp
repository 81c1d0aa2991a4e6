#include "report/operations/rank_operations.h"

#include "common/base/hash.h"
#include "common/base/strings.h"
#include "report/events/op_facts.h"
#include "report/operations/breakdown.h"
#include "report/operations/call_numbers.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>

namespace xpurun::report {

namespace {

using model::EventFile;
using wire::OpClass;

std::optional<WorkKind> kind_of_work(const OpFacts& facts) {
  if (!facts.on_gpu) {
    return std::nullopt;
  }
  return facts.op_class == OpClass::collective ? WorkKind::communication
         : facts.op_class == OpClass::memory   ? WorkKind::memory
                                               : WorkKind::compute;
}

class Rows {
 public:
  explicit Rows(RankOperations& out) : out_(out) {}

  uint32_t of(OperationKey key, const model::EventKey& wire_key = {}) {
    const auto [it, added] = known_.emplace(key, static_cast<uint32_t>(out_.rows.size()));
    if (added) {
      out_.rows.push_back({.key = std::move(key), .wire_key = wire_key});
    }
    return it->second;
  }

  // A timed call of `row`.
  void add(uint32_t row, double ns, uint64_t work) {
    OperationRow& to = out_.rows[row];
    to.least_work = to.ns.empty() ? work : std::min(to.least_work, work);
    to.most_work = std::max(to.most_work, work);
    to.work += static_cast<double>(work);
    to.ns.push_back(static_cast<float>(ns));
  }

 private:
  RankOperations& out_;
  std::map<OperationKey, uint32_t> known_;
};

class EventReader {
 public:
  EventReader(const RankRecord& rank, RankOperations& out, Rows& rows)
      : rank_(rank), out_(out), rows_(rows) {}

  void read() {
    for (const EventFile& file : rank_.events) {
      read(file);
    }
    estimate();
    out_.breakdown = breakdown_of(std::move(work_));
    out_.breakdown.rank = rank_.rank;
  }

 private:
  // Timed calls of one entry of a file on one communicator.
  struct Series {
    uint32_t row = 0;
    std::optional<WorkKind> kind;
    NumberedCalls numbers;
    bool numbered = true;
    bool meets = false;
    bool ends_together = false;
    uint64_t identity = 0;
    int size = 0;
    uint64_t work = 0;
    uint64_t count = 0;
    double total_ns = 0;
  };

  void read(const EventFile& file) {
    out_.lost += static_cast<int64_t>(file.lost);
    // "In place": no call was lost, and all have their times on the GPU. Only then are unions and overlaps
    // exact.
    work_.in_place = work_.in_place && file.lost == 0;
    out_.gpu = out_.gpu.empty() ? file.header.gpu : out_.gpu;
    out_.communicators.insert(out_.communicators.end(), file.communicators.begin(), file.communicators.end());
    std::unordered_map<uint64_t, size_t> known;  // by entry and communicator; index into series_
    for (const EventFile::Entry& entry : file.events) {
      const model::TimedEvent& e = entry.event;
      const auto op = file.ops.find(e.op);
      // The duration of a group is that of no message in it.
      if (op == file.ops.end() || !is_possible(e) ||
          static_cast<wire::Source>(e.source) == wire::Source::event_group) {
        continue;
      }
      const uint64_t id = uint64_t{e.op} << 32 | static_cast<uint32_t>(entry.communicator);
      const auto [it, added] = known.emplace(id, series_.size());
      if (added) {
        begin_series(file, op->second, entry);
      }
      add(series_[it->second], e);
    }
  }

  void begin_series(const EventFile& file, const EventFile::Op& op, const EventFile::Entry& entry) {
    const model::EventCommunicator* comm =
        entry.communicator < 0 ? nullptr : &file.communicators[static_cast<size_t>(entry.communicator)];
    Series& s = series_.emplace_back();
    const OpFacts facts = facts_of(file, op, entry);
    s.kind = kind_of_work(facts);
    s.work = op.work;
    s.meets = facts.meets;
    s.ends_together = facts.ends_together;
    s.identity = facts.identity;
    s.size = facts.size;
    if (s.kind) {
      s.row = rows_.of(key_of(op, comm), op.key);
    }
    if (s.kind == WorkKind::communication && comm != nullptr && !facts.pairs) {
      s.numbered = entry.event.sequence != 0;
      s.numbers = {comm->identity, static_cast<uint64_t>(comm->nranks)};
    } else {
      // Distinct from communicators, whose size has 31 bits.
      s.numbers = {static_cast<uint64_t>(file.header.pid), uint64_t{1} << 40 | entry.event.op};
    }
  }

  void add(Series& s, const model::TimedEvent& e) {
    if (!s.kind) {
      return;
    }
    const auto duration = static_cast<double>(e.duration_ns);
    rows_.add(s.row, duration, s.work);
    out_.rows[s.row].sources |= 1u << e.source;
    ++s.count;
    s.total_ns += duration;
    if (s.numbered) {
      numbers_.add(s.numbers, e.sequence);
    }
    const auto begin = static_cast<int64_t>(e.begin_ns);
    const auto end = begin + static_cast<int64_t>(e.duration_ns);
    const bool in_place = is_in_place(e);
    if (static_cast<wire::Source>(e.source) != wire::Source::host_call) {
      work_.parts[static_cast<size_t>(*s.kind)].intervals.push_back({begin, end});
      work_.in_place = work_.in_place && in_place;
    }
    if (in_place && static_cast<OpClass>(out_.rows[s.row].wire_key.op_class) == OpClass::matmul) {
      // The event's delay is the time from the call on the host to the start on the GPU.
      launch_row_ = launch_row_ ? launch_row_ : rows_.of({.kind = OperationKind::launch});
      rows_.add(*launch_row_, e.delay_us * 1e3, 0);
    }
    if (s.meets && in_place) {
      out_.arrivals.push_back({.meeting = meeting_of(s.identity, s.size, e.sequence),
                               .begin_ns = begin + rank_.offset_ns,
                               .end_ns = end + rank_.offset_ns,
                               .row = s.row,
                               .ends_together = s.ends_together});
    }
  }

  // Calls that were timed once only are taken to be sampled as the others of their kind.
  void estimate() {
    std::array<double, 3> timed{};
    std::array<double, 3> calls{};
    for (const Series& s : series_) {
      const double scale = s.kind && s.numbered ? numbers_.scale(s.numbers) : -1;
      if (scale > 0) {
        timed[static_cast<size_t>(*s.kind)] += static_cast<double>(s.count);
        calls[static_cast<size_t>(*s.kind)] += scale * static_cast<double>(s.count);
        work_.numbers_known = true;
      }
    }
    for (const Series& s : series_) {
      if (!s.kind) {
        continue;
      }
      const auto kind = static_cast<size_t>(*s.kind);
      double scale = s.numbered ? numbers_.scale(s.numbers) : -1;
      if (scale < 0 && s.numbered && timed[kind] > 0) {
        scale = calls[kind] / timed[kind];
      }
      const auto count = static_cast<double>(s.count);
      TimedWork::Part& part = work_.parts[kind];
      const double factor = std::max(scale, 1.0);
      part.timed += count;
      part.calls += factor * count;
      part.estimated_s += factor * s.total_ns * 1e-9;
      OperationRow& row = out_.rows[s.row];
      if (static_cast<OpClass>(row.wire_key.op_class) == OpClass::kernel) {
        work_.untraced_s += factor * s.total_ns * 1e-9;
      }
      if (scale > 0) {
        row.calls = std::max(row.calls, 0.0) + scale * count;
      }
    }
  }

  const RankRecord& rank_;
  RankOperations& out_;
  Rows& rows_;
  std::vector<Series> series_;
  CallNumbers numbers_;
  TimedWork work_;
  std::optional<uint32_t> launch_row_;
};

OperationKey program_call(const model::SpanFile& file, uint32_t name, uint32_t place) {
  return {.kind = OperationKind::program_call,
          .name = base::sanitize(file.names[name]),
          .type = base::sanitize(file.names[place])};
}

void read_spans(const RankRecord& rank, RankOperations& out, Rows& rows) {
  int64_t first = std::numeric_limits<int64_t>::max();
  int64_t last = std::numeric_limits<int64_t>::min();
  for (const model::SpanFile& file : rank.spans) {
    out.lost += static_cast<int64_t>(file.lost);
    std::unordered_map<uint64_t, uint32_t> known;   // by name and place
    std::unordered_map<uint32_t, uint64_t> groups;  // hash by index
    for (const model::Span& span : file.spans) {
      const int64_t end = span.begin_ns + span.duration_ns;
      if (span.duration_ns > kLongestNs || span.begin_ns > kLatestNs) {
        continue;
      }
      first = std::min(first, span.begin_ns);
      last = std::max(last, end);
      if (span.stage != model::Stage::communication) {
        continue;
      }
      const auto [row, added] = known.emplace(uint64_t{span.name} << 32 | span.place, 0);
      if (added) {
        row->second = rows.of(program_call(file, span.name, span.place));
      }
      rows.add(row->second, static_cast<double>(span.duration_ns), span.bytes);
      if (span.group != 0 && span.sequence != 0) {
        const auto [group, is_new] = groups.emplace(span.group, 0);
        if (is_new) {
          // Clocks are aligned by the ends of meetings; a send may end long before its recv.
          const std::string& text = file.names[span.group];
          group->second = model::is_pair_group(text) ? 0 : base::hash_text(text);
        }
        if (group->second == 0) {
          continue;
        }
        out.arrivals.push_back({.meeting = meeting_of(group->second, -1, span.sequence),
                                .begin_ns = span.begin_ns + rank.offset_ns,
                                .end_ns = end + rank.offset_ns,
                                .row = row->second,
                                .ends_together = rank.gpu.empty()});
      }
    }
  }
  for (OperationRow& row : out.rows) {
    if (row.key.kind == OperationKind::program_call) {
      row.calls = std::max(row.calls, 0.0) + static_cast<double>(row.ns.size());
    }
  }
  for (const model::SpanFile& file : rank.spans) {
    for (const model::ShortCalls& others : file.short_calls) {
      OperationRow& row = out.rows[rows.of(program_call(file, others.name, others.place))];
      row.calls = std::max(row.calls, 0.0) + static_cast<double>(others.calls);
      row.untimed_s += static_cast<double>(others.total_ns) * 1e-9;
      last = std::max(last, others.begin_ns + others.duration_ns);
    }
  }
  out.span_window_s = last > first ? static_cast<double>(last - first) * 1e-9 : 0;
}

}  // namespace

RankOperations operations_of(const RankRecord& rank) {
  RankOperations out;
  Rows rows(out);
  EventReader(rank, out, rows).read();
  read_spans(rank, out, rows);
  return out;
}

}  // namespace xpurun::report
