#include "report/timeline/open_calls.h"

#include "common/base/strings.h"
#include "common/model/collectives.h"
#include "common/model/dump_manifest.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"
#include "common/model/stacks/stack_file.h"
#include "report/events/event_activity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <tuple>

namespace xpurun::report {

namespace {

using model::CallSource;
using model::CallStage;
using model::CollectiveCall;

// Numbers of the rows, apart from those of streams.
constexpr uint32_t kOpenRows = 1 << 21;
constexpr std::array<std::string_view, 3> kOpenRowNames = {
    "not finished, NCCL", "not finished, torch.distributed", "not finished, stack at the hang"};

constexpr double kLongestAgeS = 30.0 * 24 * 3600;

// Bytes of an element, by torch's words; 0: unknown.
uint64_t size_of_type(std::string_view dtype) {
  constexpr std::array<std::pair<std::string_view, uint64_t>, 13> kSizes{{{"int8", 1},
                                                                          {"uint8", 1},
                                                                          {"bool", 1},
                                                                          {"float8_e4m3fn", 1},
                                                                          {"float8_e5m2", 1},
                                                                          {"float16", 2},
                                                                          {"bfloat16", 2},
                                                                          {"int32", 4},
                                                                          {"uint32", 4},
                                                                          {"float32", 4},
                                                                          {"int64", 8},
                                                                          {"uint64", 8},
                                                                          {"float64", 8}}};
  const auto* found =
      std::find_if(kSizes.begin(), kSizes.end(), [&](const auto& one) { return one.first == dtype; });
  return found == kSizes.end() ? 0 : found->second;
}

// NCCL's identity is written in hexadecimal; that of a process group is any text.
uint64_t meeting_of_call(const model::Communicator& comm, uint64_t sequence) {
  if (comm.source == CallSource::torch) {
    return comm.id.empty() ? 0 : meeting_of(comm.id, sequence);
  }
  uint64_t identity = 0;
  const char* end = comm.id.data() + comm.id.size();
  const auto read = std::from_chars(comm.id.data(), end, identity, 16);
  return read.ec == std::errc() && read.ptr == end ? meeting_of(identity, comm.size, sequence) : 0;
}

Call describe(const model::Communicator& comm, const CollectiveCall& call) {
  Call out{.category = Category::collective, .open = true};
  const std::string op = base::sanitize(call.op);
  const std::string dtype = base::sanitize(call.dtype);
  const uint64_t element = size_of_type(call.dtype);
  const bool sized = element > 0 && call.count > 0 && call.count <= UINT64_MAX / element;
  out.name =
      fmt::format("{}{}{} (not finished)", op, sized ? " " + base::human_size(call.count * element) : "",
                  dtype.empty() ? "" : " " + dtype);
  const auto put = [&](const char* name, auto value) { out.arguments.push_back({name, value}); };
  put("not_finished", int64_t{1});
  put("progress", std::string(model::name_of(call.stage)));
  put("operation", op);
  if (sized) {
    put("bytes", static_cast<int64_t>(call.count * element));
  }
  if (call.count > 0) {
    put("count", static_cast<int64_t>(call.count));
  }
  if (!dtype.empty()) {
    put("dtype", dtype);
  }
  if (call.root >= 0) {
    put("root", int64_t{call.root});
  }
  if (call.peer >= 0) {
    put("peer", int64_t{call.peer});
  }
  put("communicator", base::sanitize(comm.id));
  if (!comm.name.empty()) {
    put("communicator_name", base::sanitize(comm.name));
  }
  put("communicator_rank", int64_t{comm.rank});
  put("communicator_size", int64_t{comm.size});
  put("source", std::string(model::name_of(comm.source)));
  if (!call.where.file.empty()) {
    put("place", base::sanitize(fmt::format("{}:{}", call.where.file, call.where.line)));
  }
  return out;
}

// Whether the call had surely not ended: what was launched may have, unless its communicator knows.
bool is_open(const model::Communicator& comm, const CollectiveCall& call) {
  return call.stage == CallStage::called || (call.stage != CallStage::done && comm.done_known);
}

class Reader {
 public:
  void add(const model::CollectiveFacts& facts, const std::string& host, int64_t dump_ns) {
    for (const model::RankCollectives& rank : facts.ranks) {
      for (const model::Communicator& comm : rank.communicators) {
        forget_done(rank, comm);
        for (const CollectiveCall& call : comm.calls) {
          put(rank, comm, call, false, host, dump_ns);
        }
        for (const CollectiveCall& call : comm.point_to_point) {
          put(rank, comm, call, true, host, dump_ns);
        }
      }
    }
  }
  // How the ranks have ended.
  void add_end(const model::CollectiveFacts& facts) {
    for (const model::RankCollectives& rank : facts.ranks) {
      for (const model::Communicator& comm : rank.communicators) {
        forget_done(rank, comm);
      }
    }
  }
  OpenCalls take() {
    OpenCalls out;
    for (auto& [key, call] : open_) {
      out[std::get<0>(key)].push_back(std::move(call));
    }
    return out;
  }

 private:
  using Key = std::tuple<base::Rank, base::Pid, CallSource, std::string, bool, std::string, uint64_t>;

  static Key key_of(const model::RankCollectives& rank, const model::Communicator& comm, bool message,
                    const std::string& op, uint64_t sequence) {
    return {rank.rank, rank.pid, comm.source, comm.id, message, op, sequence};
  }

  void forget_done(const model::RankCollectives& rank, const model::Communicator& comm) {
    std::erase_if(open_, [&](const auto& one) {
      const auto& [r, pid, source, id, message, op, sequence] = one.first;
      const bool same = r == rank.rank && pid == rank.pid && source == comm.source && id == comm.id;
      // Messages are listed as long as they have not ended.
      return same && (message || sequence <= comm.done);
    });
  }

