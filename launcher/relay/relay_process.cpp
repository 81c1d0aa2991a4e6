#include "launcher/relay/relay_process.h"

#include "common/base/clock.h"
#include "common/base/os/program.h"
#include "common/wire/logs.h"
#include "launcher/os/acceptor.h"
#include "launcher/os/unix_socket.h"
#include "launcher/relay/log_file.h"
#include "launcher/relay/relay_memory.h"
#include "launcher/relay/sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <mutex>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace xpurun::launcher {

namespace {

// The limit for unprivileged users (fs.pipe-max-size): a large pipe rarely makes a rank wait for the relay.
constexpr int kPipeBytes = 1 << 20;
constexpr size_t kChunk = 256 * 1024;
// Bytes. Longer lines are passed on in pieces.
constexpr size_t kLongestLine = 64 * 1024;
// A longer write means that the file system has stalled: output for files is then dropped instead of delaying
// ranks.
constexpr double kDiskPatienceS = 2;
// The limit after all writers and the supervisor have ended: then only the disk is left to wait for.
constexpr double kLastPatienceS = 60;
constexpr int kPauseMs = 50;

struct Stream {
  uint32_t rank;
  wire::LogStream which;
  std::unique_ptr<LogFile> file;  // the file thread's
  StreamProgress* progress = nullptr;
  uint64_t skipped = 0;  // bytes not given to the stalled file thread
  bool reported = false;
  std::string held;  // beginning of an unfinished line
  int pipes = 0;     // number of open pipes
};

struct Pipe {
  base::UniqueFd fd;
  size_t stream;
};

class RelayProcess {
 public:
  RelayProcess(RelaySetup setup, RelayMemory& memory);
  [[noreturn]] void run();

 private:
  Sink& repeat_sink(const Stream& stream) { return stream.which == wire::LogStream::err ? *err_ : *out_; }
  void say(const std::string& line);
  void write_file(const Output& output);
  void repeat(Repeater& repeater, const Output& output);
  Stream& stream_at(size_t index);
  void note_what_was_lost();
  void accept_rank();
  void answer(int connection, const wire::LogRequest& request);
  size_t stream_for(uint32_t rank, wire::LogStream which);
  bool may_read(const Stream& stream) const;
  // False at the end of the pipe.
  bool read_pipe(Pipe& pipe);
  void keep(size_t index, std::string_view bytes);
  void repeat_lines(Stream& stream, size_t index, std::string_view bytes);
  void flush_held(Stream& stream, size_t index);
  void hear_supervisor();
  void finish_if_drained(bool drained);
  void exit_if_done();

  RelaySetup setup_;
  RelayMemory& memory_;
  base::UniqueFd wake_;
  Repeater out_repeater_;
  Repeater err_repeater_;
  Sink* files_;
  Sink* out_;
  Sink* err_;
  std::mutex streams_mutex_;  // guards the vector; the elements do not move
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<Pipe> pipes_;
  bool finishing_ = false;
  bool supervised_ = true;
};

RelayProcess::RelayProcess(RelaySetup setup, RelayMemory& memory)
    : setup_(std::move(setup)),
      memory_(memory),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      out_repeater_(STDOUT_FILENO, setup_.prefix, [this](const std::string& line) { say(line); }),
      err_repeater_(STDERR_FILENO, setup_.prefix, [](const std::string&) {}) {
  const auto wake = [fd = wake_.get()] {
    const uint64_t one = 1;
    (void)!::write(fd, &one, sizeof one);
  };
  files_ = new Sink([this](const Output& o) { write_file(o); }, wake);
  out_ = new Sink([this](const Output& o) { repeat(out_repeater_, o); }, wake);
  err_ = new Sink([this](const Output& o) { repeat(err_repeater_, o); }, wake);
  finishing_ = memory_.finishing();
  supervised_ = static_cast<bool>(setup_.channel);
  for (const KeptPipe& pipe : memory_.pipes()) {
    const size_t index = stream_for(pipe.rank, pipe.which);
    ++streams_[index]->pipes;
    pipes_.push_back({base::UniqueFd(pipe.fd), index});
  }
  note_what_was_lost();
}

// What the killed relay had taken from the pipes, but had not written yet.
void RelayProcess::note_what_was_lost() {
  for (StreamProgress* progress : memory_.streams()) {
    const uint64_t unfiled = progress->taken - std::min<uint64_t>(progress->filed, progress->taken);
    const uint64_t unrepeated = progress->taken - std::min<uint64_t>(progress->repeated, progress->taken);
    progress->filed = progress->repeated = progress->taken.load();
    const size_t index = stream_for(progress->rank, progress->which);
    if (unfiled > 0) {
      const std::string note = fmt::format(
          "\n[xpurun: {} bytes of output are missing here: the relay of the output was killed]\n", unfiled);
      progress->taken += note.size();
      progress->repeated += note.size();
      files_->push({.stream = index, .rank = progress->rank, .bytes = note});
    }
    if (unrepeated > 0) {
      say(fmt::format("{} bytes of output of rank {} are missing here{}: the relay of the output was killed",
                      unrepeated, progress->rank, unfiled > 0 ? "" : ", but not in its log"));
    }
  }
}

void RelayProcess::say(const std::string& line) {
  err_->push({.ours = true, .bytes = fmt::format("xpurun: {}\n", line)});
}

Stream& RelayProcess::stream_at(size_t index) {
  const std::lock_guard lock(streams_mutex_);
  return *streams_[index];
}

void RelayProcess::write_file(const Output& output) {
  const Stream& stream = stream_at(output.stream);
  stream.file->skip(output.lost);
  stream.file->write(output.bytes, base::mono_ns());
  if (stream.progress != nullptr) {
    stream.progress->filed += output.lost + output.bytes.size();
  }
}

void RelayProcess::repeat(Repeater& repeater, const Output& output) {
  repeater.write(output);
  if (StreamProgress* progress = output.ours ? nullptr : stream_at(output.stream).progress) {
    progress->repeated += output.bytes.size();
  }
}

size_t RelayProcess::stream_for(uint32_t rank, wire::LogStream which) {
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i]->rank == rank && streams_[i]->which == which) {
      return i;
    }
  }
  auto stream = std::make_unique<Stream>();
  stream->rank = rank;
  stream->which = which;
  stream->file = std::make_unique<LogFile>(
      fmt::format("{}/{}/{}", setup_.directory, rank,
                  which == wire::LogStream::err ? wire::kStderrLog : wire::kStdoutLog),
      [this](const std::string& line) { say(line); });
  stream->progress = memory_.progress(rank, which);
  const std::lock_guard lock(streams_mutex_);
  streams_.push_back(std::move(stream));
  return streams_.size() - 1;
}

