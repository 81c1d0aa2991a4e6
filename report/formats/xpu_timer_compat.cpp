#include "report/formats/xpu_timer_compat.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "report/build/stack_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace xpurun::report {

namespace fs = std::filesystem;

namespace {

constexpr int kLargestWorld = 1 << 20;

// "0-1/5"; empty for no ranks.
std::string ranges(const std::set<int>& ranks) {
  std::string out;
  for (auto it = ranks.begin(); it != ranks.end();) {
    const int first = *it;
    int last = first;
    while (++it != ranks.end() && *it == last + 1) {
      last = *it;
    }
    out += fmt::format("{}{}", out.empty() ? "" : "/",
                       first == last ? fmt::to_string(first) : fmt::format("{}-{}", first, last));
  }
  return out;
}

class Trie {
 public:
  explicit Trie(int world_size) : nodes_(1) {
    for (int r = 0; r < world_size; ++r) {
      all_.insert(all_.end(), r);
    }
  }

  // Outermost word first. Frames inside a link-time optimised function are lost, as in xpu_timer.
  void insert(const std::vector<std::string>& words, int rank) {
    size_t at = 0;
    for (const std::string& word : words) {
      if (word.find("lto_priv") != std::string::npos) {
        break;
      }
      at = child(at, word);
      nodes_[at].ranks.insert(rank);
    }
    nodes_[at].is_end = true;
  }

  std::string folded() const {
    std::string out;
    std::string path;
    for (size_t c : nodes_[0].children) {
      write(c, path, out);
    }
    return out;
  }

 private:
  struct Node {
    std::string word;
    std::vector<size_t> children;  // in order of first appearance
    std::map<std::string, size_t> by_word;
    std::set<int> ranks;
    bool is_end = false;
  };

  size_t child(size_t parent, const std::string& word) {
    const auto it = nodes_[parent].by_word.find(word);
    if (it != nodes_[parent].by_word.end()) {
      return it->second;
    }
    const size_t id = nodes_.size();
    nodes_.push_back({.word = word});
    nodes_[parent].children.push_back(id);
    nodes_[parent].by_word.emplace(word, id);
    return id;
  }

  std::string suffix(const Node& n) const {
    std::set<int> leak;
    std::set_difference(all_.begin(), all_.end(), n.ranks.begin(), n.ranks.end(),
                        std::inserter(leak, leak.end()));
    return fmt::format("@{}|{}", ranges(n.ranks), ranges(leak));
  }

  void write(size_t id, std::string& path, std::string& out) const {
    const Node& n = nodes_[id];
    const size_t length = path.size();
    if (!path.empty()) {
      path += ';';
    }
    path += n.word + suffix(n);
    if (n.is_end) {
      out += path + " 1\n";
    }
    for (size_t c : n.children) {
      write(c, path, out);
    }
    path.resize(length);
  }

