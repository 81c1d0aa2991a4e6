#include "report/timeline/output_file.h"

#include "common/base/os/io.h"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <cstdio>
#include <fcntl.h>
#include <unistd.h>

namespace xpurun::report {

namespace {

constexpr size_t kBuffer = size_t{1} << 20;
constexpr int kGzipWindow = 15 + 16;
constexpr int kMemoryLevel = 8;

}  // namespace

struct OutputFile::Deflater {
  Deflater() {
    // Level 1: a trace compresses to a tenth at any level, and higher levels take three times as long.
    is_ready =
        deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, kGzipWindow, kMemoryLevel, Z_DEFAULT_STRATEGY) == Z_OK;
  }
  ~Deflater() { deflateEnd(&z); }
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  z_stream z{};
  bool is_ready = false;
  std::array<char, 65536> out{};
};

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
    out.deflater_ = std::make_unique<Deflater>();
    if (!out.deflater_->is_ready) {
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

void OutputFile::pack(std::string_view bytes, int flush) {
  z_stream& z = deflater_->z;
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  z.avail_in = static_cast<uInt>(bytes.size());
  do {
    z.next_out = reinterpret_cast<Bytef*>(deflater_->out.data());
    z.avail_out = static_cast<uInt>(deflater_->out.size());
    (void)deflate(&z, flush);
    put({deflater_->out.data(), deflater_->out.size() - z.avail_out});
  } while (z.avail_out == 0);
}

void OutputFile::write(std::string_view bytes) {
  written_ += bytes.size();
  buffer_ += bytes;
  if (buffer_.size() < kBuffer) {
    return;
  }
  if (deflater_ != nullptr) {
    pack(buffer_, Z_NO_FLUSH);
  } else {
    put(buffer_);
  }
  buffer_.clear();
}

base::Status OutputFile::finish() {
  if (deflater_ != nullptr) {
    pack(buffer_, Z_FINISH);
  } else {
    put(buffer_);
  }
  buffer_.clear();
  if (status_ && !temporary_.empty()) {
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
      return base::fail_errno(fmt::format("cannot write {}", path_));
    }
    temporary_.clear();
  }
  return status_;
}

}  // namespace xpurun::report
