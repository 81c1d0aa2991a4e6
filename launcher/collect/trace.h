// Trace: the next N calls of every rank from one moment on, requested while the job runs. A trace is a
// directory traces/<n>-<name>/ with one event file per rank and trace.json, which holds the request and its
// result. Event loop's thread only. The caller raises the timing level.
#pragma once

#include "launcher/collect/event_files.h"
#include "launcher/collect/event_writer.h"

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace xpurun::launcher {

// Kinds of events; the first three have xpu_timer's numbers.
enum TraceKind : uint32_t {
  kTraceMatmul = 1u << 0,  // also graph launches
  kTraceCollective = 1u << 1,
  kTraceMemory = 1u << 2,
  // Host time of hooked calls and everything else measured by the host's clock. Ranks record host times of
  // calls only while a trace asks for them.
  kTraceHost = 1u << 3,
};
// The default kinds. If all kinds are chosen, kernels outside of library calls are included.
inline constexpr uint32_t kTraceGpu = kTraceMatmul | kTraceCollective | kTraceMemory;

struct TraceRequest {
  uint32_t count = 1000;       // events per rank
  int64_t start_wall_ns = 0;   // 0: now
  uint32_t kinds = kTraceGpu;  // TraceKind
  double timeout_s = 60;       // counted from the start; then the trace ends, even if incomplete
  std::string name;            // last part of the directory's name
  std::string timeline;        // entry of --timeline that wants the trace; empty: a request
  // Time or steps end the trace, so that fewer calls are no shortfall.
  bool count_is_limit = false;
};

inline constexpr uint32_t kMostTraceEvents = 1'000'000;
inline constexpr double kLongestTraceWaitS = 86'400;
inline constexpr double kLongestTraceS = 3'600;

// Maps the word of a kind in messages and options ("matmul", ...) to its bit; 0 for any other word.
uint32_t trace_kind(std::string_view word);

// How a trace ended.
inline constexpr std::string_view kTraceComplete = "complete";
inline constexpr std::string_view kTraceTimeout = "timeout";
// Every rank has delivered the most calls that it may, before the time or the chosen steps have ended.
inline constexpr std::string_view kTraceLimit = "limit of calls";

class Trace {
 public:
  // The directory is created with the first file.
  Trace(Storage& storage, TraceRequest request, std::string directory, base::MonoNs start)
      : storage_(&storage), request_(std::move(request)), directory_(std::move(directory)), start_(start) {}

  // Ranks from which events are expected.
  void expect(base::Rank rank) { ranks_[rank]; }
  void add(const EventFiles::Source& who, std::span<const wire::Event> events, const wire::Segment& memory);
  // Whether every expected rank that lives has delivered the requested number of events.
  bool complete(const std::set<base::Rank>& living) const;
  // Passes all collected events to the storage.
  void flush();
  // Writes trace.json after the storage has replied to flush(), so that it can name the ranks whose events
  // are not on disk or that are short of calls. `ended`: one of the words above, "reset", "end of the run".
  void finish(std::string_view ended);

  const TraceRequest& request() const { return request_; }
  base::MonoNs start() const { return start_; }

 private:
  struct RankTrace {
    std::optional<EventWriter> file;
    base::Pid pid = 0;
    uint64_t events = 0;
    bool full = false;  // more than the requested calls came
    std::string problem;
  };

  static void note_failure(RankTrace& rank);
  // Which calls are missing; empty: none.
  std::string shortfall(const RankTrace& rank, std::string_view ended) const;
  bool wanted(const wire::Event& event, const wire::Segment& memory) const;
  void open(RankTrace& rank, const EventFiles::Source& who);

  Storage* storage_;
  TraceRequest request_;
  std::string directory_;
  base::MonoNs start_;
  std::map<base::Rank, RankTrace> ranks_;
};

}  // namespace xpurun::launcher
