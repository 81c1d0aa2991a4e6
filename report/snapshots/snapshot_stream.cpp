// The background of SnapshotStream: a few threads, each with a pool of frames of its own.
#include "report/snapshots/snapshot_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

namespace xpurun::report {

namespace {
constexpr unsigned kMostThreads = 4;
// Files read ahead: bounds memory where merging is slower than reading.
constexpr size_t kAhead = 64;
constexpr size_t kFewFiles = 8;
}  // namespace

struct SnapshotStream::Shared {
  std::vector<std::string> paths;
  std::vector<std::unique_ptr<FramePool>> pools;
  std::vector<std::thread> threads;

  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::vector<std::optional<base::Result<Snapshot>>> results;
  size_t claimed = 0;
  size_t given = 0;
  bool stop = false;

  void work(FramePool& pool) {
    for (;;) {
      size_t mine = 0;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return stop || claimed == paths.size() || claimed < given + kAhead; });
        if (stop || claimed == paths.size()) {
          return;
        }
        mine = claimed++;
      }
      auto snapshot = read(paths[mine], pool);
      {
        const std::lock_guard lock(mutex);
        results[mine] = std::move(snapshot);
      }
      changed.notify_all();
    }
  }

  // An exception here can only be out of memory. It must not terminate the process from this thread.
  static base::Result<Snapshot> read(const std::string& path, FramePool& pool) {
    try {
      return read_snapshot(path, pool);
    } catch (const std::exception& e) {
      return base::fail(fmt::format("{}: {}", path, e.what()));
    }
  }

  void join() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    changed.notify_all();
    for (std::thread& t : threads) {
      t.join();
    }
    threads.clear();
  }
};

SnapshotStream::SnapshotStream(std::vector<std::string> paths) : shared_(std::make_unique<Shared>()) {
  shared_->paths = std::move(paths);
  shared_->results.resize(shared_->paths.size());
  const unsigned wanted = shared_->paths.size() < kFewFiles
                              ? 1
                              : std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads);
  for (unsigned i = 0; i < wanted; ++i) {
    shared_->pools.push_back(std::make_unique<FramePool>());
  }
  // If no thread can be started, next() reads the file itself.
  try {
    for (unsigned i = 0; i < wanted && wanted > 1; ++i) {
      shared_->threads.emplace_back([shared = shared_.get(), i] { shared->work(*shared->pools[i]); });
    }
  } catch (const std::system_error&) {
    if (shared_->threads.empty()) {
      shared_->pools.resize(1);
    }
  }
}

SnapshotStream::~SnapshotStream() {
  if (shared_) {
    shared_->join();
  }
}

base::Result<Snapshot> SnapshotStream::next() {
  Shared& s = *shared_;
  if (s.threads.empty()) {
    return read_snapshot(s.paths[s.given++], *s.pools[0]);
  }
  std::unique_lock lock(s.mutex);
  s.changed.wait(lock, [&s] { return s.results[s.given].has_value(); });
  auto out = std::move(*s.results[s.given]);
  s.results[s.given].reset();
  ++s.given;
  lock.unlock();
  s.changed.notify_all();
  return out;
}

std::vector<std::unique_ptr<FramePool>> SnapshotStream::finish() {
  shared_->join();
  return std::move(shared_->pools);
}

}  // namespace xpurun::report
