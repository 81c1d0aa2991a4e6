#include "report/events/foreign/trace_text.h"

#include "common/base/os/io.h"

#include <fmt/format.h>
#include <zlib.h>

#include <cstdio>
#include <string_view>
#include <unistd.h>

namespace xpurun::report {

namespace {

constexpr size_t kChunkBytes = size_t{256} << 10;
constexpr uint64_t kMostText = uint64_t{4} << 30;
// torch's longest strings are the inputs of an operation, some KiB.
constexpr size_t kLongestToken = size_t{16} << 20;

}  // namespace

struct TraceText::File {
  gzFile handle = nullptr;

  File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (handle != nullptr) {
      ::gzclose(handle);
    }
  }
};

TraceText::TraceText(std::unique_ptr<File> file) : file_(std::move(file)), chunk_(kChunkBytes) {}
TraceText::~TraceText() = default;

base::Result<std::unique_ptr<TraceText>> TraceText::open(const std::string& path) {
  // Of a FIFO or a device nothing is read.
  XPURUN_TRY(base::read_file_start(path, 0));
  XPURUN_TRY_ASSIGN(base::UniqueFd fd, base::open_read(path));
  auto file = std::make_unique<File>();
  file->handle = ::gzdopen(fd.get(), "rb");
  if (file->handle == nullptr) {
    return base::fail(fmt::format("{}: zlib cannot be used", path));
  }
  (void)fd.release();
  (void)::gzbuffer(file->handle, kChunkBytes);
  return std::unique_ptr<TraceText>(new TraceText(std::move(file)));
}

bool TraceText::is_bounded(const char* text, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    const char c = text[i];
    const bool quote = c == '"' && !escaped_;
    escaped_ = in_string_ && c == '\\' && !escaped_;
    in_string_ = in_string_ != quote;
    const bool mark = !in_string_ && std::string_view(",:{}[]").find(c) != std::string_view::npos;
    token_ = quote || mark ? 0 : token_ + 1;
    if (token_ > kLongestToken) {
      return false;
    }
  }
  return true;
}

TraceText::int_type TraceText::underflow() {
  if (!problem_.empty()) {
    return traits_type::eof();
  }
  const int n = ::gzread(file_->handle, chunk_.data(), static_cast<unsigned>(chunk_.size()));
  int failure = Z_OK;
  (void)::gzerror(file_->handle, &failure);
  // A file that was cut off gives its text first.
  if (n < 0 || (n == 0 && failure != Z_OK)) {
    problem_ = "the packed data is damaged";
  } else if (read_ += static_cast<uint64_t>(n); read_ > kMostText) {
    problem_ = fmt::format("more than {} GiB of text", kMostText >> 30);
  } else if (!is_bounded(chunk_.data(), static_cast<size_t>(n))) {
    problem_ = fmt::format("a text or blank space of more than {} MiB", kLongestToken >> 20);
  }
  if (n <= 0 || !problem_.empty()) {
    return traits_type::eof();
  }
  setg(chunk_.data(), chunk_.data(), chunk_.data() + n);
  return traits_type::to_int_type(*gptr());
}

}  // namespace xpurun::report
