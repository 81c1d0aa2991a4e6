// Reads *.stacks.json quickly: frames that are equal except for their addresses are parsed once and shared
// between all processes. Everything else, and any file with an unusual form, goes through common/model, so
// the result is the same.
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

// A shared frame has `pc` and `offset` of an arbitrary process; do not use them.
using FrameRefs = std::vector<const model::Frame*>;  // innermost first

struct Snapshot {
  model::ProcessStacks process;   // its threads have no frames
  std::vector<FrameRefs> frames;  // by thread; owned by the pool of the reader
};

// Not thread-safe: one pool per reading thread. Frames live as long as the pool.
class FramePool {
 public:
  // `text` is one frame as JSON; `pc_begin` and `pc_end` bound the address in it. Null if the text is not a
  // frame.
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

// Reads files in background threads and returns them in order.
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
