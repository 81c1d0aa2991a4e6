// A real relay: the test is the rank that asks for pipes.
#include "launcher/supervise/handlers/job_logs.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/wire/logs.h"
#include "tests/unit/launcher/in_fork.h"
#include "tests/unit/launcher/no_descriptors.h"
#include "tests/unit/launcher/received_descriptor.h"
#include "tests/unit/launcher/services/log_lines.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace xpurun;
using namespace xpurun::launcher;

namespace {

struct JobLogsScene {
  test::LogLines log;
  EventLoop loop = std::move(*EventLoop::create());
  std::vector<std::string> env = {"A=1"};
  std::string run = std::filesystem::current_path().string() + "/logs-run";
  JobLogs logs{loop};
  int finished = 0;

  JobLogsScene() { std::filesystem::remove_all(run); }
  base::Status start() {
    return logs.start(env, run, LinePrefix::none, [](base::Pid) {});
  }
  std::string variable() const {
    const std::string name = std::string(wire::kLogsEnv) + "=";
    for (const std::string& entry : env) {
      if (entry.starts_with(name)) {
        return entry.substr(name.size());
      }
    }
    return {};
  }
  void finish() {
    logs.finish([this] {
      ++finished;
      loop.stop();
    });
  }
  // Until finish() has been answered, a minute at most.
  void wait_for_finish() {
    loop.after(60, [this] { loop.stop(); });
    REQUIRE(loop.run());
  }
  // What the relay answers to bytes on its socket: a pipe, or none.
  base::UniqueFd ask(std::string_view bytes) const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string name(base::split(variable(), ':').back());
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const base::UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0);
    REQUIRE(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
    return test::receive_descriptor(fd.get()).fd;
  }
  base::UniqueFd pipe_of(uint32_t rank) const {
    const wire::LogRequest request{.magic = wire::kLogRequestMagic,
                                   .version = wire::kLogRequestVersion,
                                   .stream = static_cast<uint16_t>(wire::LogStream::out),
                                   .rank = rank,
                                   .reserved = 0};
    return ask({reinterpret_cast<const char*>(&request), sizeof request});
  }
  std::string log_of(int rank) const {
    return base::read_file(fmt::format("{}/ranks/{}/{}", run, rank, wire::kStdoutLog)).value_or("no file");
  }
};

// Standard output is a file during the scene, because the relay repeats what ranks write.
std::string with_output(const std::string& path, const std::function<std::string(JobLogsScene&)>& scene) {
  return test::in_fork([&] {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || ::dup2(fd, STDOUT_FILENO) < 0 || ::dup2(fd, STDERR_FILENO) < 0) {
      return std::string("no output");
    }
    JobLogsScene s;
    return s.start() ? scene(s) : std::string("no relay");
  });
}

void write_to(const base::UniqueFd& pipe, std::string_view text) {
  if (!pipe || ::write(pipe.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error("no pipe");
  }
}

}  // namespace

TEST_CASE("job logs: without a relay there is nothing to finish or to give up") {
  JobLogsScene s;
  s.finish();
  CHECK(s.finished == 1);
  CHECK_FALSE(s.logs.give_up());
  CHECK(s.logs.pid() == 0);
  CHECK_FALSE(s.logs.is_helper(0));
  CHECK_FALSE(s.logs.helper_ended(0, base::WaitStatus::of_exit(0)));
}

TEST_CASE("job logs: what ranks write is in their files and on the output when the relay has finished") {
  (void)::unlink("repeated");
  const std::string seen = with_output("repeated", [](JobLogsScene& s) {
    struct stat out {};
    (void)::fstat(STDOUT_FILENO, &out);
    const bool named = s.variable().starts_with(fmt::format("{}:{}:", out.st_dev, out.st_ino));
    {
      const base::UniqueFd zero = s.pipe_of(0);
      const base::UniqueFd one = s.pipe_of(1);
      write_to(zero, "from zero\n");
      write_to(one, "from one\n");
    }
    s.finish();
    const int at_once = s.finished;
    s.wait_for_finish();
    return fmt::format("{} {} {} {} {}{}", named, s.env.front(), at_once, s.finished, s.log_of(0),
                       s.log_of(1));
  });
  CHECK(seen == "true A=1 0 1 from zero\nfrom one\n");
  const std::string repeated = base::read_file("repeated").value();
  CHECK(repeated.find("from zero\n") != std::string::npos);
  CHECK(repeated.find("from one\n") != std::string::npos);
}

TEST_CASE("job logs: clients that speak nonsense get no pipe, and harm no rank") {
  CHECK(with_output("/dev/null", [](JobLogsScene& s) {
          const bool nonsense = s.ask("hello").valid() || s.ask(std::string(16, '\xff')).valid();
          write_to(s.pipe_of(3), "still here\n");
          s.finish();
          s.wait_for_finish();
          return fmt::format("{} {}", nonsense, s.log_of(3));
        }) == "false still here\n");
}

TEST_CASE("job logs: a full output costs no line of the files") {
  CHECK(with_output("/dev/full", [](JobLogsScene& s) {
          write_to(s.pipe_of(0), "kept\n");
          s.finish();
          s.wait_for_finish();
          return fmt::format("{} {}", s.finished, s.log_of(0));
        }) == "1 kept\n");
}

TEST_CASE("job logs: a keeper that dies does not hold up the end of the job") {
  CHECK(with_output("/dev/null", [](JobLogsScene& s) {
          s.finish();
          ::kill(s.logs.pid(), SIGKILL);
          int status = 0;
          const base::Pid relay = s.logs.pid();
          const bool reaped = ::waitpid(relay, &status, 0) == relay;
          const bool is_helper = s.logs.is_helper(relay);
          const bool stranger = s.logs.helper_ended(relay + 1, base::WaitStatus(status));
          const bool known = s.logs.helper_ended(relay, base::WaitStatus(status));
          // Its deputy goes on, unless the keeper died before it had one.
          if (s.finished == 0) {
            s.wait_for_finish();
          }
          return fmt::format("{} {} {} {} {} {}", reaped, is_helper, stranger, known, s.finished,
                             s.log.have("the keeper of the ranks' output killed by SIGKILL"));
        }) == "true true false true 1 true");
}

TEST_CASE("job logs: giving up does not wait for the relay, and its late answer changes nothing") {
  CHECK(with_output("/dev/null", [](JobLogsScene& s) {
          const base::UniqueFd open = s.pipe_of(0);
          s.finish();
          const bool gave_up = s.logs.give_up();
          const int at_once = s.finished;
          s.loop.after(0.01, [&s] { s.loop.stop(); });
          const bool ran = s.loop.run().has_value();
          return fmt::format("{} {} {} {}", gave_up, at_once, ran, s.finished);
        }) == "true 1 true 1");
}

TEST_CASE("job logs: without an output or a descriptor the command starts without logs") {
  JobLogsScene s;
  SUBCASE("no free descriptor") {
    const test::NoDescriptors full;
    CHECK_FALSE(s.start());
  }
  SUBCASE("two descriptors, for the socket only") {
    const test::NoDescriptors few(2);
    CHECK_FALSE(s.start());
  }
  CHECK(s.env == std::vector<std::string>{"A=1"});
  CHECK(s.logs.pid() == 0);
  s.finish();
  CHECK(s.finished == 1);
  CHECK(test::in_fork([] {
          JobLogsScene closed;
          ::close(STDOUT_FILENO);
          return fmt::format("{} {}", closed.start().has_value(), closed.env.size());
        }) == "false 1");
}
