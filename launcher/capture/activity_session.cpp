#include "launcher/capture/activity_session.h"

#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "common/model/documents/document_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace xpurun::launcher {

using model::ActivityStatus;

namespace {

constexpr double kPollS = 0.1;
constexpr double kFirstPollS = 0.02;  // until the first rank records
// A rank looks for requests a few times a second, and CUPTI needs time to begin and to end.
constexpr double kTimeToAttachS = 5;
constexpr double kTimeToEndS = 15;
// With this limit, a poll takes a few milliseconds.
constexpr size_t kRecordsAtOnce = 20'000;
constexpr double kBeforeS = 60;  // of the steps to compare with

wire::CaptureState state_of(const wire::CaptureHeader& header) {
  return static_cast<wire::CaptureState>(header.state.load(std::memory_order_acquire));
}

bool has_ended(const wire::CaptureHeader& header) {
  const wire::CaptureState state = state_of(header);
  return state == wire::CaptureState::done || state == wire::CaptureState::failed;
}

ActivityStatus status_of(wire::CaptureProblem problem) {
  switch (problem) {
    case wire::CaptureProblem::none:
      return ActivityStatus::complete;
    case wire::CaptureProblem::no_library:
      return ActivityStatus::no_library;
    case wire::CaptureProblem::version:
      return ActivityStatus::unknown_version;
    case wire::CaptureProblem::other_client:
      return ActivityStatus::other_client;
    case wire::CaptureProblem::client_came:
      return ActivityStatus::client_came;
    case wire::CaptureProblem::refused:
      return ActivityStatus::refused;
    default:
      return ActivityStatus::failed;
  }
}

std::string reason_of(const wire::CaptureHeader& header) {
  switch (static_cast<wire::CaptureProblem>(header.problem.load())) {
    case wire::CaptureProblem::no_object:
      return "libxpurun_cupti.so cannot be loaded";
    case wire::CaptureProblem::no_memory:
      return "no memory";
    case wire::CaptureProblem::refused:
      return fmt::format("CUPTI error {}", header.error.load());
    default:
      return "";
  }
}

}  // namespace

void ActivitySession::start(Order order, Done done) {
  current_.emplace(Current{.order = std::move(order), .done = std::move(done), .started = parts_.loop.now()});
  ++count_;
  const auto timed = parts_.collector.pids();
  for (const TrackedProcess* p : parts_.table.living_ranks()) {
    const base::Rank rank = p->record.rank;
    const bool wanted = current_->order.ranks.empty() || current_->order.ranks.contains(rank);
    if (wanted && std::find(timed.begin(), timed.end(), p->record.pid) != timed.end()) {
      current_->ranks[p->record.pid] = {.rank = rank,
                                        .local_rank = p->record.local_rank,
                                        .late_at = current_->started + base::s_to_ns(kTimeToAttachS)};
      parts_.collector.request_capture(p->record.pid, count_);
    }
  }
  timer_.after(kFirstPollS, [this] { poll(); });
}

void ActivitySession::attach(base::Pid pid, const std::function<void(int descriptor)>& answer) {
  const auto found = current_ ? current_->ranks.find(pid) : decltype(current_->ranks.end()){};
  if (!current_ || found == current_->ranks.end() || found->second.ended || found->second.memory) {
    answer(-1);
    return;
  }
  auto memory = ActivityMemory::create(current_->order.seconds);
  if (!memory) {
    base::log_warn("pid {} is not captured: {}", pid, base::to_line(memory.error()));
    answer(-1);
    return;
  }
  RankPart& rank = found->second;
  rank.memory.emplace(std::move(*memory));
  answer(rank.memory->fd());
  // The rank has its own descriptor of the memory now.
  rank.memory->close_fd();
  rank.late_at = parts_.loop.now() + base::s_to_ns(current_->order.seconds + kTimeToEndS);
}

model::EventFileHeader ActivitySession::file_header(base::Pid pid, const RankPart& rank) {
  const RankTiming* timing =
      parts_.collector.read({.pid = pid, .rank = rank.rank, .local_rank = rank.local_rank});
  return {.rank = rank.rank,
          .local_rank = rank.local_rank,
          .pid = pid,
          .host = host_,
          .gpu = timing == nullptr ? "" : timing->device_name,
          .gpu_uuid = timing == nullptr ? "" : timing->device_uuid,
          .mono_ns = base::mono_ns(),
          .wall_ns = base::wall_ns()};
}

void ActivitySession::open(base::Pid pid, RankPart& rank) {
  rank.file.emplace(parts_.storage, current_->order.directory, fmt::format("rank-{}.xev", rank.rank),
                    file_header(pid, rank));
}

void ActivitySession::open_samples(base::Pid pid, RankPart& rank) {
  rank.samples.emplace(parts_.storage, current_->order.directory, fmt::format("rank-{}.xrs", rank.rank),
                       file_header(pid, rank));
}

