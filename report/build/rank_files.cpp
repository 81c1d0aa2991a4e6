#include "report/build/rank_files.h"

#include "common/base/output/progress.h"
#include "common/base/strings.h"
#include "common/model/timing/event_file.h"
#include "common/model/timing/span_file.h"

#include <fmt/format.h>

#include <filesystem>

namespace xpurun::report {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kEvents = "events-";

// Files of one kind in the order of their numbers.
std::vector<std::string> numbered(const std::string& dir, std::string_view prefix, std::string_view suffix) {
  std::map<int64_t, std::string> found;
  std::error_code ec;
  for (auto it = fs::directory_iterator(dir, ec); !ec && it != fs::directory_iterator(); it.increment(ec)) {
    const std::string name = it->path().filename().string();
    std::error_code other;
    if (name.size() > prefix.size() + suffix.size() && name.starts_with(prefix) && name.ends_with(suffix) &&
        it->is_regular_file(other)) {
      const std::string_view number =
          std::string_view(name).substr(prefix.size(), name.size() - prefix.size() - suffix.size());
      found[base::parse_int(number).value_or(0)] = it->path().string();
    }
  }
  std::vector<std::string> out;
  for (auto& [number, path] : found) {
    out.push_back(std::move(path));
  }
  return out;
}

}  // namespace

RankFiles::RankFiles(const JobRuns& job, const model::RankSet& ranks) {
  for (const NodeRun& node : job.nodes) {
    std::error_code ec;
    for (auto it = fs::directory_iterator(node.path + "/ranks", ec); !ec && it != fs::directory_iterator();
         it.increment(ec)) {
      const int64_t rank = base::parse_int(it->path().filename().string()).value_or(-1);
      std::error_code other;
      if (rank >= 0 && rank < base::kHighestRank && it->is_directory(other) &&
          (ranks.empty() || ranks.contains(static_cast<base::Rank>(rank)))) {
        dirs_[static_cast<base::Rank>(rank)].push_back({it->path().string(), &node});
      }
    }
  }
}

void RankFiles::read(Kinds kinds, const std::function<void(const RankInput&)>& take) {
  base::Progress progress(kinds == Kinds::all ? "reading spans" : "reading events", dirs_.size());
  for (const auto& [rank, of_rank] : dirs_) {
    const RankInput input = read_rank(rank, of_rank, kinds);
    if (!input.spans.empty() || !input.functions.empty() || !input.events.empty()) {
      take(input);
    }
    progress.advance();
  }
}

RankInput RankFiles::read_rank(base::Rank rank, const std::vector<RankDir>& dirs, Kinds kinds) {
  RankInput input{.rank = rank};
  for (const RankDir& dir : dirs) {
    if (kinds == Kinds::all) {
      for (const std::string& path : numbered(dir.path, model::kSpanFilePrefix, model::kSpanFileSuffix)) {
        keep(path, model::load_span_file(path), input.spans, input, *dir.node);
      }
      for (const std::string& path : numbered(dir.path, model::kFunctionFilePrefix, model::kSpanFileSuffix)) {
        keep(path, model::load_span_file(path), input.functions, input, *dir.node);
      }
    }
    for (const std::string& path : numbered(dir.path, kEvents, model::kEventFileSuffix)) {
      keep(path, model::load_event_file(path), input.events, input, *dir.node);
    }
  }
  return input;
}

template <typename F>
void RankFiles::keep(const std::string& path, base::Result<F> file, std::vector<F>& to, RankInput& input,
                     const NodeRun& node) {
  if (!file) {
    notes_.push_back(base::to_line(file.error()));
    return;
  }
  if (!file->complete) {
    notes_.push_back(fmt::format("{}: the end is missing or damaged", path));
  }
  const model::EventFileHeader& header = file->header;
  if (input.host.empty()) {
    input.host = node.entry.host.empty() ? header.host : node.entry.host;
    // The same for all ranks of a host: their clocks are one.
    const auto [it, added] = offsets_.emplace(&node, header.wall_ns - header.mono_ns - node.entry.offset_ns);
    input.offset_ns = it->second;
  }
  input.gpu = input.gpu.empty() ? header.gpu : input.gpu;
  to.push_back(std::move(*file));
}

}  // namespace xpurun::report
