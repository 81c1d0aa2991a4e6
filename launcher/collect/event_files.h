// EventFiles: the event files of all ranks, ranks/<rank>/events-<n>.xev. Their size per rank is bounded: a
// new file replaces the oldest one. Event loop's thread only.
#pragma once

#include "launcher/collect/event_writer.h"

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace xpurun::launcher {

class EventFiles {
 public:
  // `ranks_dir`: parent of the ranks' directories. `most_bytes`: limit for all files of one rank; 0: no
  // files.
  EventFiles(Storage& storage, std::string ranks_dir, uint64_t most_bytes)
      : storage_(storage), ranks_dir_(std::move(ranks_dir)), most_bytes_(most_bytes) {}

  struct Source {
    base::Pid pid = 0;
    base::Rank rank = base::kNoRank;
    int local_rank = -1;
    std::string host;
    std::string gpu;
    std::string gpu_uuid;
  };
  // The first block of a file that begins now.
  static model::EventFileHeader header_of(const Source& who);

  // `dropped`: events lost so far because the ring was full. The table entries of all events must be ready.
  // Processes without a rank get no files.
  void add(const Source& who, std::span<const wire::Event> events, const wire::Segment& memory,
           uint64_t dropped);
  // Writes blocks that are large or old enough.
  void flush(base::MonoNs now);
  // Writes everything.
  void flush_all();
  // Events lost because a file could not be written.
  uint64_t failed(base::Rank rank) const;

 private:
  struct File {
    std::string path;
    uint64_t bytes;
  };
  struct RankFiles {
    std::deque<File> closed;  // oldest first
    int next = 1;
    base::Pid pid = 0;  // process of the open file
    std::optional<EventWriter> open;
    base::MonoNs flushed = 0;
    uint64_t dropped = 0;  // that process's lost events, as last reported
    uint64_t failed = 0;
    bool broken = false;  // files cannot be written; reported once
  };

  bool ready(RankFiles& files, const Source& who);
  static void write(RankFiles& files, base::MonoNs now);
  static void close(RankFiles& files);
  // Whether the storage has reported a failure of the open file. Logs the failure once.
  static bool has_failed(RankFiles& files);

  Storage& storage_;
  std::string ranks_dir_;
  uint64_t most_bytes_;
  std::map<base::Rank, RankFiles> ranks_;
};

}  // namespace xpurun::launcher