void ActivitySession::poll(base::Pid pid, RankPart& rank) {
  const TrackedProcess* p = parts_.table.find(pid);
  const bool alive = p != nullptr && p->alive;
  const bool late = parts_.loop.now() >= rank.late_at;
  if (!rank.memory) {
    rank.ended = late || !alive;
    return;
  }
  const bool over = has_ended(rank.memory->header()) || !alive || late;
  if (!rank.file && rank.memory->header().records.load() > 0) {
    open(pid, rank);
  }
  if (rank.file) {
    rank.file->take(*rank.memory, kRecordsAtOnce);
  }
  if (!rank.samples && rank.memory->has_samples()) {
    open_samples(pid, rank);
  }
  if (rank.samples) {
    rank.samples->take(*rank.memory, kRecordsAtOnce);
  }
  // The rest of a large recording is taken by the next polls.
  if (over && rank.memory->is_drained()) {
    rank.memory->stop();
    if (rank.file) {
      rank.file->lost(rank.memory->header().dropped.load() + rank.memory->header().no_room.load());
    }
    rank.ended = true;
  }
}

void ActivitySession::poll() {
  bool ended = true;
  bool recording = false;
  for (auto& [pid, rank] : current_->ranks) {
    if (!rank.ended) {
      poll(pid, rank);
    }
    ended = ended && rank.ended;
    recording = recording || (rank.memory && rank.memory->header().begin_ns.load() > 0);
  }
  if ((ended || recording) && !std::exchange(current_->recording, ended || recording) &&
      current_->order.recording) {
    current_->order.recording();
  }
  if (ended) {
    finish();
  } else {
    timer_.after(current_->recording ? kPollS : kFirstPollS, [this] { poll(); });
  }
}

model::RankActivity ActivitySession::result_of(base::Pid pid, const RankPart& rank) {
  model::RankActivity out{.rank = rank.rank};
  if (const RankTiming* timing =
          parts_.collector.read({.pid = pid, .rank = rank.rank, .local_rank = rank.local_rank})) {
    out.gpu_uuid = timing->device_uuid;
  }
  if (!rank.memory) {
    return out;
  }
  const wire::CaptureHeader& h = rank.memory->header();
  const auto begin = static_cast<base::MonoNs>(h.begin_ns.load());
  const auto end = static_cast<base::MonoNs>(h.end_ns.load());
  out.cupti = h.cupti_version;
  out.begin_mono_ns = begin;
  out.seconds = begin > 0 && end > begin ? base::ns_to_s(end - begin) : 0;
  out.lost = h.dropped + h.no_room;
  out.overhead_s = base::ns_to_s(static_cast<int64_t>(h.overhead_ns.load()));
  out.handling_s = base::ns_to_s(static_cast<int64_t>(h.handling_ns.load()));
  out.setup_s = base::ns_to_s(static_cast<int64_t>(h.setup_ns.load()));
  out.teardown_s = base::ns_to_s(static_cast<int64_t>(h.teardown_ns.load()));
  out.status = has_ended(h) ? status_of(static_cast<wire::CaptureProblem>(h.problem.load()))
                            : ActivityStatus::no_answer;
  out.reason = reason_of(h);
  if (rank.file) {
    out.records = rank.file->events();
    out.file = fmt::format("rank-{}.xev", rank.rank);
    if (!rank.file->status()) {
      out.status = ActivityStatus::failed;
      out.reason = base::to_line(rank.file->status().error());
    }
  }
  if (out.status == ActivityStatus::complete && out.lost > 0) {
    out.status = ActivityStatus::lossy;
  }
  out.sampling = rank.samples ? rank.samples->result(*rank.memory) : sampling_of(*rank.memory);
  return out;
}

void ActivitySession::finish() {
  model::GpuCapture out;
  base::MonoNs first = 0;
  base::MonoNs last = 0;
  for (const auto& [pid, rank] : current_->ranks) {
    out.ranks.push_back(result_of(pid, rank));
    // 0 withdraws the request, also from a rank that has not looked at it yet.
    parts_.collector.request_capture(pid, 0);
    const model::RankActivity& r = out.ranks.back();
    if (r.seconds > 0) {
      first = first == 0 ? r.begin_mono_ns : std::min(first, r.begin_mono_ns);
      last = std::max(last, r.begin_mono_ns + base::s_to_ns(r.seconds));
    }
  }
  std::sort(out.ranks.begin(), out.ranks.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  if (last > 0) {
    out.step_before_s = hooks_.step_s(current_->started - base::s_to_ns(kBeforeS), current_->started);
    out.step_during_s = hooks_.step_s(first, last);
  }
  const Current ended = std::move(*std::exchange(current_, std::nullopt));
  if (!out.ranks.empty()) {
    parts_.storage.replace(ended.order.directory + "/gpu.json", model::document_text(out, 1) + "\n");
  }
  ended.done(out);
}

}  // namespace xpurun::launcher
