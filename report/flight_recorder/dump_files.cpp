#include "report/flight_recorder/dump_files.h"

#include "common/base/os/io.h"
#include "common/base/output/progress.h"
#include "common/base/strings.h"
#include "report/flight_recorder/flight_dump.h"
#include "report/flight_recorder/rank_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace xpurun::report {

namespace fs = std::filesystem;

namespace {

constexpr size_t kLargestFile = size_t{256} << 20;
constexpr unsigned kMostThreads = 8;
constexpr size_t kFilesForAThread = 8;
constexpr size_t kMostNotes = 20;
constexpr size_t kFirstBytes = 2;

struct Named {
  std::string prefix;
  base::Rank rank = base::kNoRank;
};

// Splits "nccl_trace_rank_12" into the prefix "nccl_trace_rank_" and rank 12.
Named name_parts(std::string_view name) {
  for (const std::string_view ending : {".json", ".pkl", ".pickle"}) {
    name.remove_suffix(name.ends_with(ending) ? ending.size() : 0);
  }
  const size_t last = name.find_last_not_of("0123456789");
  const std::string_view digits = name.substr(last == std::string_view::npos ? 0 : last + 1);
  const auto rank = digits.empty() || digits.size() > 8 ? std::nullopt : base::parse_int(digits);
  if (!rank || *rank >= base::kHighestRank) {
    return {};
  }
  return {.prefix = std::string(name.substr(0, name.size() - digits.size())),
          .rank = static_cast<base::Rank>(*rank)};
}

bool begins_like_a_dump(const std::string& path) {
  const auto fd = base::open_read(path);
  if (!fd) {
    return false;
  }
  char head[kFirstBytes];
  const ssize_t n = ::read(fd->get(), head, sizeof head);
  return n > 0 && looks_like_flight_dump({head, static_cast<size_t>(n)});
}

// The files of one prefix, keyed by rank.
using Files = std::map<base::Rank, std::string>;

// Prefixes of one family may belong to one job: the host's name stands between "rank_" and the rank, or the
// names differ in numbers only.
std::string family_of(const std::string& prefix) {
  constexpr std::string_view kRank = "rank_";
  if (const size_t at = prefix.rfind(kRank); at != std::string::npos) {
    return prefix.substr(0, at + kRank.size());
  }
  std::string out = prefix;
  std::erase_if(out, [](char c) { return c >= '0' && c <= '9'; });
  return out;
}

// The files of all prefixes if each rank has one, else those of the prefix with the most: of several jobs
// one.
Files joined(const std::map<std::string, Files>& by_prefix) {
  Files all;
  const Files* most = nullptr;
  size_t files = 0;
  for (const auto& [prefix, of_prefix] : by_prefix) {
    all.insert(of_prefix.begin(), of_prefix.end());
    files += of_prefix.size();
    most = most == nullptr || of_prefix.size() > most->size() ? &of_prefix : most;
  }
  return all.size() == files ? all : *most;
}

class ParallelReader {
 public:
  ParallelReader(const std::vector<FlightFile>& files, int64_t taken_ns)
      : files_(files), taken_ns_(taken_ns), progress_("reading Flight Recorder dumps", files.size()) {
    results_.resize(files.size());
    problems_.resize(files.size());
  }

  void run() {
    const size_t useful = std::max<size_t>(files_.size() / kFilesForAThread, 1);
    const size_t wanted =
        std::min<size_t>(std::clamp(std::thread::hardware_concurrency(), 1u, kMostThreads), useful);
    std::vector<std::thread> threads;
    // If no thread can be started, the caller reads everything itself.
    try {
      for (size_t i = 1; i < wanted; ++i) {
        threads.emplace_back([this] { work(); });
      }
    } catch (const std::system_error&) {
    }
    work();
    for (std::thread& t : threads) {
      t.join();
    }
  }

  std::vector<RankFacts>& results() { return results_; }
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void work() {
    for (size_t mine = 0; (mine = next_.fetch_add(1)) < files_.size();) {
      // An exception here can only mean out of memory. It must not leave the thread.
      try {
        read(mine);
      } catch (const std::exception& e) {
        problems_[mine] = fmt::format("{}: {}", files_[mine].path, e.what());
      }
      const std::lock_guard lock(mutex_);
      progress_.advance();
    }
  }

  void read(size_t i) {
    auto content = base::read_regular_file(files_[i].path, kLargestFile);
    if (!content) {
      problems_[i] = base::to_line(content.error());
      return;
    }
    const auto dump = read_flight_dump(std::move(*content));
    if (!dump) {
      problems_[i] = base::to_line(base::Error(dump.error()).context(files_[i].path));
      return;
    }
    results_[i] = rank_facts(*dump, files_[i].rank, taken_ns_);
  }

  const std::vector<FlightFile>& files_;
  int64_t taken_ns_;
  std::atomic<size_t> next_ = 0;
  std::vector<RankFacts> results_;     // rank kNoRank: unreadable
  std::vector<std::string> problems_;  // empty: readable
  std::mutex mutex_;                   // guards progress_
  base::Progress progress_;
};

}  // namespace

std::vector<FlightFile> find_flight_files(const std::string& dir) {
  std::map<std::string, std::map<std::string, Files>> families;  // by prefix
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(dir, ec)) {
    std::error_code type;
    const std::string name = entry.path().filename();
    const Named parts = name_parts(name);
    if (parts.rank >= 0 && entry.is_regular_file(type) && begins_like_a_dump(entry.path())) {
      families[family_of(parts.prefix)][parts.prefix].emplace(parts.rank, entry.path());
    }
  }
  Files most;
  for (const auto& [family, by_prefix] : families) {
    if (Files files = joined(by_prefix); files.size() > most.size()) {
      most = std::move(files);
    }
  }
  std::vector<FlightFile> out;
  for (const auto& [rank, path] : most) {
    out.push_back({.rank = rank, .path = path});
  }
  return out;
}

FlightFacts read_flight_files(const std::vector<FlightFile>& files, int64_t taken_ns) {
  ParallelReader reader(files, taken_ns);
  reader.run();
  FlightFacts out;
  std::vector<RankFacts> good;
  for (size_t i = 0; i < files.size(); ++i) {
    out.world_size = std::max(out.world_size, files[i].rank + 1);
    if (!reader.problems()[i].empty()) {
      if (out.notes.size() < kMostNotes) {
        out.notes.push_back(reader.problems()[i]);
      }
      continue;
    }
    good.push_back(std::move(reader.results()[i]));
  }
  align_point_to_point(good);
  align_ages(good);
  std::set<base::Rank> seen;
  std::set<base::Rank> members;
  for (RankFacts& r : good) {
    seen.insert(r.collectives.rank);
    for (const model::Communicator& c : r.collectives.communicators) {
      members.insert(c.members.begin(), c.members.end());
    }
    out.facts.ranks.push_back(std::move(r.collectives));
  }
  std::set_difference(members.begin(), members.end(), seen.begin(), seen.end(),
                      std::back_inserter(out.silent));
  if (!members.empty()) {
    out.world_size = std::max(out.world_size, *members.rbegin() + 1);
  }
  return out;
}

}  // namespace xpurun::report
