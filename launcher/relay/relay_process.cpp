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
  uint64_t skipped = 0;           // bytes not given to the stalled file thread
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
  out_ = new Sink([this](const Output& o) { out_repeater_.write(o); }, wake);
  err_ = new Sink([this](const Output& o) { err_repeater_.write(o); }, wake);
  finishing_ = memory_.finishing();
  supervised_ = static_cast<bool>(setup_.channel);
  for (const KeptPipe& pipe : memory_.pipes()) {
    const size_t index = stream_for(pipe.rank, pipe.which);
    ++streams_[index]->pipes;
    pipes_.push_back({base::UniqueFd(pipe.fd), index});
  }
}

void RelayProcess::say(const std::string& line) {
  err_->push({.ours = true, .bytes = fmt::format("xpurun: {}\n", line)});
}

void RelayProcess::write_file(const Output& output) {
  LogFile* file = nullptr;
  {
    const std::lock_guard lock(streams_mutex_);
    file = streams_[output.stream]->file.get();
  }
  file->skip(output.lost);
  file->write(output.bytes, base::mono_ns());
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
  }
  repeat_sink(stream).push({.stream = index, .rank = stream.rank, .bytes = std::exchange(stream.held, {})});
}

bool RelayProcess::read_pipe(Pipe& pipe) {
  static char buffer[kChunk];
  Stream& stream = *streams_[pipe.stream];
  const ssize_t n = ::read(pipe.fd.get(), buffer, sizeof buffer);
  if (n > 0) {
    const std::string_view bytes(buffer, static_cast<size_t>(n));
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
    ::_exit(0);
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
      ::_exit(1);
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

// A process that outlives the supervisor must not keep the supervisor's descriptors open, nor those of a
// killed relay. `kept` is sorted.
void close_all_but(const std::vector<int>& kept) {
  unsigned next = STDERR_FILENO + 1;
  for (const int fd : kept) {
    const auto number = static_cast<unsigned>(fd);
    if (number > next) {
      ::close_range(next, number - 1, 0);
    }
    next = std::max(next, number + 1);
  }
  ::close_range(next, ~0U, 0);
}

// Forks a process that shares this process's descriptor table (CLONE_FILES): descriptors that it opens stay
// open when it is killed. The raw system call, because fork() cannot share the table and glibc's clone()
// needs a stack.
pid_t fork_with_descriptors() {
  return static_cast<pid_t>(::syscall(SYS_clone, CLONE_FILES | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

// Without a reader of the pipes, SIGPIPE would end the ranks. So a killed relay (for example by the OOM
// killer) gets a successor.
[[noreturn]] void keep_relay(const RelaySetup& setup, RelayMemory& memory) {
  for (;;) {
    const pid_t pid = memory.works() ? fork_with_descriptors() : -1;
    if (pid <= 0) {
      ::prctl(PR_SET_NAME, "log-relay");
      RelaySetup own{.listener = base::UniqueFd(memory.works() ? memory.listener() : setup.listener.get()),
                     .channel = base::UniqueFd(memory.works() ? memory.channel() : setup.channel.get()),
                     .directory = setup.directory,
                     .prefix = setup.prefix};
      // Never deleted, because its sinks may be inside a write that does not return.
      (new RelayProcess(std::move(own), memory))->run();
    }
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status)) {
      ::_exit(WEXITSTATUS(status));
    }
    close_all_but(memory.descriptors());
    (void)::poll(nullptr, 0, kPauseMs);  // pause, in case each successor dies at once
  }
}

}  // namespace

void run_relay(RelaySetup setup) {
  RelayMemory memory(setup.listener.get(), setup.channel.get());
  close_all_but({std::min(setup.listener.get(), setup.channel.get()),
                 std::max(setup.listener.get(), setup.channel.get())});
  // Ignores the terminal's signals and those that a scheduler sends to all processes of the job, because
  // ranks write output until they end. The relay ends with the last writer. SIGPIPE and SIGXFSZ become write
  // errors.
  sigset_t all;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::setsid();
  ::prctl(PR_SET_NAME, "log-keeper");
  if (::chdir("/") != 0) {
    ::_exit(1);
  }
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (null >= 0) {
    ::dup2(null, STDIN_FILENO);
    ::close(null);
  }
  keep_relay(setup, memory);
}

}  // namespace xpurun::launcher
