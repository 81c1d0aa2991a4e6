#include "launcher/collect/event_files.h"

#include "common/base/output/log.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

namespace {
// A rank's disk limit is divided into this many files. Over the limit, the oldest file is removed.
constexpr uint64_t kFiles = 8;
// A block is written at this size or at this age. Each block costs eight bytes in addition to its events.
constexpr size_t kBlockBytes = 4 * 1024;
constexpr double kLongestWaitS = 3;
}  // namespace

void EventFiles::add(const Source& who, std::span<const wire::Event> events, const wire::Segment& memory,
                     uint64_t dropped) {
  if (most_bytes_ == 0 || events.empty() || who.rank == base::kNoRank) {
    return;
  }
  RankFiles& files = ranks_[who.rank];
  if (!ready(files, who)) {
    files.failed += events.size();
    return;
  }
  if (dropped > files.dropped) {
    files.open->lost(dropped - files.dropped);
  }
  files.dropped = dropped;
  for (const wire::Event& event : events) {
    files.open->add(event, memory);
    if (files.open->pending() >= kBlockBytes) {
      write(files, base::mono_ns());
      if (!ready(files, who)) {
        return;
      }
    }
  }
}

// Opens a file for this process if none is open, and removes old files to stay within the limit.
bool EventFiles::ready(RankFiles& files, const Source& who) {
  if (has_failed(files)) {
    return false;
  }
  if (files.open && files.pid != who.pid) {
    write(files, base::mono_ns());
    close(files);
  }
  if (files.open && files.open->bytes() + 2 * kBlockBytes <= most_bytes_ / kFiles) {
    return true;
  }
  if (files.open) {
    write(files, base::mono_ns());
    close(files);
  }
  if (files.pid != who.pid) {
    files.pid = who.pid;
    files.dropped = 0;
  }
  while (files.closed.size() >= kFiles - 1) {
    storage_.remove(files.closed.front().path);
    files.closed.pop_front();
  }
  files.open.emplace(storage_, fmt::format("{}/{}", ranks_dir_, who.rank),
                     fmt::format("events-{}.xev", files.next++), header_of(who));
  files.flushed = base::mono_ns();
  return !has_failed(files);
}

model::EventFileHeader EventFiles::header_of(const Source& who) {
  return {.rank = who.rank,
          .local_rank = who.local_rank,
          .pid = who.pid,
          .host = who.host,
          .gpu = who.gpu,
          .gpu_uuid = who.gpu_uuid,
          .mono_ns = base::mono_ns(),
          .wall_ns = base::wall_ns()};
}

void EventFiles::write(RankFiles& files, base::MonoNs now) {
  files.flushed = now;
  files.open->flush();
}

void EventFiles::close(RankFiles& files) {
  files.closed.push_back({files.open->path(), files.open->bytes()});
  files.open.reset();
}

bool EventFiles::has_failed(RankFiles& files) {
  if (!files.broken && files.open && !files.open->status()) {
    base::log_warn("no more event files: {}", base::to_line(files.open->status().error()));
    files.broken = true;
  }
  return files.broken;
}

void EventFiles::flush(base::MonoNs now) {
  for (auto& [rank, files] : ranks_) {
    if (files.open && files.open->pending() > 0 && base::ns_to_s(now - files.flushed) >= kLongestWaitS) {
      write(files, now);
    }
  }
}

void EventFiles::flush_all() {
  for (auto& [rank, files] : ranks_) {
    if (files.open) {
      write(files, base::mono_ns());
    }
  }
}

uint64_t EventFiles::failed(base::Rank rank) const {
  const auto it = ranks_.find(rank);
  return it == ranks_.end() ? 0 : it->second.failed;
}

}  // namespace xpurun::launcher
