#include "report/pipeline/paddle/log.h"

#include "common/base/os/fd.h"
#include "common/base/strings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <optional>
#include <unistd.h>

namespace xpurun::report {

namespace {

using model::JobKind;

constexpr std::string_view kJob = "Profiler Info: Job (";
constexpr std::string_view kStart = "Schedule Profiler start at step ";
constexpr std::string_view kStartEnd = " and end at step";
constexpr size_t kLongestLine = size_t{64} << 10;
constexpr size_t kLongestType = 64;
constexpr size_t kMostJobs = 4'000'000;
constexpr int64_t kLatestMs = 4'000'000'000'000;  // in the year 2096: ns fit into 63 bits
constexpr int64_t kNsPerMs = 1'000'000;
constexpr size_t kReadBytes = size_t{1} << 18;

// Takes parts of a line from its front; after the first failure, nothing more.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  void skip(std::string_view what) {
    failed_ = failed_ || !text_.starts_with(what);
    text_.remove_prefix(failed_ ? 0 : what.size());
  }
  int64_t number(int64_t most) {
    int64_t out = 0;
    const size_t digits = count_digits();
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + digits, out);
    failed_ = failed_ || digits == 0 || error != std::errc() || out > most;
    text_.remove_prefix(failed_ ? 0 : digits);
    return failed_ ? 0 : out;
  }
  // Milliseconds with a fraction, as nanoseconds; digits below are cut off.
  int64_t time_ns() {
    const int64_t ms = number(kLatestMs);
    skip(".");
    const size_t digits = failed_ ? 0 : count_digits();
    failed_ = failed_ || digits == 0;
    int64_t fraction = 0;
    for (size_t i = 0; i < 6; ++i) {
      fraction = fraction * 10 + (i < digits ? text_[i] - '0' : 0);
    }
    text_.remove_prefix(digits);
    return ms * kNsPerMs + fraction;
  }
  std::string word() {
    const auto end = std::find_if_not(text_.begin(), text_.end(), [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    });
    std::string out(text_.begin(), end);
    failed_ = failed_ || out.empty() || out.size() > kLongestType;
    text_.remove_prefix(failed_ ? 0 : out.size());
    return out;
  }
  bool failed() const { return failed_; }

 private:
  size_t count_digits() const {
    return static_cast<size_t>(
        std::find_if_not(text_.begin(), text_.end(), [](char c) { return c >= '0' && c <= '9'; }) -
        text_.begin());
  }

  std::string_view text_;
  bool failed_ = false;
};

// Paddle's words: forward, backward, backward_b and backward_w (zero bubble), each with the number of a chunk
// behind it (forward0), optimizer, lr, send_forward and others.
JobKind kind_of(std::string_view type) {
  if (type.starts_with("forward")) {
    return JobKind::forward;
  }
  if (type.starts_with("backward")) {
    return type.starts_with("backward_w") ? JobKind::weight : JobKind::backward;
  }
  return type == "optimizer" ? JobKind::optimizer : JobKind::other;
}

int chunk_of(std::string_view type) {
  const size_t digits = type.size() - (type.find_last_not_of("0123456789") + 1);
  return digits == 0 ? -1 : static_cast<int>(base::parse_int(type.substr(type.size() - digits)).value_or(-1));
}

}  // namespace

void PaddleLogReader::read_job(std::string_view rest) {
  Cursor at(rest);
  Job job;
  constexpr int64_t kMostNumber = 1'000'000'000;
  job.number = at.number(kMostNumber);
  at.skip("), type = ");
  job.type = at.word();
  at.skip(", micro_batch_id = ");
  const auto micro_batch = static_cast<int>(at.number(kMostNumber));
  at.skip(", job_start_time = ");
  job.begin_ns = at.time_ns();
  at.skip(", job_end_time = ");
  job.end_ns = at.time_ns();
  if (at.failed() || job.end_ns < job.begin_ns) {
    ++log_.damaged;
    return;
  }
  job.kind = kind_of(job.type);
  job.micro_batch = is_pass(job.kind) ? micro_batch : -1;
  job.chunk = is_pass(job.kind) ? chunk_of(job.type) : -1;
  if (log_.jobs.size() < kMostJobs) {
    log_.jobs.push_back(std::move(job));
  } else {
    log_.cut = true;
  }
}

void PaddleLogReader::read_line(std::string_view line) {
  if (log_.first_step < 0) {
    if (const size_t at = line.find(kStart); at != std::string_view::npos) {
      Cursor cursor(line.substr(at + kStart.size()));
      const int64_t step = cursor.number(int64_t{1} << 60);
      cursor.skip(kStartEnd);
      log_.first_step = cursor.failed() ? -1 : step;
    }
  }
  // Lines of several threads may stand in one.
  for (size_t at = line.find(kJob); at != std::string_view::npos; at = line.find(kJob, at)) {
    at += kJob.size();
    read_job(line.substr(at));
  }
}

void PaddleLogReader::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    too_long_ = too_long_ || line_.size() + part.size() > kLongestLine;
    if (!too_long_) {
      line_ += part;
    }
    if (end == std::string_view::npos) {
      return;
    }
    if (!too_long_) {
      read_line(line_);
    }
    line_.clear();
    too_long_ = false;
    bytes.remove_prefix(end + 1);
  }
}

PaddleLog PaddleLogReader::finish() {
  read_line(line_);
  line_.clear();
  return std::move(log_);
}

base::Result<PaddleLog> load_paddle_log(const std::string& path) {
  const base::UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) {
    return base::fail_errno(path);
  }
  PaddleLogReader reader;
  std::vector<char> buffer(kReadBytes);
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) {
      continue;
    }
    if (n < 0) {
      return base::fail_errno(path);
    }
    if (n == 0) {
      return reader.finish();
    }
    reader.feed({buffer.data(), static_cast<size_t>(n)});
  }
}

}  // namespace xpurun::report
