// Starts a program with the preload library and waits for the library's notice, as in a real run.
#include "commands/child.h"
#include "commands/doctor/checks.h"
#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/wire/notice.h"
#include "launcher/options/command_advice.h"
#include "launcher/os/unix_socket.h"
#include "launcher/spawn/environment.h"
#include "launcher/spawn/install_paths.h"
#include "launcher/spawn/preload_plan.h"
#include "launcher/spawn/preload_reach.h"

#include <fmt/format.h>

#include <cstdlib>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

using base::tr;

constexpr double kHelloLimitS = 10;
constexpr std::string_view kNoCrashes =
    base::later("crashes are known only by their exit status, without stacks");

Finding bad(std::string check, Grade grade, std::string text, std::string remedy) {
  return {.check = std::move(check),
          .grade = grade,
          .text = std::move(text),
          .lost = tr(kNoCrashes),
          .remedy = std::move(remedy)};
}

// A private directory with a listening socket. The destructor removes both.
class Listener {
 public:
  static base::Result<Listener> open() {
    Listener out;
    XPURUN_TRY_ASSIGN(out.dir_, base::TemporaryDirectory::create("xpurun-doctor"));
    XPURUN_TRY_ASSIGN(out.fd_, listen_unix(out.path(), SOCK_SEQPACKET));
    return out;
  }
  std::string path() const { return dir_.path() + "/notice.sock"; }
  bool heard_hello(double timeout_s) const {
    pollfd waiting{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, static_cast<int>(timeout_s * 1000)) <= 0) {
      return false;
    }
    const base::UniqueFd from(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    wire::Notice notice{};
    return from && ::recv(from.get(), &notice, sizeof notice, 0) == static_cast<ssize_t>(sizeof notice) &&
           notice.magic == wire::kNoticeMagic && notice.version == wire::kNoticeVersion;
  }

 private:
  Listener() = default;
  base::TemporaryDirectory dir_;
  base::UniqueFd fd_;
};

// The library is installed and the loader accepts it.
Finding arrives(const std::string& library) {
  const std::string cat = find_program("cat");
  const auto env = with_preload(current_environment(), library);
  auto child = CommandChild::start({cat.empty() ? "/bin/cat" : cat, "/proc/self/maps"}, env);
  const bool ended = child && child->finish(kHelloLimitS).has_value();
  if (!ended || child->output().find(base::base_name(library)) == std::string::npos) {
    return bad("preload", Grade::fail, tr("the loader did not load the library into a test program"),
               fmt::format("LD_PRELOAD={} cat /proc/self/maps", base::shell_quote(library)));
  }
  return {.check = "preload", .text = tr("programs start with the preload library")};
}

// In a Python process the library also contacts its supervisor.
Finding speaks(const std::string& library) {
  const std::string python = find_program("python3");
  if (python.empty()) {
    return {.check = "preload", .text = tr("no python3 on PATH to test the library with")};
  }
  const auto listener = Listener::open();
  if (!listener) {
    return bad("preload", Grade::fail, base::to_line(listener.error()), tr("make /tmp writable"));
  }
  const std::string run = fmt::format("1:{}:0:{}", ::getpid(), listener->path());
  auto env = with_variable(with_preload(current_environment(), library), wire::kRunEnv, run);
  auto child = CommandChild::start({python, "-c", "pass"}, env);
  if (!child || !listener->heard_hello(kHelloLimitS)) {
    return bad("preload", Grade::fail,
               tr("{} was started with the library, but the library did not report", python),
               tr("look for a wrapper around python3 that clears LD_PRELOAD or XPURUN_RUN"));
  }
  return {.check = "preload", .text = tr("the library reported from {}", python)};
}

std::string remedy_for(PreloadLimit limit) {
  switch (limit) {
    case PreloadLimit::asan:
      return tr("a build of the program without AddressSanitizer");
    case PreloadLimit::asan_first:
      return "ASAN_OPTIONS=verify_asan_link_order=0 xpurun ...";
    case PreloadLimit::musl:
      return tr("a build of the program for glibc");
    default:
      return tr("start the Python program itself under xpurun");
  }
}

Finding reaches(const DoctorContext& context) {
  const ProgramOfCommand& program = context.program;
  const std::string shown = base::sanitize(context.command.front());
  if (program.path.empty()) {
    const base::Error why = explain_failure({.what = "", .id = "E-NOT-FOUND"}, context.command);
    return {.check = "command",
            .grade = Grade::fail,
            .text = why.cause.empty() ? tr("there is no program {} on PATH", shown)
                                      : tr("there is no program {} on PATH: {}", shown, tr(why.cause)),
            .lost = tr("the job: xpurun would end with status 127"),
            .remedy = why.hint.empty() ? tr("activate the environment that has {}, or give its path", shown)
                                       : why.hint};
  }
  for (const std::string& link : program.chain) {
    const char* asan_options = std::getenv("ASAN_OPTIONS");
    const PreloadReach reach = preload_reach(link, asan_options != nullptr ? asan_options : "");
    if (reach.limit != PreloadLimit::none) {
      return {.check = "command",
              .grade = Grade::warn,
              .text = tr("{}: {}", link, tr(reach.fact)),
              .lost = tr(reach.lost),
              .remedy = remedy_for(reach.limit)};
    }
  }
  return {
      .check = "command",
      .text = tr("the library reaches {}{}", program.path,
                 program.chain.size() > 1 ? tr(", a script for {}", program.chain.back()) : std::string())};
}

}  // namespace

Findings check_preload(const DoctorContext& context) {
  Findings out;
  const auto installed = preload_library();
  const auto library = installed ? preloadable_path(*installed, directory_for_links()) : installed;
  if (!library) {
    out.push_back(bad("preload", Grade::fail, base::to_line(library.error()), library.error().hint));
  } else {
    out.push_back(arrives(*library));
    if (out.back().grade == Grade::ok) {
      out.back() = speaks(*library);
    }
  }
  if (!context.command.empty()) {
    out.push_back(reaches(context));
  }
  return out;
}

}  // namespace xpurun::launcher