  void put(const model::RankCollectives& rank, const model::Communicator& comm, const CollectiveCall& call,
           bool message, const std::string& host, int64_t dump_ns) {
    const Key key =
        key_of(rank, comm, message, message ? fmt::format("{} {}", call.op, call.peer) : "", call.sequence);
    if (!is_open(comm, call) || rank.rank < 0 || !(call.age_s >= 0 && call.age_s < kLongestAgeS)) {
      open_.erase(key);
      return;
    }
    open_[key] = {.host = host,
                  .begin_ns = dump_ns - base::s_to_ns(call.age_s),
                  .dump_ns = dump_ns,
                  .meeting = message || comm.size < 2 ? 0 : meeting_of_call(comm, call.sequence),
                  .sequence = static_cast<uint32_t>(call.sequence),
                  .row = comm.source == CallSource::torch ? OpenRow::torch : OpenRow::nccl,
                  .call = describe(comm, call)};
  }

  std::map<Key, OpenCall> open_;
};

// The Python functions in which the main thread of a culprit stood since its position changed for the last
// time, the outermost first.
void add_stack(const model::DumpManifest& dump, const std::string& directory, base::Rank rank,
               OpenCalls& out) {
  const auto seen = std::find_if(dump.ranks.begin(), dump.ranks.end(),
                                 [&](const model::RankObservation& r) { return r.rank == rank; });
  const auto dumped = std::find_if(dump.processes.begin(), dump.processes.end(), [&](const auto& p) {
    return p.rank == rank && p.role == model::ProcessRole::rank && !p.file.empty();
  });
  if (seen == dump.ranks.end() || dumped == dump.processes.end() ||
      !(seen->still_s >= 0 && seen->still_s < kLongestAgeS)) {
    return;
  }
  const auto stacks = model::load_process_stacks(fmt::format("{}/{}", directory, dumped->file));
  const model::ThreadStack* main = stacks ? stacks->main_thread() : nullptr;
  if (main == nullptr) {
    return;
  }
  int64_t depth = 0;
  for (auto frame = main->frames.rbegin(); frame != main->frames.rend(); ++frame) {
    if (frame->kind != model::FrameKind::python) {
      continue;
    }
    Call call{.name = base::sanitize(frame->func), .category = Category::python, .open = true};
    call.arguments.push_back({"place", base::sanitize(fmt::format("{}:{}", frame->file, frame->line))});
    out[rank].push_back({.host = dumped->host.empty() ? dump.host : dumped->host,
                         .begin_ns = dump.wall_ns - base::s_to_ns(seen->still_s),
                         // Equal slices would have no order.
                         .dump_ns = dump.wall_ns - depth++,
                         .row = OpenRow::stack,
                         .call = std::move(call)});
  }
}

// Of the dump of the last hang.
void add_stacks_of_culprits(const model::RunDir& run, OpenCalls& out) {
  const auto manifest = model::load_run_manifest(run.run_json());
  if (!manifest || manifest->stalls.empty() || manifest->stalls.back().cleared_s >= 0) {
    return;
  }
  const model::Stall& stall = manifest->stalls.back();
  const std::string directory = run.file(stall.dump);
  const auto dump = model::load_dump_manifest(directory + "/dump.json");
  if (stall.dump.empty() || !dump || dump->wall_ns < base::s_to_ns(kLongestAgeS) ||
      dump->wall_ns > kLatestNs) {
    return;
  }
  for (const base::Rank rank : stall.verdict.ranks.ranks()) {
    add_stack(*dump, directory, rank, out);
  }
}

}  // namespace

OpenCalls open_calls(const std::string& run_dir) {
  Reader reader;
  const model::RunDir run(run_dir);
  for (const std::string& dump : run.dumps()) {
    const auto manifest = model::load_dump_manifest(dump + "/dump.json");
    if (!manifest || manifest->wall_ns < base::s_to_ns(kLongestAgeS) || manifest->wall_ns > kLatestNs) {
      continue;
    }
    if (const auto facts =
            model::load_collective_facts(fmt::format("{}/{}", dump, model::kCollectivesFile))) {
      reader.add(*facts, manifest->host, manifest->wall_ns);
    }
  }
  if (const auto ended = model::load_collective_facts(run.file(model::kCollectivesFile))) {
    reader.add_end(*ended);
  }
  OpenCalls out = reader.take();
  add_stacks_of_culprits(run, out);
  return out;
}

void add_open_calls(Activity& activity, const std::vector<OpenCall>& calls) {
  if (calls.empty()) {
    return;
  }
  std::set<uint64_t> ended;
  for (const Slice& slice : activity.slices) {
    if (slice.meeting != 0) {
      ended.insert(slice.meeting);
    }
  }
  for (const OpenCall& open : calls) {
    if (open.meeting != 0 && ended.contains(open.meeting)) {
      continue;  // after the dump
    }
    activity.slices.push_back(
        {.begin_ns = open.begin_ns,
         .duration_ns = open.dump_ns - open.begin_ns,
         .meeting = open.meeting,
         .call = static_cast<uint32_t>(activity.calls.size()),
         .track = activity.track(open.row == OpenRow::stack ? TrackKind::python : TrackKind::communication,
                                 kOpenRows + static_cast<uint32_t>(open.row),
                                 kOpenRowNames[static_cast<size_t>(open.row)]),
         .sequence = open.sequence});
    activity.calls.push_back(open.call);
  }
}

}  // namespace xpurun::report
