#include "launcher/output/log_relay.h"

#include "common/base/io.h"
#include "common/base/strings.h"
#include "common/wire/logs.h"

#include <fmt/format.h>

#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {
constexpr double kPollS = 0.05;
// A line longer than this is passed on in pieces.
constexpr size_t kLongestLine = 64 * 1024;
}  // namespace

base::Result<std::string> logs_variable(const std::string& directory) {
  struct stat out {};
  struct stat err {};
  if (::fstat(STDOUT_FILENO, &out) != 0 || ::fstat(STDERR_FILENO, &err) != 0) {
    return base::fail_errno("no standard output or error to take logs from");
  }
  return fmt::format("{}:{}:{}:{}:{}", out.st_dev, out.st_ino, err.st_dev, err.st_ino, directory);
}

LogRelay::LogRelay(EventLoop& loop, std::string directory, LinePrefix prefix)
    : loop_(loop), directory_(std::move(directory)), prefix_(prefix) {}

void LogRelay::look_for_files() {
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, ec)) {
    const std::string rank = entry.path().filename();
    for (const auto& [name, target] :
         {std::pair(wire::kStdoutLog, STDOUT_FILENO), std::pair(wire::kStderrLog, STDERR_FILENO)}) {
      const std::string path = entry.path() / name;
      if (streams_.count(path) != 0) {
        continue;
      }
      if (auto file = base::open_read(path)) {
        streams_.emplace(path, Stream{std::move(*file), target, rank, {}});
      }
    }
  }
}

void LogRelay::write_lines(Stream& stream, std::string_view lines) const {
  std::string out;
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    const std::string_view line = lines.substr(0, end == std::string_view::npos ? end : end + 1);
    if (prefix_ == LinePrefix::rank) {
      out += fmt::format("[{}] ", stream.rank);
    }
    out += line;
    lines.remove_prefix(line.size());
  }
  // A reader that went away must not end the job: the file has it all.
  (void)base::write_all(stream.target, out);
}

void LogRelay::pump(Stream& stream) {
  char buf[65536];
  for (ssize_t n; (n = ::read(stream.file.get(), buf, sizeof buf)) > 0;) {
    stream.held.append(buf, static_cast<size_t>(n));
    const size_t last = stream.held.rfind('\n');
    const size_t whole = last != std::string::npos           ? last + 1
                         : stream.held.size() > kLongestLine ? stream.held.size()
                                                             : 0;
    write_lines(stream, std::string_view(stream.held).substr(0, whole));
    stream.held.erase(0, whole);
  }
}

void LogRelay::start() {
  look_for_files();
  for (auto& [path, stream] : streams_) {
    pump(stream);
  }
  timer_ = loop_.after(kPollS, [this] { start(); });
}

void LogRelay::finish() {
  loop_.cancel(timer_);
  look_for_files();
  for (auto& [path, stream] : streams_) {
    pump(stream);
    write_lines(stream, stream.held);
    stream.held.clear();
  }
}

}  // namespace xpurun::launcher