void RelayProcess::accept_rank() {
  const AcceptResult accepted = accept_connection(setup_.listener.get(), SOCK_CLOEXEC);
  if (accepted.exhausted) {
    // Prevents a spin. The rank keeps its original stream after its time limit.
    (void)::poll(nullptr, 0, kPauseMs);
  }
  const base::UniqueFd& connection = accepted.connection;
  const auto peer = connection ? peer_of(connection.get()) : std::nullopt;
  if (!peer || (peer->uid != ::geteuid() && peer->uid != 0)) {
    return;
  }
  // A rank sends its request at once. A foreign client that sends nothing must not block the output of the
  // ranks.
  const timeval patience{.tv_sec = 0, .tv_usec = 200'000};
  (void)::setsockopt(connection.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  wire::LogRequest request{};
  if (::recv(connection.get(), &request, sizeof request, 0) == static_cast<ssize_t>(sizeof request) &&
      request.magic == wire::kLogRequestMagic && request.version == wire::kLogRequestVersion) {
    answer(connection.get(), request);
  }
}

void RelayProcess::answer(int connection, const wire::LogRequest& request) {
  auto pipe = base::make_pipe();
  if (!pipe) {
    return;
  }
  auto [read_end, write_end] = std::move(*pipe);
  (void)::fcntl(read_end.get(), F_SETPIPE_SZ, kPipeBytes);
  // O_NONBLOCK affects only this end of the pipe: the rank's end blocks, as files and terminals do.
  (void)::fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
  const bool err = request.stream == static_cast<uint16_t>(wire::LogStream::err);
  const auto which = err ? wire::LogStream::err : wire::LogStream::out;
  // Recorded before the rank gets its end: from then on the read end must survive a killed relay.
  memory_.add({.fd = read_end.get(), .rank = request.rank, .which = which});
  if (send_descriptor(connection, write_end.get(), 'p')) {
    const size_t index = stream_for(request.rank, which);
    ++streams_[index]->pipes;
    pipes_.push_back({std::move(read_end), index});
  } else {
    memory_.remove(read_end.get());
  }
}

bool RelayProcess::may_read(const Stream& stream) const {
  // Without room the pipe fills up, and the rank waits in write(2), as for a slow terminal. A stalled disk is
  // the exception: its output is dropped.
  const Sink& repeat = stream.which == wire::LogStream::err ? *err_ : *out_;
  return repeat.has_room() && (files_->has_room() || files_->stuck_s() > kDiskPatienceS);
}

void RelayProcess::keep(size_t index, std::string_view bytes) {
  Stream& stream = *streams_[index];
  if (!files_->has_room()) {
    stream.skipped += bytes.size();
    if (!stream.reported) {
      stream.reported = true;
      say(fmt::format("the file system of {} does not answer: output of rank {} is only repeated here",
                      setup_.directory, stream.rank));
    }
    return;
  }
  files_->push({.stream = index,
                .rank = stream.rank,
                .lost = std::exchange(stream.skipped, 0),
                .bytes = std::string(bytes)});
}

void RelayProcess::repeat_lines(Stream& stream, size_t index, std::string_view bytes) {
  stream.held += bytes;
  const size_t last = stream.held.rfind('\n');
  const size_t whole = last != std::string::npos           ? last + 1
                       : stream.held.size() > kLongestLine ? stream.held.size()
                                                           : 0;
  repeat_sink(stream).push({.stream = index, .rank = stream.rank, .bytes = stream.held.substr(0, whole)});
  stream.held.erase(0, whole);
}

void RelayProcess::flush_held(Stream& stream, size_t index) {
  if (setup_.prefix == LinePrefix::rank && !stream.held.empty()) {
    // A labelled line is always ended here, because processes without a rank write to the same streams.
    stream.held += '\n';
    if (stream.progress != nullptr) {
      stream.progress->repeated -= 1;
    }
  }
  repeat_sink(stream).push({.stream = index, .rank = stream.rank, .bytes = std::exchange(stream.held, {})});
}

bool RelayProcess::read_pipe(Pipe& pipe) {
  static char buffer[kChunk];
  Stream& stream = *streams_[pipe.stream];
  const ssize_t n = ::read(pipe.fd.get(), buffer, sizeof buffer);
  if (n > 0) {
    const std::string_view bytes(buffer, static_cast<size_t>(n));
    if (stream.progress != nullptr) {
      stream.progress->taken += bytes.size();
    }
    keep(pipe.stream, bytes);
    repeat_lines(stream, pipe.stream, bytes);
    return true;
  }
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    return true;
  }
  if (--stream.pipes == 0) {
    flush_held(stream, pipe.stream);
  }
  return false;
}

void RelayProcess::hear_supervisor() {
  char word = 0;
  const ssize_t n = ::recv(setup_.channel.get(), &word, 1, MSG_DONTWAIT);
  if (n == 1 && word == kRelayFinish) {
    finishing_ = true;
    memory_.finish();
  } else if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
    // The supervisor was killed: the ranks and their output continue.
    supervised_ = false;
    memory_.close_channel();
    setup_.channel.reset();
  }
}

