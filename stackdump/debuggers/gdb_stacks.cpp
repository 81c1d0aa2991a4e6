#include "stackdump/debuggers/gdb_stacks.h"

#include "common/base/os/fd.h"
#include "common/base/os/procfs.h"
#include "common/base/strings.h"
#include "stackdump/debuggers/child_tool.h"
#include "stackdump/native/symbolizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

namespace xpurun::stackdump {

namespace {

constexpr size_t kMaxThreads = 65536;
constexpr size_t kMaxFrames = 512;

bool is_space(char c) {
  return c == ' ' || c == '\t';
}

std::string_view ltrim(std::string_view s) {
  while (!s.empty() && is_space(s.front())) {
    s.remove_prefix(1);
  }
  return s;
}

// Parses leading decimal digits and removes them.
std::optional<int64_t> take_number(std::string_view& s) {
  const size_t n = std::min(s.find_first_not_of("0123456789"), s.size());
  const auto v = base::parse_int(s.substr(0, n));
  s.remove_prefix(n);
  return v;
}

// `Thread 3 (Thread 0x7f01 (LWP 4711) "name"):` or `Thread 1 (LWP 4711):` or `(process 4711)`.
std::optional<base::Tid> thread_id(std::string_view line) {
  if (!line.starts_with("Thread ")) {
    return std::nullopt;
  }
  for (std::string_view key : {"LWP ", "process "}) {
    const size_t at = line.find(key);
    if (at != std::string_view::npos) {
      std::string_view rest = line.substr(at + key.size());
      if (const auto tid = take_number(rest)) {
        return static_cast<base::Tid>(*tid);
      }
    }
  }
  return std::nullopt;
}

// The position after the parenthesis that closes the one at `open`, or npos.
size_t closing(std::string_view s, size_t open) {
  int depth = 0;
  for (size_t i = open; i < s.size(); ++i) {
    depth += s[i] == '(' ? 1 : s[i] == ')' ? -1 : 0;
    if (depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

// "function (arguments) at file:line" or "... from library". Function names may contain parentheses and " in
// ". So the arguments are the first parenthesised group after a space that only the place follows.
void parse_function(std::string_view text, model::Frame& f) {
  std::string_view name = text;
  std::string_view place;
  for (size_t at = text.find(" ("); at != std::string_view::npos; at = text.find(" (", at + 1)) {
    const size_t end = closing(text, at + 1);
    const std::string_view rest = end == std::string_view::npos ? "?" : text.substr(end);
    if (rest.empty() || rest.starts_with(" at ") || rest.starts_with(" from ")) {
      name = text.substr(0, at);
      place = rest;
      break;
    }
  }
  if (place.starts_with(" at ")) {
    place.remove_prefix(4);
    const size_t colon = place.rfind(':');
    const auto line =
        colon == std::string_view::npos ? std::nullopt : base::parse_int(place.substr(colon + 1));
    f.file = base::sanitize(line ? place.substr(0, colon) : place);
    f.line = line ? static_cast<int>(std::clamp<int64_t>(*line, 0, 1 << 30)) : 0;
  } else if (place.starts_with(" from ")) {
    f.module = base::sanitize(base::base_name(place.substr(6)));
  }
  const std::string full = base::sanitize(base::trim(name));
  f.func = shorten(full);
  f.full_func = f.func == full ? "" : full;
}

// `#3  0x00007f12 in f (x=...) at a.c:7`; nothing for other lines.
std::optional<model::Frame> parse_frame(std::string_view line) {
  if (!line.starts_with('#')) {
    return std::nullopt;
  }
  line.remove_prefix(1);
  if (!take_number(line)) {
    return std::nullopt;
  }
  line = ltrim(line);
  model::Frame f;
  f.kind = model::FrameKind::native;
  if (line.starts_with("0x")) {
    const size_t end = std::min(line.find(' '), line.size());
    f.pc = base::parse_hex(line.substr(2, end - 2)).value_or(0);
    line = ltrim(line.substr(end));
    if (line.starts_with("in ")) {
      line.remove_prefix(3);
    }
  }
  if (line.starts_with("<signal handler called>")) {
    f.func = "<signal handler called>";
    return f;
  }
  parse_function(line, f);
  if (f.func.empty() || f.func == "??") {
    f.func = f.module.empty() ? "[unknown code]" : f.module;
  }
  return f;
}

bool is_32_bit(base::Pid pid) {
  constexpr size_t kElfHeader = 5;
  std::array<char, kElfHeader> head{};
  const base::UniqueFd fd(::open(base::ProcFs().path(pid, "exe").c_str(), O_RDONLY | O_CLOEXEC));
  return fd && ::read(fd.get(), head.data(), head.size()) == static_cast<ssize_t>(head.size()) &&
         head[EI_CLASS] == ELFCLASS32;
}

}  // namespace

std::vector<GdbThread> parse_gdb_backtrace(std::string_view text) {
  std::vector<GdbThread> out;
  for (std::string_view line : base::split(text, '\n')) {
    if (const auto tid = thread_id(line)) {
      if (out.size() == kMaxThreads) {
        break;
      }
      out.push_back({.tid = *tid});
    } else if (auto frame = parse_frame(line);
               frame && !out.empty() && out.back().frames.size() < kMaxFrames) {
      out.back().frames.push_back(std::move(*frame));
    }
  }
  return out;
}

base::Result<std::vector<GdbThread>> gdb_stacks(base::Pid pid, const DebuggerSettings& settings) {
  // debuginfod would download symbols, and auto-load would run scripts, while the target is stopped.
  const std::vector<std::string> command = {settings.gdb, "-nx",
                                            "-q",         "-batch",
                                            "-iex",       "set debuginfod enabled off",
                                            "-iex",       "set auto-load off",
                                            "-iex",       "set print frame-arguments none",
                                            "-iex",       "set width 0",
                                            "-iex",       "set pagination off",
                                            "-p",         std::to_string(pid),
                                            "-ex",        "thread apply all bt 256"};
  auto ran = run_tool(command, settings.gdb_limit_ns, pid);
  if (!ran) {
    return base::fail(std::move(ran.error()));
  }
  auto threads = parse_gdb_backtrace(ran->out);
  std::erase_if(threads, [](const GdbThread& t) { return t.frames.empty(); });
  if (!threads.empty()) {
    return threads;
  }
  if (ran->end == ToolEnd::timed_out) {
    return base::fail(fmt::format("gdb did not finish within {} s", settings.gdb_limit_ns / 1'000'000'000));
  }
  const auto lines = base::split(base::trim(ran->err), '\n');
  return base::fail(fmt::format("gdb printed no stacks: {}", base::sanitize(lines.back())));
}

bool wants_gdb(const model::ProcessStacks& stacks, const ResolveSettings& settings) {
  if (settings.unwinder == UnwinderKind::gdb || is_32_bit(stacks.pid)) {
    return true;
  }
  // A thread in uninterruptible sleep (state D), for example the parent of a vfork, has only the registers in
  // /proc and so at most one frame. gdb cannot stop such a thread either.
  const auto asleep = [](const model::ThreadStack& t) { return t.state == 'D'; };
  if (std::any_of(stacks.threads.begin(), stacks.threads.end(), asleep)) {
    return false;
  }
  // Registers are known, yet no thread has a caller: then xpurun's own unwinder is at fault, not the process.
  return stacks.method == "ptrace" && stacks.status == model::DumpStatus::ok && !stacks.threads.empty() &&
         std::all_of(stacks.threads.begin(), stacks.threads.end(), [](const model::ThreadStack& t) {
           const auto native = std::count_if(t.frames.begin(), t.frames.end(), [](const model::Frame& f) {
             return f.kind == model::FrameKind::native;
           });
           const bool stopped = std::any_of(t.frames.begin(), t.frames.end(), [](const model::Frame& f) {
             return f.kind == model::FrameKind::marker;
           });
           return native == 1 && stopped;
         });
}

void apply_gdb_stacks(model::ProcessStacks& stacks, const std::vector<GdbThread>& threads) {
  for (const GdbThread& g : threads) {
    const auto it = std::find_if(stacks.threads.begin(), stacks.threads.end(),
                                 [&](const model::ThreadStack& t) { return t.tid == g.tid; });
    if (it == stacks.threads.end()) {
      continue;
    }
    std::vector<model::Frame> frames;
    for (const model::Frame& f : it->frames) {
      if (f.kind == model::FrameKind::kernel) {
        frames.push_back(f);
      }
    }
    frames.insert(frames.end(), g.frames.begin(), g.frames.end());
    bool first = true;
    for (const model::Frame& f : it->frames) {
      if (f.kind == model::FrameKind::python) {
        if (first) {
          model::Frame marker;
          marker.kind = model::FrameKind::marker;
          marker.func = "[Python frames of this thread, read separately]";
          frames.push_back(std::move(marker));
          first = false;
        }
        frames.push_back(f);
      }
    }
    it->frames = std::move(frames);
  }
  stacks.method = "gdb";
  stacks.notes.emplace_back("native frames by gdb, taken later than the other frames");
}

}  // namespace xpurun::stackdump
