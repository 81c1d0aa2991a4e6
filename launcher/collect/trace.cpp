#include "launcher/collect/trace.h"

#include "common/base/clock.h"
#include "common/model/json/json_text.h"
#include "common/model/speed/trace_manifest.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

namespace xpurun::launcher {

namespace {

constexpr std::array<std::pair<std::string_view, uint32_t>, 4> kTraceKinds = {
    {{"matmul", kTraceMatmul},
     {"collective", kTraceCollective},
     {"memory", kTraceMemory},
     {"host", kTraceHost}}};

}  // namespace

uint32_t trace_kind(std::string_view word) {
  const auto* found = std::find_if(kTraceKinds.begin(), kTraceKinds.end(),
                                   [&](const auto& kind) { return kind.first == word; });
  return found == kTraceKinds.end() ? 0 : found->second;
}

bool Trace::wanted(const wire::Event& event, const wire::Segment& memory) const {
  if (event.begin_ns < static_cast<uint64_t>(start_)) {
    return false;
  }
  const auto source = static_cast<wire::Source>(event.source);
  const bool by_host = source == wire::Source::host_call || source == wire::Source::host_query;
  if (by_host && (request_.kinds & kTraceHost) != 0) {
    return true;
  }
  switch (static_cast<wire::OpClass>(memory.ops[event.op].key.op_class)) {
    case wire::OpClass::matmul:
    case wire::OpClass::graph:
      return (request_.kinds & kTraceMatmul) != 0;
    case wire::OpClass::collective:
      return (request_.kinds & kTraceCollective) != 0;
    case wire::OpClass::memory:
      return (request_.kinds & kTraceMemory) != 0;
    case wire::OpClass::host:
      return (request_.kinds & kTraceHost) != 0;
    default:
      return (request_.kinds & kTraceGpu) == kTraceGpu;
  }
}

void Trace::open(RankTrace& rank, const EventFiles::Source& who) {
  rank.file.emplace(*storage_, directory_, fmt::format("rank-{}.xev", who.rank), EventFiles::header_of(who));
  rank.pid = who.pid;
}

void Trace::note_failure(RankTrace& rank) {
  if (rank.problem.empty() && rank.file && !rank.file->status()) {
    rank.problem = base::to_line(rank.file->status().error());
  }
}

void Trace::add(const EventFiles::Source& who, std::span<const wire::Event> events,
                const wire::Segment& memory) {
  RankTrace& rank = ranks_[who.rank];
  note_failure(rank);
  for (const wire::Event& event : events) {
    if (rank.full || !rank.problem.empty()) {
      return;
    }
    if (!wanted(event, memory)) {
      continue;
    }
    if (rank.events >= request_.count) {
      rank.full = true;
      return;
    }
    if (!rank.file) {
      open(rank, who);
    }
    if (rank.pid != who.pid) {
      // The new process has other table entries.
      rank.problem = "the rank was restarted";
      return;
    }
    rank.file->add(event, memory);
    ++rank.events;
  }
  if (rank.file) {
    rank.file->flush();
  }
}

bool Trace::complete(const std::set<base::Rank>& living) const {
  return std::all_of(ranks_.begin(), ranks_.end(), [&](const auto& entry) {
    return entry.second.events >= request_.count || !entry.second.problem.empty() ||
           living.count(entry.first) == 0;
  });
}

void Trace::flush() {
  for (auto& [number, rank] : ranks_) {
    if (rank.file) {
      rank.file->flush();
    }
  }
}

std::string Trace::shortfall(const RankTrace& rank, std::string_view ended) const {
  if (request_.count_is_limit) {
    const bool full = rank.full || (ended == kTraceLimit && rank.events >= request_.count);
    return full ? fmt::format("only the first {} calls are there: later ones found no room", request_.count)
           : rank.events == 0 ? "no call was timed"
                              : "";
  }
  if (rank.events >= request_.count) {
    return "";
  }
  const std::string calls = fmt::format("{} of {} calls", rank.events, request_.count);
  return ended == kTraceTimeout    ? fmt::format("{} in {:.0f} s", calls, request_.timeout_s)
         : ended == kTraceComplete ? fmt::format("{} before the rank ended", calls)
                                   : fmt::format("{} before the trace ended", calls);
}

void Trace::finish(std::string_view ended) {
  model::TraceManifest out{.ended = std::string(ended),
                           .timeline = request_.timeline,
                           .count = request_.count,
                           .start_wall_ns = request_.start_wall_ns,
                           .start_mono_ns = start_};
  for (const auto& [word, bit] : kTraceKinds) {
    if ((request_.kinds & bit) != 0) {
      out.kinds.emplace_back(word);
    }
  }
  for (auto& [number, rank] : ranks_) {
    note_failure(rank);
    out.ranks.push_back({.rank = number,
                         .events = rank.events,
                         .file = rank.file ? fmt::format("rank-{}.xev", number) : "",
                         .problem = rank.problem.empty() ? shortfall(rank, ended) : rank.problem});
    rank.file.reset();
  }
  storage_->make_dirs(directory_);
  storage_->replace(fmt::format("{}/{}", directory_, model::kTraceFile), model::json_text(to_json(out), 1));
}

}  // namespace xpurun::launcher