  std::set<int> all_;
  std::vector<Node> nodes_;
};

void insert_threads(Trie& trie, const std::vector<XpuThread>& threads, int rank) {
  for (const XpuThread& t : threads) {
    std::vector<std::string> words;
    for (size_t i = t.frames.size(); i-- > 0;) {
      words.push_back(fmt::format("{}@{}", t.frames[i].func, t.frames[i].file));
    }
    trie.insert(words, rank);
  }
}

// The state of /proc/PID/status in xpu_timer's words.
std::string state_text(char state) {
  switch (state) {
    case 'R':
      return "R (running)";
    case 'S':
      return "S (sleeping)";
    case 'D':
      return "D (disk sleep)";
    case 'T':
      return "T (stopped)";
    case 't':
      return "t (tracing stop)";
    case 'Z':
      return "Z (zombie)";
    default:
      return std::string(1, state);
  }
}

XpuFrame xpu_frame(const model::Frame& f) {
  if (f.kind == model::FrameKind::python) {
    return {f.func, fmt::format("{}:{}", f.file, f.line)};
  }
  const std::string& func = f.full_func.empty() ? f.func : f.full_func;
  if (f.line > 0) {
    return {func, fmt::format("{}:{}", f.file, f.line)};
  }
  return f.module.empty() ? XpuFrame{"??", "??"} : XpuFrame{func, f.module};
}

// Converts an xpurun record to xpu_timer's words.
XpuStacktrace from_model(const model::ProcessStacks& p) {
  XpuStacktrace out;
  const model::ThreadStack* main = p.main_thread();
  out.state = main != nullptr ? state_text(main->state) : (p.reason.empty() ? "?" : base::sanitize(p.reason));
  for (const model::ThreadStack& t : p.threads) {
    XpuThread native;
    XpuThread python;
    for (const model::Frame& f : t.frames) {
      if (f.kind == model::FrameKind::python) {
        python.frames.push_back(xpu_frame(f));
      } else if (f.kind != model::FrameKind::marker) {
        native.frames.push_back(xpu_frame(f));
      }
    }
    if (!native.frames.empty()) {
      out.native.push_back(std::move(native));
    }
    if (!python.frames.empty()) {
      out.python.push_back(std::move(python));
    }
  }
  return out;
}

int number_in(std::string_view name, size_t at) {
  constexpr size_t kDigits = 5;
  if (name.size() < at + kDigits) {
    return -1;
  }
  return static_cast<int>(base::parse_int(name.substr(at, kDigits)).value_or(-1));
}

struct Files {
  std::multimap<int, XpuStacktrace> ranks;
  int world_size = 0;
  std::vector<std::string> notes;
};

Files read_files(const std::string& dir) {
  std::vector<std::string> names;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(dir, ec)) {
    const std::string name = entry.path().filename();
    if (name.ends_with("stacktrace")) {
      names.push_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  Files out;
  for (const std::string& name : names) {
    const std::string path = fmt::format("{}/{}", dir, name);
    const int rank = number_in(name, 0);
    const int world = number_in(name, 6);
    const auto bytes = base::read_regular_file(path);
    if (rank < 0 || rank >= kLargestWorld || world < 1 || world > kLargestWorld) {
      out.notes.push_back(fmt::format("{}: its name is not RRRRR-WWWWW.stacktrace", path));
    } else if (!bytes) {
      out.notes.push_back(base::to_line(bytes.error()));
    } else {
      out.world_size = out.world_size == 0 ? world : out.world_size;
      XpuStacktrace trace = parse_xpu_stacktrace(*bytes);
      if (!trace.damage.empty()) {
        out.notes.push_back(fmt::format("{}: {}", path, trace.damage));
      }
      out.ranks.emplace(rank, std::move(trace));
    }
  }
  return out;
}

}  // namespace

XpuTimerMerge merge_xpu_stacktraces(const std::multimap<int, XpuStacktrace>& ranks, int world_size) {
  Trie cpp(world_size);
  Trie py(world_size);
  for (const auto& [rank, trace] : ranks) {
    cpp.insert({"State@" + trace.state}, rank);
    py.insert({"State@" + trace.state}, rank);
    insert_threads(cpp, trace.native, rank);
    insert_threads(py, trace.python, rank);
  }
  XpuTimerMerge out;
  out.cpp = cpp.folded();
  out.py = py.folded();
  out.cpp_svg = xpu_timer_svg(out.cpp, "merge stack in cpp");
  out.py_svg = xpu_timer_svg(out.py, "merge stack in py");
  return out;
}

base::Result<XpuTimerMerge> merge_as_xpu_timer(const std::vector<std::string>& paths) {
  Files files = read_files(paths.front());
  if (files.ranks.empty()) {
    XPURUN_TRY_ASSIGN(const StackSet set, read_stack_set(paths));
    files.notes.insert(files.notes.end(), set.notes.begin(), set.notes.end());
    for (const model::ProcessStacks& p : set.processes()) {
      if (p.role == model::ProcessRole::rank && p.rank >= 0 && p.rank < kLargestWorld) {
        files.ranks.emplace(p.rank, from_model(p));
      }
    }
    if (files.ranks.empty()) {
      return base::fail("no process there is a rank");
    }
    const auto all = set.collected.forest.ranks().ranks();
    files.world_size = std::min(kLargestWorld, (all.empty() ? files.ranks.rbegin()->first : all.back()) + 1);
  }
  XpuTimerMerge out = merge_xpu_stacktraces(files.ranks, files.world_size);
  out.notes = std::move(files.notes);
  return out;
}

}  // namespace xpurun::report
