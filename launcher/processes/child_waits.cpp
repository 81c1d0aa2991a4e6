#include "launcher/processes/child_waits.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

namespace xpurun::launcher {

namespace {

// Enough for the standard library's frames between the system call and the user's call.
constexpr size_t kFrames = 8;
constexpr base::MonoNs kOpenAgain = 1'000'000'000;
constexpr base::MonoNs kLinger = 30'000'000'000;

struct Pattern {
  std::string_view file;  // suffix of the path
  std::string_view function;
  ProcessWait wait;
};

constexpr std::array kPatterns = {
    Pattern{"torch/multiprocessing/spawn.py", "join", ProcessWait::launcher},
    Pattern{"/multiprocessing/process.py", "join", ProcessWait::perhaps},
    Pattern{"/subprocess.py", "wait", ProcessWait::perhaps},
    Pattern{"/subprocess.py", "_wait", ProcessWait::perhaps},
    Pattern{"/subprocess.py", "communicate", ProcessWait::perhaps},
    Pattern{"/subprocess.py", "_communicate", ProcessWait::perhaps},
};

}  // namespace

ProcessWait process_wait(const std::vector<stackdump::CodeName>& innermost_first) {
  for (const stackdump::CodeName& code : innermost_first) {
    const std::string_view file = code.file;
    const std::string_view name = std::string_view(code.function).substr(code.function.rfind('.') + 1);
    for (const Pattern& p : kPatterns) {
      if (file.ends_with(p.file) && name == p.function) {
        return p.wait;
      }
    }
  }
  return ProcessWait::none;
}

ChildWaits::ChildWaits(double patience_s, Opener open)
    : patience_(base::s_to_ns(patience_s)), open_(std::move(open)) {}

ChildWaits::Reader ChildWaits::open_python(base::Pid pid) {
  auto opened = stackdump::PositionReader::open(pid);
  if (!opened) {
    return {};
  }
  const auto reader = std::make_shared<stackdump::PositionReader>(std::move(*opened));
  return [reader]() -> std::optional<std::vector<stackdump::CodeName>> {
    auto frames = reader->innermost(kFrames);
    return frames ? std::optional(std::move(*frames)) : std::nullopt;
  };
}

ProcessWait ChildWaits::wait_of(base::Pid pid, Watched& watched, base::MonoNs now) const {
  if (!watched.reader) {
    if (now < watched.next_open) {
      return ProcessWait::none;
    }
    watched.next_open = now + kOpenAgain;
    watched.reader = open_(pid);
    if (!watched.reader) {
      return ProcessWait::none;
    }
  }
  const auto frames = watched.reader();
  if (!frames) {
    watched.reader = nullptr;
    return ProcessWait::none;
  }
  return process_wait(*frames);
}

std::set<base::Pid> ChildWaits::look(const std::vector<base::Pid>& pids, base::MonoNs now) {
  std::erase_if(watched_, [&](const auto& entry) {
    return std::find(pids.begin(), pids.end(), entry.first) == pids.end();
  });
  std::set<base::Pid> out;
  for (const base::Pid pid : pids) {
    Watched& watched = watched_[pid];
    const ProcessWait wait = wait_of(pid, watched, now);
    if (wait != ProcessWait::none) {
      watched.since = watched.since == 0 ? now : watched.since;
      watched.last = now;
      watched.counts = watched.counts || wait == ProcessWait::launcher || now - watched.since >= patience_;
    } else {
      watched.since = 0;
      // A launcher also runs code of its own between two waits, for example to print.
      watched.counts = watched.counts && now - watched.last < kLinger;
    }
    if (watched.counts) {
      out.insert(pid);
    }
  }
  return out;
}

}  // namespace xpurun::launcher
