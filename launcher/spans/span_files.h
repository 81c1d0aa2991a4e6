// SpanFiles: the span files of one kind of all ranks, ranks/<rank>/spans-<n>.xsp. Their size per rank is
// bounded: a new file replaces the oldest one. Event loop's thread only.
#pragma once

#include "common/model/timing/span_encoder.h"
#include "common/model/timing/span_file.h"
#include "launcher/storage/appended_file.h"

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

// The process to which the spans belong.
struct SpanSource {
  base::Pid pid = 0;
  base::Rank rank = base::kNoRank;
  int local_rank = -1;
  std::string host;
  uint64_t process = 0;                   // distinguishes successive processes with one pid
  std::string backend;                    // of torch's default process group; empty: unknown
  const std::vector<std::string>& names;  // of the indexes in the spans
};

class SpanFiles {
 public:
  // `ranks_dir`: parent of the ranks' directories. `most_bytes`: limit for all files of one rank; 0: no
  // files. `prefix`: beginning of the names.
  SpanFiles(Storage& storage, std::string ranks_dir, uint64_t most_bytes,
            std::string_view prefix = model::kSpanFilePrefix)
      : storage_(storage), ranks_dir_(std::move(ranks_dir)), most_bytes_(most_bytes), prefix_(prefix) {}

  // `lost`: spans of this process that were lost so far. Sources without a rank get no files.
  void add(const SpanSource& who, std::span<const model::Span> spans, uint64_t lost);
  void add(const SpanSource& who, const model::LoadSample& load);
  void add(const SpanSource& who, std::span<const model::ShortCalls> calls);
  // Writes blocks that are old enough.
  void flush(base::MonoNs now);
  // Writes everything.
  void flush_all();

 private:
  struct Open {
    AppendedFile file;
    model::SpanEncoder encoder;
    uint64_t process = 0;
    uint64_t bytes() const { return file.bytes() + encoder.pending(); }
  };
  struct RankFiles {
    std::deque<std::string> closed;  // oldest first
    int next = 1;
    std::optional<Open> open;
    base::MonoNs flushed = 0;
    uint64_t process = 0;  // the latest
    uint64_t lost = 0;     // of that process, as last written
    bool broken = false;   // files cannot be written; reported once
  };

  // The open file for this process, with room for more; null if there is none.
  Open* ready(RankFiles& files, const SpanSource& who);
  static void write(RankFiles& files);
  static void close(RankFiles& files);
  static bool has_failed(RankFiles& files);

  Storage& storage_;
  std::string ranks_dir_;
  uint64_t most_bytes_;
  std::string prefix_;
  std::map<base::Rank, RankFiles> ranks_;
};

}  // namespace xpurun::launcher
