#include "launcher/storage/run_storage.h"

#include "common/base/output/log.h"
#include "launcher/storage/direct_storage.h"
#include "launcher/storage/writer_queue.h"

namespace xpurun::launcher {

namespace {
// The user waits this long at the start of a run.
constexpr double kOpenS = 20;
}  // namespace

base::Result<RunStorage> RunStorage::open(const WriterProcess::Open& open_dir,
                                          const std::function<void()>& at_end) {
  RunStorage out;
  auto started = WriterProcess::start(open_dir, kOpenS, at_end);
  if (started) {
    out.dir_ = std::move(started->dir);
    out.writer_ = std::move(started->writer);
    return out;
  }
  if (!started.error().id.empty()) {
    return base::fail(std::move(started.error()));
  }
  base::log_warn("{}: a file system that stalls will hold xpurun", base::to_line(started.error()));
  XPURUN_TRY_ASSIGN(OpenedDir opened, open_dir());
  out.dir_ = std::move(opened.facts);
  out.lock_ = std::move(opened.lock);
  return out;
}

std::unique_ptr<Storage> RunStorage::connect(EventLoop& loop) {
  if (writer_.pid() > 0) {
    return std::make_unique<WriterQueue>(loop, std::move(writer_));
  }
  return std::make_unique<DirectStorage>(&loop);
}

}  // namespace xpurun::launcher
