#include "launcher/storage/file_operation.h"

#include "common/base/os/io.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>
#include <type_traits>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// Every frame begins with the number of bytes that follow.
using Length = uint64_t;

template <typename T>
void put(std::string& out, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& out, const std::string& text) {
  put(out, Length{text.size()});
  out += text;
}

std::string framed(const std::string& body) {
  std::string out;
  out.reserve(sizeof(Length) + body.size());
  put_text(out, body);
  return out;
}

// Reads the output of put(). The peer is a fork of this process, so a short body cannot happen; it reads as
// zeros.
class Body {
 public:
  explicit Body(std::string text) : text_(std::move(text)) {}

  template <typename T>
  T get() {
    T value{};
    if (text_.size() - at_ >= sizeof value) {
      std::memcpy(&value, text_.data() + at_, sizeof value);
      at_ += sizeof value;
    }
    return value;
  }
  std::string text() {
    const auto length = get<Length>();
    std::string out = text_.substr(at_, length);
    at_ += out.size();
    return out;
  }

 private:
  std::string text_;
  size_t at_ = 0;
};

std::optional<Body> take_frame(std::string& buffer) {
  Length length = 0;
  if (buffer.size() < sizeof length) {
    return std::nullopt;
  }
  std::memcpy(&length, buffer.data(), sizeof length);
  if (buffer.size() - sizeof length < length) {
    return std::nullopt;
  }
  Body body(buffer.substr(sizeof length, length));
  buffer.erase(0, sizeof length + length);
  return body;
}

base::Status write_to(const std::string& path, int flags, const std::string& data) {
  // O_NOFOLLOW: in a directory that others can write, the file may have been replaced by a link.
  base::UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, 0600));
  if (!fd) {
    return base::fail_errno("cannot open " + path);
  }
  struct stat before {};
  const bool sized = ::fstat(fd.get(), &before) == 0;
  if (auto written = base::write_all(fd.get(), data); !written) {
    // A full disk accepts a part of a block, and a partial block would make the file unreadable.
    if (sized) {
      (void)!::ftruncate(fd.get(), before.st_size);
    }
    return base::fail(base::Error(written.error()).context(path));
  }
  // NFS and FUSE report a failed write at close.
  if (::close(fd.release()) != 0) {
    return base::fail_errno("cannot write " + path);
  }
  return {};
}

// Creates the directory if it is missing: it may have been removed, or could not be created while the disk
// was full.
base::Status replace(const std::string& path, const std::string& data) {
  auto written = base::write_file_atomic(path, data);
  if (!written && written.error().sys_errno == ENOENT) {
    XPURUN_TRY(base::make_dirs(path.substr(0, path.rfind('/'))));
    written = base::write_file_atomic(path, data);
  }
  return written;
}

// Removes a file or an empty directory.
int remove_path(const std::string& path) {
  const int removed = ::unlink(path.c_str());
  return removed != 0 && errno == EISDIR ? ::rmdir(path.c_str()) : removed;
}

base::Status probe(const std::string& path) {
  XPURUN_TRY(write_to(path, O_CREAT | O_TRUNC, "?"));
  ::unlink(path.c_str());
  return {};
}

}  // namespace

base::Status perform(const FileOperation& operation) {
  switch (operation.action) {
    case FileAction::make_dirs:
      return base::make_dirs(operation.path);
    case FileAction::replace:
      return replace(operation.path, operation.data);
    case FileAction::create:
      return write_to(operation.path, O_CREAT | O_EXCL, operation.data);
    case FileAction::append:
      return write_to(operation.path, O_APPEND, operation.data);
    case FileAction::append_or_create:
      return write_to(operation.path, O_APPEND | O_CREAT, operation.data);
    case FileAction::remove:
      if (remove_path(operation.path) != 0 && errno != ENOENT) {
        return base::fail_errno("cannot remove " + operation.path);
      }
      return {};
    case FileAction::remove_tree: {
      std::error_code error;
      std::filesystem::remove_all(operation.path, error);
      return error ? base::fail("cannot remove " + operation.path + ": " + error.message()) : base::Status();
    }
    case FileAction::probe:
      return probe(operation.path);
  }
  return {};
}

std::string encode(uint64_t number, const FileOperation& operation) {
  std::string body;
  put(body, number);
  put(body, operation.action);
  put_text(body, operation.path);
  put_text(body, operation.data);
  return framed(body);
}

std::optional<NumberedOperation> take_operation(std::string& buffer) {
  auto body = take_frame(buffer);
  if (!body) {
    return std::nullopt;
  }
  NumberedOperation out;
  out.number = body->get<uint64_t>();
  out.operation.action = body->get<FileAction>();
  out.operation.path = body->text();
  out.operation.data = body->text();
  return out;
}

std::string encode_answer(uint64_t number, const base::Status& status) {
  std::string body;
  put(body, number);
  put(body, uint8_t{status ? uint8_t{0} : uint8_t{1}});
  if (!status) {
    const base::Error& e = status.error();
    put(body, e.sys_errno);
    for (const std::string* text : {&e.what, &e.id, &e.cause, &e.hint}) {
      put_text(body, *text);
    }
  }
  return framed(body);
}

std::optional<NumberedAnswer> take_answer(std::string& buffer) {
  auto body = take_frame(buffer);
  if (!body) {
    return std::nullopt;
  }
  NumberedAnswer out;
  out.number = body->get<uint64_t>();
  if (body->get<uint8_t>() != 0) {
    base::Error e;
    e.sys_errno = body->get<int>();
    for (std::string* text : {&e.what, &e.id, &e.cause, &e.hint}) {
      *text = body->text();
    }
    out.error = std::move(e);
  }
  return out;
}

}  // namespace xpurun::launcher
