// Starts each relevant Python, reads its position without stopping it, and dumps it once.
#include "commands/child.h"
#include "commands/doctor/checks.h"
#include "common/base/clock.h"
#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/stacks/stack_file.h"
#include "launcher/spawn/environment.h"
#include "launcher/spawn/install_paths.h"
#include "stackdump/resolve/position.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <climits>
#include <cstdlib>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

using base::tr;

constexpr double kStartLimitS = 20;  // a cold file system, a wrapper such as pyenv's shim
constexpr double kReadLimitS = 3;
constexpr double kDumpLimitS = 20;
constexpr std::string_view kMarker = "xpurun_doctor_waits";

constexpr std::string_view kProgram =
    "import sys, time\n"
    "def xpurun_doctor_waits():\n"
    "    print(sys.version.split()[0], sys.implementation.name, sys.executable, sep='\\t', flush=True)\n"
    "    time.sleep(60)\n"
    "xpurun_doctor_waits()\n";

struct Candidate {
  std::string program;
  bool of_command;
};

bool is_python_name(std::string_view word) {
  std::string_view name = base::base_name(word);
  if (!name.starts_with("python") && !name.starts_with("pypy")) {
    return false;
  }
  name.remove_prefix(name.starts_with("python") ? 6 : 4);
  return std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0 || c == '.' || c == 't'; });
}

// The command's own Python first (the command itself, the interpreter of its script, or an argument as in
// `srun python3 x.py`), then those on PATH.
std::vector<Candidate> candidates(const DoctorContext& context) {
  std::vector<Candidate> out;
  const auto add = [&](const std::string& program, bool of_command) {
    const auto same = [&](const Candidate& c) { return c.program == program; };
    if (!program.empty() && std::none_of(out.begin(), out.end(), same)) {
      out.push_back({program, of_command});
    }
  };
  for (const std::string& link : context.program.chain) {
    if (is_python_name(link)) {
      add(link, true);
    }
  }
  if (out.empty()) {
    for (const std::string& word : context.command) {
      if (is_python_name(word)) {
        add(find_program(word), true);
        break;
      }
    }
  }
  for (const char* name : {"python3", "python"}) {
    add(find_program(name), false);
  }
  return out;
}

// python and python3 are usually links to one program.
std::string real_path(const std::string& path) {
  char resolved[PATH_MAX];
  return ::realpath(path.c_str(), resolved) != nullptr ? resolved : path;
}

base::Result<stackdump::Position> read_position(base::Pid pid) {
  const base::MonoNs end = base::mono_ns() + base::s_to_ns(kReadLimitS);
  for (;;) {
    auto reader = stackdump::PositionReader::open(pid);
    if (reader) {
      auto position = reader->read();
      if (position && position->function.find(kMarker) != std::string::npos) {
        return position;
      }
      if (base::mono_ns() >= end) {
        return position ? base::Result<stackdump::Position>(base::fail(
                              tr("the position was read as '{}'", base::sanitize(position->function))))
                        : position;
      }
    } else if (base::mono_ns() >= end) {
      return base::fail(std::move(reader.error()));
    }
    ::usleep(50'000);
  }
}

// Dumps the process once. Returns the pause in milliseconds.
base::Result<double> dump(base::Pid pid) {
  XPURUN_TRY_ASSIGN(const std::string program, stackdump_program());
  XPURUN_TRY_ASSIGN(const auto directory, base::TemporaryDirectory::create("xpurun-doctor"));
  const std::string file = directory.path() + "/stacks.json";
  const ProgramOutput answer = run_program(
      {program, "--pid", fmt::format("{}", pid), "--out", file, "--deadline-ms", "1000"}, kDumpLimitS);
  const auto stacks = model::load_process_stacks(file);
  if (answer.status != 0 || !stacks) {
    return base::fail(answer.status == -1 ? tr("no dump within {:.0f} s", kDumpLimitS)
                                          : tr("the dump failed: {}", base::trim(answer.output)));
  }
  for (const model::ThreadStack& thread : stacks->threads) {
    for (const model::Frame& frame : thread.frames) {
      if (frame.func.find(kMarker) != std::string::npos) {
        return base::ns_to_s(stacks->pause_ns) * 1e3;
      }
    }
  }
  return base::fail(tr("the dump has no Python frames"));
}

Finding examine(const Candidate& candidate, std::vector<std::string>& seen) {
  Finding out{.check = "python"};
  const std::string whose = candidate.of_command ? tr(" (the command's)") : std::string();
  const Grade trouble = candidate.of_command ? Grade::fail : Grade::warn;
  // -I: ignore the user's modules and the current directory.
  auto child = CommandChild::start({candidate.program, "-I", "-S", "-c", std::string(kProgram)},
                                   current_environment());
  const auto line = child ? child->line(kStartLimitS) : std::nullopt;
  const auto words = base::split(line ? std::string_view(*line) : std::string_view(), '\t');
  if (words.size() != 3) {
    out.grade = trouble;
    out.text = tr("{}{} does not start", candidate.program, whose);
    out.lost = tr("unknown: it could not be tested");
    out.remedy = fmt::format("{} -c pass", base::shell_quote(candidate.program));
    return out;
  }
  const std::string executable = real_path(std::string(words[2]));
  if (std::find(seen.begin(), seen.end(), executable) != seen.end()) {
    return {};
  }
  seen.push_back(executable);
  const std::string name = tr("{} {} at {}{}", words[1] == "cpython" ? "CPython" : words[1], words[0],
                              base::sanitize(executable), whose);
  const auto position = read_position(child->pid());
  const auto paused_ms = dump(child->pid());
  if (position && paused_ms) {
    out.text = tr("{}: position read, stacks dumped with a pause of {:.1f} ms", name, *paused_ms);
    return out;
  }
  out.grade = trouble;
  out.text = fmt::format("{}: {}", name, base::to_line(position ? paused_ms.error() : position.error()));
  out.lost = position ? tr("no Python stacks in dumps")
                      : tr("hangs are found late, by system calls and CPU time alone");
  out.remedy = tr("use CPython 3.8 or later, not a debug build");
  return out;
}

}  // namespace

Findings check_python(const DoctorContext& context) {
  Findings out;
  std::vector<std::string> seen;
  for (const Candidate& candidate : candidates(context)) {
    Finding finding = examine(candidate, seen);
    if (!finding.text.empty()) {
      out.push_back(std::move(finding));
    }
  }
  if (out.empty()) {
    out.push_back({.check = "python",
                   .grade = Grade::warn,
                   .text = tr("no python3 on PATH"),
                   .lost = tr("nothing, if the command has its own Python"),
                   .remedy = "xpurun doctor -- COMMAND"});
  }
  return out;
}

}  // namespace xpurun::launcher