// All output written before the supervisor's request has been read. Once it is repeated, the relay must not
// write to the streams any more.
void RelayProcess::finish_if_drained(bool drained) {
  if (!finishing_ || !drained || !setup_.channel) {
    return;
  }
  for (size_t i = 0; i < streams_.size(); ++i) {
    flush_held(*streams_[i], i);
  }
  const bool written = files_->idle() || files_->stuck_s() > kDiskPatienceS;
  if (!out_->idle() || !err_->idle() || !written) {
    return;
  }
  out_repeater_.stop();
  err_repeater_.stop();
  const base::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (const int fd : {STDOUT_FILENO, STDERR_FILENO}) {
    (void)(null ? ::dup2(null.get(), fd) : ::close(fd));
  }
  (void)!::send(setup_.channel.get(), &kRelayFinished, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  memory_.close_channel();
  memory_.close_listener();
  setup_.channel.reset();
  setup_.listener.reset();
  supervised_ = false;
}

void RelayProcess::exit_if_done() {
  if (supervised_ || !pipes_.empty()) {
    return;
  }
  const bool written = files_->idle() || files_->stuck_s() > kLastPatienceS;
  if (written && out_->idle() && err_->idle()) {
    memory_.end(0);
  }
}

void RelayProcess::run() {
  for (;;) {
    std::vector<pollfd> waiting = {{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                                   {.fd = setup_.channel.get(), .events = POLLIN, .revents = 0},
                                   {.fd = setup_.listener.get(), .events = POLLIN, .revents = 0}};
    constexpr size_t kFirstPipe = 3;
    bool paused = false;
    for (const Pipe& pipe : pipes_) {
      const bool now = may_read(*streams_[pipe.stream]);
      paused |= !now;
      waiting.push_back({.fd = now ? pipe.fd.get() : -1, .events = POLLIN, .revents = 0});
    }
    const bool hurried = paused || (finishing_ && setup_.channel) || (!supervised_ && pipes_.empty());
    const int ready = ::poll(waiting.data(), waiting.size(), hurried ? kPauseMs : -1);
    if (ready < 0 && errno != EINTR) {
      memory_.end(1);
    }
    uint64_t count = 0;
    (void)!::read(wake_.get(), &count, sizeof count);
    bool drained = !paused;
    for (size_t i = pipes_.size(); i-- > 0 && ready > 0;) {
      if (waiting[kFirstPipe + i].revents != 0) {
        drained = false;
        if (!read_pipe(pipes_[i])) {
          memory_.remove(pipes_[i].fd.get());
          pipes_.erase(pipes_.begin() + static_cast<std::ptrdiff_t>(i));
        }
      }
    }
    if (ready > 0 && waiting[1].revents != 0) {
      // The pipes were polled after the channel, so all output from before the request has been read.
      hear_supervisor();
    }
    if (ready > 0 && waiting[2].revents != 0) {
      accept_rank();
      drained = false;
    }
    finish_if_drained(drained);
    exit_if_done();
  }
}

}  // namespace

void relay_output(RelaySetup setup, RelayMemory& memory) {
  // Never deleted, because its sinks may be inside a write that does not return.
  (new RelayProcess(std::move(setup), memory))->run();
}

}  // namespace xpurun::launcher
