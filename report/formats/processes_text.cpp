// Text for people who read a few processes: like py-spy's, with more facts.
#include "common/base/strings.h"
#include "common/model/frame_text.h"
#include "report/formats/formats.h"
#include "report/tree/roles.h"

#include <fmt/format.h>

namespace xpurun::report {

namespace {

constexpr size_t kMaxTids = 6;  // listed in the heading of equal threads
constexpr size_t kMaxCommand = 200;

std::string_view state_word(char state) {
  switch (state) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'D':
      return "uninterruptible sleep";
    case 'T':
      return "stopped";
    case 't':
      return "stopped by a tracer";
    case 'Z':
      return "zombie";
    case 'I':
      return "idle";
    default:
      return "";
  }
}

std::string process_heading(const model::ProcessStacks& p) {
  std::vector<std::string> words;
  for (const std::string& word : p.cmdline) {
    // Other tools record the command line as a single word.
    words.push_back(p.cmdline.size() == 1 ? word : base::shell_quote(word));
  }
  const std::string command = words.empty() ? base::sanitize(p.comm) : base::sanitize(base::join(words, " "));
  std::string out = fmt::format("Process {}{}{}\n", p.pid, command.empty() ? "" : ": ",
                                base::elide_middle(command, kMaxCommand));
  std::vector<std::string> facts;
  if (p.rank != base::kNoRank) {
    facts.push_back(p.role == model::ProcessRole::rank
                        ? fmt::format("rank {}", p.rank)
                        : fmt::format("{} of rank {}", name_of(p.role), p.rank));
  }
  if (!p.host.empty()) {
    facts.push_back("host " + base::sanitize(p.host));
  }
  if (!p.python_version.empty()) {
    facts.push_back("Python " + base::sanitize(p.python_version));
  }
  facts.push_back(fmt::format("{} thread{}", p.threads.size(), p.threads.size() == 1 ? "" : "s"));
  if (p.method == "no-stop") {
    facts.emplace_back("read without stopping it");
  } else if (p.method == "core") {
    facts.emplace_back("from a core file");
  } else if (p.pause_ns > 0) {
    facts.push_back(fmt::format("stopped for {:.1f} ms", static_cast<double>(p.pause_ns) * 1e-6));
  }
  out += "  " + base::join(facts, ", ") + '\n';
  if (const std::string how = model::fatal_words(p); !how.empty()) {
    out += fmt::format("  {}\n", base::sanitize(how));
  }
  if (p.status != model::DumpStatus::ok) {
    out += fmt::format("  {}: {}\n", model::name_of(p.status), base::sanitize(p.reason));
  }
  for (const std::string& note : p.notes) {
    out += fmt::format("  note: {}\n", base::sanitize(note));
  }
  return out;
}

std::string marks_of(const model::ThreadStack& t) {
  std::vector<std::string> marks;
  if (const auto word = state_word(t.state); !word.empty()) {
    marks.emplace_back(word);
  }
  if (t.crashed) {
    marks.emplace_back("crashed");
  }
  if (t.gil == model::GilState::holder) {
    marks.emplace_back("holds the GIL");
  } else if (t.gil == model::GilState::waiting) {
    marks.emplace_back("waits for the GIL");
  } else if (t.gil == model::GilState::dropping) {
    marks.emplace_back("gives up the GIL");
  }
  if (t.gc) {
    marks.emplace_back("collects garbage");
  }
  if (t.motion != model::Motion::unknown) {
    marks.emplace_back(name_of(t.motion));
  }
  if (t.state == 'D' && !t.wchan.empty()) {
    marks.push_back("in " + base::sanitize(t.wchan));
  }
  return base::join(marks, ", ");
}

// The name without the thread's own numbers, so that equal threads can be grouped.
std::string name_of_thread(const model::ThreadStack& t) {
  const std::string comm = base::sanitize(t.comm);
  const std::string python = base::sanitize(t.python_name);
  if (python.empty()) {
    return comm.empty() ? "" : fmt::format("\"{}\"", comm);  // core files have no names of threads
  }
  return comm.empty() || comm == python ? fmt::format("\"{}\"", python)
                                        : fmt::format("\"{}\" ({})", python, comm);
}

struct ThreadGroup {
  std::vector<const model::ThreadStack*> threads;
  std::string key;
  std::string frames;
};

std::string group_heading(const ThreadGroup& g) {
  const model::ThreadStack& first = *g.threads.front();
  std::string who;
  for (size_t i = 0; i < std::min(g.threads.size(), kMaxTids); ++i) {
    who += fmt::format("{}{}", i == 0 ? "" : ", ", g.threads[i]->tid);
  }
  if (g.threads.size() > kMaxTids) {
    who += fmt::format(" and {} more", g.threads.size() - kMaxTids);
  }
  const std::string marks = marks_of(first);
  const std::string name = name_of_thread(first);
  return fmt::format("{} {}{}{}{}{}\n", g.threads.size() == 1 ? "Thread" : "Threads", who,
                     name.empty() ? "" : " ", name, first.main ? ", main" : "",
                     marks.empty() ? "" : ": " + marks);
}

std::string frames_text(const model::ThreadStack& t, View view) {
  std::string out;
  for (const model::Frame* f : frames_in(t, view)) {
    out += fmt::format("    {}\n", model::frame_label(*f));
    for (const model::Local& local : f->locals) {
      out += fmt::format("        {} = {}\n", base::sanitize(local.name), base::sanitize(local.value));
    }
  }
  return out;
}

std::string process_text(const model::ProcessStacks& p, View view) {
  std::string out = process_heading(p);
  std::vector<ThreadGroup> groups;
  size_t without = 0;
  for (const model::ThreadStack& t : p.threads) {
    std::string frames = frames_text(t, view);
    if (frames.empty() && view == View::python) {
      ++without;
      continue;
    }
    std::string key =
        fmt::format("{}{}|{}|{}|{}", t.main, thread_role(t), name_of_thread(t), marks_of(t), frames);
    bool found = false;
    for (ThreadGroup& g : groups) {
      if (g.key == key) {
        g.threads.push_back(&t);
        found = true;
        break;
      }
    }
    if (!found) {
      groups.push_back({.threads = {&t}, .key = std::move(key), .frames = std::move(frames)});
    }
  }
  for (const ThreadGroup& g : groups) {
    out += '\n' + group_heading(g) + (g.frames.empty() ? "    (no frames)\n" : g.frames);
  }
  if (without > 0) {
    out += fmt::format("\n{} more thread{} without Python frames\n", without, without == 1 ? "" : "s");
  }
  return out;
}

}  // namespace

std::string processes_text(const StackSet& set, View view) {
  std::string out;
  for (const model::ProcessStacks& p : set.processes()) {
    out += (out.empty() ? "" : "\n") + process_text(p, view);
  }
  // Processes without any stacks have no record of their own.
  for (const ProcessLine& line : set.collected.processes) {
    if (line.threads == 0) {
      out += fmt::format("{}Process {}{}: no stacks: {}\n", out.empty() ? "" : "\n", line.pid,
                         line.rank == base::kNoRank ? "" : fmt::format(" (rank {})", line.rank),
                         base::sanitize(model::reason_or_status(line.reason, line.status)));
    }
  }
  return out;
}

}  // namespace xpurun::report
