#include "report/run/collect.h"

#include "common/base/os/io.h"
#include "common/base/output/progress.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/run/stack_file_stream.h"
#include "report/tree/roles.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <sys/wait.h>

namespace xpurun::report {

namespace fs = std::filesystem;

namespace {

// Above this number of frames, threads that the diagnosis does not need are dropped after merging.
constexpr size_t kFramesForDiagnosis = 300'000;
constexpr size_t kManyProcesses = 4096;  // the frames of their main threads take room enough
constexpr size_t kFramesOfMany = 50'000;
// Larger rank numbers are rejected: a damaged file must not create a set of billions of ranks.

// Runs of digits compare as numbers.
bool natural_less(std::string_view a, std::string_view b) {
  size_t i = 0;
  size_t j = 0;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  while (i < a.size() && j < b.size()) {
    if (digit(a[i]) && digit(b[j])) {
      const size_t i0 = i;
      const size_t j0 = j;
      while (i < a.size() && digit(a[i])) {
        ++i;
      }
      while (j < b.size() && digit(b[j])) {
        ++j;
      }
      const auto x = base::parse_int(a.substr(i0, i - i0)).value_or(INT64_MAX);
      const auto y = base::parse_int(b.substr(j0, j - j0)).value_or(INT64_MAX);
      if (x != y) {
        return x < y;
      }
    } else if (a[i] != b[j]) {
      return a[i] < b[j];
    } else {
      ++i;
      ++j;
    }
  }
  return a.size() - i < b.size() - j;
}

std::string key_of(const std::string& path) {
  const std::string_view name = base::base_name(path);
  return std::string(name.substr(0, name.size() - model::kStacksSuffix.size()));
}

base::Rank rank_in_key(const std::string& key) {
  if (!key.starts_with("rank-")) {
    return base::kNoRank;
  }
  const int64_t n = base::parse_int(std::string_view(key).substr(5)).value_or(-1);
  return n >= 0 && n < base::kHighestRank ? static_cast<base::Rank>(n) : base::kNoRank;
}

// The time of the first readable file of a directory.
int64_t taken_at(const std::string& dir) {
  for (const std::string& path : stack_files_in(dir)) {
    if (const auto s = model::load_compact_stacks(path)) {
      return s->process.wall_ns;
    }
  }
  return -1;
}

// An expected process without stacks.
model::ProcessStacks absent(base::Rank rank, base::Pid pid, const std::string& host, model::ProcessRole role,
                            const std::string& reason) {
  const bool believable = rank >= base::kNoRank && rank < base::kHighestRank;
  model::ProcessStacks p;
  p.rank = believable ? rank : base::kNoRank;
  p.pid = pid;
  p.host = host;
  p.role = believable || role != model::ProcessRole::rank ? role : model::ProcessRole::other;
  p.status = model::DumpStatus::failed;
  p.reason = reason;
  return p;
}

class Collector {
 public:
  explicit Collector(Keep keep) : keep_(keep) {}

  // One stream over all directories, so that frames that are equal on all nodes are kept once.
  void read(const std::vector<DumpSource>& sources) {
    std::vector<std::vector<std::string>> files;
    std::vector<std::string> all;
    for (const DumpSource& source : sources) {
      files.push_back(stack_files_in(source.dir));
      all.insert(all.end(), files.back().begin(), files.back().end());
    }
    most_frames_ = all.size() > kManyProcesses ? kFramesOfMany : kFramesForDiagnosis;
    StackFileStream stream(all);
    base::Progress progress("reading and merging stacks", all.size());
    for (size_t i = 0; i < sources.size(); ++i) {
      source_ = &sources[i];
      read_dir(sources[i].dir, files[i], stream, progress);
    }
    source_ = nullptr;
  }

  void read_process(model::ProcessStacks p) {
    out_.forest.add(p);
    out_.classes.add(p);
    add_line(p, p.status);
    if (keep_ != Keep::nothing && !nothing_learned(p)) {
      out_.stacks.push_back(std::move(p));
    }
  }

  Collected finish() {
    out_.forest.finish();
    std::stable_sort(out_.processes.begin(), out_.processes.end(), [](const auto& a, const auto& b) {
      const auto order = [](const ProcessLine& p) {
        return std::tuple(p.role != model::ProcessRole::rank, p.rank == base::kNoRank, p.rank, p.pid);
      };
      return order(a) < order(b);
    });
    return std::move(out_);
  }

