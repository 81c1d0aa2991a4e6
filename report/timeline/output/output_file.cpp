#include "report/timeline/output/output_file.h"

#include "common/base/os/io.h"

#include <fmt/format.h>

#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

namespace xpurun::report {

namespace {

constexpr size_t kBuffer = size_t{1} << 20;
// A trace compresses to a tenth at any level, and higher levels take three times as long.
constexpr int kFastest = 1;

}  // namespace

OutputFile::OutputFile() = default;
OutputFile::OutputFile(OutputFile&&) noexcept = default;
OutputFile& OutputFile::operator=(OutputFile&&) noexcept = default;

OutputFile::~OutputFile() {
  if (fd_.valid() && !temporary_.empty()) {
    ::unlink(temporary_.c_str());
  }
}

base::Result<OutputFile> OutputFile::to(base::UniqueFd fd, Compression compression) {
  OutputFile out;
  out.fd_ = std::move(fd);
  if (compression == Compression::gzip) {
    out.gzip_ = std::make_unique<base::GzipStream>(kFastest);
    if (!out.gzip_->ready()) {
      return base::fail("zlib cannot start: out of memory");
    }
  }
  out.buffer_.reserve(kBuffer);
  return out;
}

base::Result<OutputFile> OutputFile::create(const std::string& path, Compression compression) {
  const bool is_stdout = path == "-";
  const std::string temporary = is_stdout ? "" : fmt::format("{}.{}.part", path, ::getpid());
  base::UniqueFd fd(
      is_stdout ? ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
                : ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) {
    return base::fail_errno(fmt::format("cannot write {}", path));
  }
  auto out = to(std::move(fd), compression);
  if (out) {
    out->path_ = path;
    out->temporary_ = temporary;
  }
  return out;
}

void OutputFile::put(std::string_view bytes) {
  if (!status_) {
    return;
  }
  status_ = base::write_all(fd_.get(), bytes);
  if (!status_) {
    status_ = base::fail(base::Error(status_.error()).context(fmt::format("writing {}", path_)));
  }
}

void OutputFile::flush() {
  if (gzip_ != nullptr) {
    gzip_->add(buffer_, [this](std::string_view packed) { put(packed); });
  } else {
    put(buffer_);
  }
  buffer_.clear();
}

void OutputFile::write(std::string_view bytes) {
  written_ += bytes.size();
  buffer_ += bytes;
  if (buffer_.size() >= kBuffer) {
    flush();
  }
}

base::Status OutputFile::finish() {
  flush();
  if (gzip_ != nullptr) {
    gzip_->finish([this](std::string_view packed) { put(packed); });
  }
  if (status_ && !temporary_.empty()) {
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
      return base::fail_errno(fmt::format("cannot write {}", path_));
    }
    temporary_.clear();
  }
  return status_;
}

}  // namespace xpurun::report
