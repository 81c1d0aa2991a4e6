#include "report/run/stack_file_stream.h"

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
constexpr size_t kAhead = 16;
constexpr size_t kFewFiles = 8;
}  // namespace

struct StackFileStream::Shared {
  std::vector<std::string> paths;
  std::vector<std::thread> threads;

  std::mutex mutex;  // guards the members below
  std::condition_variable changed;
  std::vector<std::optional<base::Result<model::CompactStacks>>> results;
  size_t claimed = 0;
  size_t given = 0;
  bool stop = false;

  void work() {
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
      auto stacks = read(paths[mine]);
      {
        const std::lock_guard lock(mutex);
        results[mine] = std::move(stacks);
      }
      changed.notify_all();
    }
  }

  // An exception here can only mean out of memory. It must not terminate the process from this thread.
  static base::Result<model::CompactStacks> read(const std::string& path) {
    try {
      return model::load_compact_stacks(path);
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

StackFileStream::StackFileStream(std::vector<std::string> paths) : shared_(std::make_unique<Shared>()) {
  shared_->paths = std::move(paths);
  shared_->results.resize(shared_->paths.size());
  const unsigned wanted = shared_->paths.size() < kFewFiles
                              ? 1
                              : std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads);
  try {
    for (unsigned i = 0; i < wanted && wanted > 1; ++i) {
      shared_->threads.emplace_back([shared = shared_.get()] { shared->work(); });
    }
  } catch (const std::system_error&) {
    // The threads that did start do all the work; if none did, next() reads the files itself.
  }
}

StackFileStream::~StackFileStream() {
  shared_->join();
}

base::Result<model::CompactStacks> StackFileStream::next() {
  Shared& s = *shared_;
  if (s.threads.empty()) {
    return Shared::read(s.paths[s.given++]);
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

}  // namespace xpurun::report