 private:
  void read_dir(const std::string& dir, const std::vector<std::string>& files, StackFileStream& stream,
                base::Progress& progress) {
    std::optional<model::DumpManifest> manifest;
    if (const std::string path = dir + "/dump.json"; base::file_exists(path)) {
      if (auto loaded = model::load_dump_manifest(path)) {
        manifest = std::move(*loaded);
      } else {
        out_.notes.push_back(base::to_line(loaded.error()));
      }
    }
    seen_.clear();
    for (const std::string& path : files) {
      read_file(path, stream.next(), manifest);
      progress.advance();
    }
    if (manifest) {
      add_missing(*manifest);
    }
  }

  // False if the rank belongs to another node.
  bool counts(base::Rank rank) const {
    return rank < 0 || source_ == nullptr || !source_->counts || source_->counts(rank);
  }

  void read_file(const std::string& path, base::Result<model::CompactStacks> loaded,
                 const std::optional<model::DumpManifest>& manifest) {
    const std::string key = key_of(path);
    seen_.insert(std::string(base::base_name(path)));
    if (!loaded) {
      out_.notes.push_back(base::to_line(loaded.error()));
      const model::DumpedProcess* known = nullptr;
      if (manifest) {
        for (const model::DumpedProcess& p : manifest->processes) {
          known = p.file == base::base_name(path) ? &p : known;
        }
      }
      const base::Rank rank = known != nullptr ? known->rank : rank_in_key(key);
      if ((known != nullptr || rank != base::kNoRank) && counts(rank)) {
        add(absent(rank, known != nullptr ? known->pid : 0, manifest ? manifest->host : "",
                   known != nullptr ? known->role : model::ProcessRole::rank,
                   std::string(base::later("the stacks file cannot be read"))),
            model::DumpStatus::failed);
      }
      return;
    }
    model::ProcessStacks& p = loaded->process;
    if (p.rank < base::kNoRank || p.rank >= base::kHighestRank) {
      out_.notes.push_back(fmt::format("{}: rank {} is not believable", path, p.rank));
      p.rank = base::kNoRank;
      p.role = p.role == model::ProcessRole::rank ? model::ProcessRole::other : p.role;
    }
    if (!counts(p.rank)) {
      return;
    }
    if (keep_ == Keep::everything) {
      read_process(expand(*loaded));
      return;
    }
    add(*loaded, p.status);
  }

  void add_missing(const model::DumpManifest& manifest) {
    for (const model::DumpedProcess& p : manifest.processes) {
      if ((!p.file.empty() && seen_.contains(p.file)) || !counts(p.rank)) {
        continue;
      }
      const bool claimed = p.status == model::DumpStatus::ok;
      const std::string reason = !p.reason.empty() ? p.reason
                                 : claimed         ? std::string(base::later("its stacks file is missing"))
                                                   : std::string(name_of(p.status));
      add(absent(p.rank, p.pid, manifest.host, p.role, reason),
          claimed ? model::DumpStatus::failed : p.status);
    }
    for (const model::RankObservation& o : manifest.ranks) {
      if (!ranks_.contains(o.rank) && o.rank >= 0 && o.rank < base::kHighestRank && counts(o.rank)) {
        add(absent(o.rank, o.pid, o.host.empty() ? manifest.host : o.host, model::ProcessRole::rank,
                   o.alive ? std::string(base::later("it was not dumped")) : o.wait_status.text()),
            o.alive ? model::DumpStatus::failed : model::DumpStatus::dead);
      }
    }
  }

  // Adds a process without frames.
  void add(model::ProcessStacks p, model::DumpStatus status) {
    add(model::CompactStacks{.process = std::move(p), .frames = {}, .threads = {}}, status);
  }

  void add(const model::CompactStacks& s, model::DumpStatus status) {
    const model::ProcessStacks& p = s.process;
    out_.forest.add(s);
    add_line(p, status);
    model::ProcessStacks kept = expand(s, telling(s));
    out_.classes.add(kept);
    if (keep_ == Keep::diagnosed_threads && !nothing_learned(p)) {
      std::erase_if(kept.threads, [this](const auto& t) { return crowded_ && !t.main && t.frames.empty(); });
      kept.threads.shrink_to_fit();
      out_.stacks.push_back(std::move(kept));
    }
  }

  static bool nothing_learned(const model::ProcessStacks& p) {
    return p.threads.empty() && p.status == model::DumpStatus::failed;
  }

