// Reads *.stacks.json quickly: frames that look the same, their addresses aside, are parsed once and shared,
// whichever process has them. Everything else goes through common/model as always, and so does a file with
// anything unusual in it, so that the result is the same.
#pragma once

#include "common/model/stack_snapshot.h"

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace xpurun::report {

// The frames of shared ones are those of some process: their `pc` and `offset` mean nothing here.
using FrameRefs = std::vector<const model::Frame*>;  // innermost first

struct Snapshot {
  model::ProcessStacks process;   // its threads have no frames
  std::vector<FrameRefs> frames;  // by thread; owned by the pool of the reader
};

// Not thread-safe; one for each thread that reads. Frames live as long as the pool.
class FramePool {
 public:
  // `text` is one frame as JSON, `pc_begin` and `pc_end` bound the part of it that differs between processes.
  // Null if it is no frame.
  const model::Frame* find(std::string_view text, size_t pc_begin, size_t pc_end);
  const model::Frame* keep(model::Frame frame);

 private:
  std::deque<model::Frame> frames_;
  std::unordered_map<std::string, const model::Frame*> by_text_;
  std::string key_;
};

base::Result<Snapshot> read_snapshot(const std::string& path, FramePool& pool);
// The same for the content of a file; empty if it holds something that only the model's reader can judge.
std::optional<Snapshot> parse_snapshot(std::string_view text, FramePool& pool);
Snapshot share_frames(model::ProcessStacks p, FramePool& pool);
// With all its frames again, or with those of the threads that `wanted` names.
model::ProcessStacks with_frames(const Snapshot& s, const std::vector<bool>& wanted);

// Reads files in the background and gives them out in their order.
class SnapshotStream {
 public:
  explicit SnapshotStream(std::vector<std::string> paths);
  ~SnapshotStream();
  SnapshotStream(const SnapshotStream&) = delete;
  SnapshotStream& operator=(const SnapshotStream&) = delete;

  // As often as there are paths. The frames live as long as the pools.
  base::Result<Snapshot> next();
  // To be kept for as long as frames are used; the stream ends.
  std::vector<std::unique_ptr<FramePool>> finish();

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_;
};

}  // namespace xpurun::report
