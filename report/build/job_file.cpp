#include "report/build/job_file.h"

#include "common/base/clock.h"
#include "common/base/os/fd.h"
#include "common/base/os/io.h"
#include "common/model/secrets/redact.h"

#include <algorithm>
#include <chrono>
#include <fcntl.h>
#include <future>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace xpurun::report {

namespace {

constexpr std::chrono::seconds kPatience{1};
// Launchers close their files, and page caches are written, a little later.
constexpr double kSettlingS = 10;

// The file system may be stalled: then the thread is left behind, and the process goes on.
std::optional<std::string> read_in_time(const JobFile& file, int64_t newest_wall_ns) {
  std::packaged_task<std::optional<std::string>()> task(
      [file, newest_wall_ns] { return end_of_file(file.path, file.end, file.most, newest_wall_ns); });
  auto text = task.get_future();
  std::thread(std::move(task)).detach();
  return text.wait_for(kPatience) == std::future_status::ready ? text.get() : std::nullopt;
}

// "ranks/2/x": the folders may be missing, because without --logs nothing else is kept of single ranks.
void keep(const model::RunDir& dir, const std::string& name, const std::string& text) {
  for (size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    if (!base::make_own_dir(dir.file(name.substr(0, slash)))) {
      return;
    }
  }
  (void)base::write_file_atomic(dir.file(name), text);
}

}  // namespace

std::optional<std::string> end_of_file(const std::string& path, int64_t end, size_t most,
                                       int64_t newest_wall_ns) {
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat about {};
  if (!fd || ::fstat(fd.get(), &about) != 0 || !S_ISREG(about.st_mode)) {
    return std::nullopt;
  }
  if (newest_wall_ns > 0 && int64_t{about.st_mtim.tv_sec} * 1'000'000'000 > newest_wall_ns) {
    return std::nullopt;
  }
  const int64_t size = end >= 0 ? std::min<int64_t>(end, about.st_size) : about.st_size;
  const int64_t first = std::max<int64_t>(0, size - static_cast<int64_t>(most));
  std::string text(static_cast<size_t>(size - first), '\0');
  size_t got = 0;
  while (got < text.size()) {
    const ssize_t n =
        ::pread(fd.get(), text.data() + got, text.size() - got, first + static_cast<int64_t>(got));
    if (n <= 0) {
      break;
    }
    got += static_cast<size_t>(n);
  }
  text.resize(got);
  return text;
}

std::optional<std::string> read_job_file(const model::RunDir& dir, const model::RunManifest& run,
                                         const JobFile& file) {
  const bool ended = run.outcome != model::RunOutcome::running;
  if (ended) {
    if (auto kept = base::read_regular_file(dir.file(file.kept))) {
      return *kept;
    }
  }
  constexpr double kLongestRunS = 1e9;
  const bool started = run.started_wall_ns > 0 && run.started_wall_ns < int64_t{1} << 62;
  const int64_t lasted = base::s_to_ns(std::clamp(run.elapsed_s, 0.0, kLongestRunS) + kSettlingS);
  const int64_t newest = ended && started ? run.started_wall_ns + lasted : 0;
  auto text = read_in_time(file, newest);
  if (!text) {
    return std::nullopt;
  }
  *text = model::redact_text(*text);
  if (ended) {
    keep(dir, file.kept, *text);
  }
  return text;
}

}  // namespace xpurun::report
