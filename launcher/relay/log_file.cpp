#include "launcher/relay/log_file.h"

#include "common/base/os/io.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {
constexpr double kRetryS = 1;
}

LogFile::LogFile(std::string path, std::function<void(const std::string&)> complain)
    : path_(std::move(path)), complain_(std::move(complain)) {}

bool LogFile::open() {
  if (!file_) {
    const auto made = base::make_dirs(path_.substr(0, path_.rfind('/')));
    file_.reset(made ? ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1);
    if (!file_) {
      error_ = made ? errno : made.error().sys_errno;
    }
  }
  return file_.valid();
}

size_t LogFile::try_write(std::string_view bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(file_.get(), bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno != EINTR) {
      error_ = errno;
      break;
    }
    done += n > 0 ? static_cast<size_t>(n) : 0;
  }
  return done;
}

bool LogFile::note_loss() {
  if (lost_ == 0) {
    return true;
  }
  const std::string why = error_ != 0 ? std::strerror(error_) : "the file system did not answer";
  const std::string note = fmt::format("\n[xpurun: {} bytes of output are missing here: {}]\n", lost_, why);
  const size_t done = try_write(note);
  if (done < note.size()) {
    // Removes a partly written note, or each retry would add another part. A failure only leaves that part.
    (void)!::ftruncate(file_.get(), ::lseek(file_.get(), 0, SEEK_END) - static_cast<off_t>(done));
    return false;
  }
  lost_ = 0;
  error_ = 0;
  return true;
}

void LogFile::write(std::string_view bytes, base::MonoNs now) {
  // A full disk would be asked for each line otherwise, and each failed try costs the relay time.
  if (now < retry_at_) {
    lost_ += bytes.size();
    return;
  }
  const size_t done = open() && note_loss() ? try_write(bytes) : 0;
  if (done == bytes.size()) {
    retry_at_ = 0;
    return;
  }
  lost_ += bytes.size() - done;
  retry_at_ = now + base::s_to_ns(kRetryS);
  if (!complained_) {
    complained_ = true;
    complain_(fmt::format("cannot write {}: {}; the job continues, this output is only repeated here", path_,
                          std::strerror(error_)));
  }
}

}  // namespace xpurun::launcher