  void add_line(const model::ProcessStacks& p, model::DumpStatus status) {
    if (p.role == model::ProcessRole::rank) {
      ranks_.insert(p.rank);
    }
    out_.processes.push_back({.rank = p.rank,
                              .pid = p.pid,
                              .host = p.host,
                              .role = process_role(p),
                              .status = status,
                              .reason = p.reason,
                              .pause_ns = p.pause_ns,
                              .threads = p.threads.size()});
  }

  // The threads whose frames the diagnosis needs.
  std::vector<bool> telling(const model::CompactStacks& s) {
    std::vector<bool> out;
    for (size_t i = 0; i < s.threads.size(); ++i) {
      const model::ThreadStack& t = s.process.threads[i];
      const std::vector<uint32_t>& places = s.threads[i];
      const bool python = std::any_of(places.begin(), places.end(), [&s](uint32_t place) {
        return s.frames[place].kind == model::FrameKind::python;
      });
      out.push_back(t.main || (keep_ == Keep::diagnosed_threads && (!crowded_ || t.crashed || python)));
      frames_ += out.back() ? places.size() : 0;
    }
    crowded_ = frames_ > most_frames_;
    return out;
  }

  Keep keep_;
  Collected out_;
  const DumpSource* source_ = nullptr;  // the current source
  std::set<std::string> seen_;          // file names of the current directory
  std::set<base::Rank> ranks_;          // ranks with any data
  size_t frames_ = 0;                   // number of frames kept
  size_t most_frames_ = kFramesForDiagnosis;
  bool crowded_ = false;  // too many frames to keep every thread's
};

}  // namespace

std::vector<std::string> stack_files_in(const std::string& dir) {
  std::vector<std::string> out;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(dir, ec)) {
    if (entry.path().filename().string().ends_with(model::kStacksSuffix)) {
      out.push_back(entry.path());
    }
  }
  std::sort(out.begin(), out.end(), natural_less);
  return out;
}

DumpDirs find_dump_dirs(const std::vector<std::string>& roots) {
  std::vector<std::string> candidates;
  const auto consider = [&](const std::string& path) {
    if (!stack_files_in(path).empty()) {
      candidates.push_back(path);
    }
  };
  for (const std::string& dir : roots) {
    consider(dir);
    std::error_code ec;
    // Does not follow links: "latest" would list every file twice.
    for (auto it = fs::recursive_directory_iterator(dir, fs::directory_options::skip_permission_denied, ec);
         !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
      if (it->is_directory(ec) && !it->is_symlink(ec)) {
        consider(it->path());
      }
    }
  }
  std::sort(candidates.begin(), candidates.end(), natural_less);
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  DumpDirs out;
  std::map<std::string, std::string> holder;  // process key -> directory that holds its latest stacks
  for (const std::string& candidate : candidates) {
    std::set<std::string> rivals;
    const std::vector<std::string> files = stack_files_in(candidate);
    for (const std::string& file : files) {
      if (const auto it = holder.find(key_of(file)); it != holder.end()) {
        rivals.insert(it->second);
      }
    }
    const int64_t at = rivals.empty() ? 0 : taken_at(candidate);
    const bool newest = std::all_of(rivals.begin(), rivals.end(),
                                    [&](const std::string& rival) { return taken_at(rival) <= at; });
    for (const std::string& older : newest ? rivals : std::set<std::string>{candidate}) {
      std::erase(out.dirs, older);
      std::erase_if(holder, [&](const auto& h) { return h.second == older; });
      out.notes.push_back(fmt::format("{}: left out, a later dump of the same processes is shown", older));
    }
    if (newest) {
      out.dirs.push_back(candidate);
      for (const std::string& file : files) {
        holder[key_of(file)] = candidate;
      }
    }
  }
  return out;
}

Collected collect(const std::vector<std::string>& dump_dirs, Keep keep,
                  std::vector<model::ProcessStacks> others) {
  std::vector<DumpSource> sources;
  for (const std::string& dir : dump_dirs) {
    sources.push_back({.dir = dir});
  }
  return collect_from(sources, keep, std::move(others));
}

Collected collect_from(const std::vector<DumpSource>& sources, Keep keep,
                       std::vector<model::ProcessStacks> others) {
  Collector collector(keep);
  collector.read(sources);
  for (model::ProcessStacks& p : others) {
    collector.read_process(std::move(p));
  }
  return collector.finish();
}

}  // namespace xpurun::report
