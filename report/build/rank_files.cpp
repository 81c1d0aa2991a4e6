#include "report/build/rank_files.h"

#include "common/base/output/progress.h"
#include "common/base/strings.h"
#include "common/model/timing/span_file.h"

#include <fmt/format.h>

#include <filesystem>

namespace xpurun::report {

namespace fs = std::filesystem;

namespace {

// 3 of ".../ranks/3/events-1.xev".
base::Rank rank_of_directory(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  const int64_t rank = base::parse_int(parent.filename().string()).value_or(-1);
  return parent.parent_path().filename() == "ranks" && rank >= 0 && rank < base::kHighestRank
             ? static_cast<base::Rank>(rank)
             : base::kNoRank;
}

}  // namespace

RankFiles::RankFiles(const JobRuns& job, const model::RankSet& ranks) {
  std::map<std::string, std::vector<Part>> nobodys;  // by process
  for (const NodeRun& node : job.nodes) {
    std::error_code ec;
    const std::string own = node.path + "/ranks";
    if (node.path.empty()) {
      continue;
    }
    for (const RecordFile& file : record_files(fs::is_directory(own, ec) ? own : node.path).files) {
      const base::Rank rank = rank_of_directory(file.path);
      const base::Result<std::vector<RecordOwner>> owners =
          rank == base::kNoRank ? owners_of(file) : std::vector<RecordOwner>{{.rank = rank}};
      if (!owners) {
        notes_.push_back(base::to_line(owners.error()));
        continue;
      }
      for (const RecordOwner& owner : *owners) {
        auto& to = owner.rank != base::kNoRank ? parts_[owner.rank]
                   : owner.pid == 0            ? nobodys[file.path]
                                               : nobodys[fmt::format("{} {}", owner.host, owner.pid)];
        to.push_back({file, owner, &node});
      }
    }
  }
  // A job of one process has no ranks.
  if (parts_.empty() && nobodys.size() == 1) {
    parts_[0] = std::move(nobodys.begin()->second);
  } else if (!nobodys.empty()) {
    notes_.push_back(fmt::format("{}: the rank is not known", nobodys.begin()->second.front().file.path));
  }
  if (!ranks.empty()) {
    std::erase_if(parts_, [&ranks](const auto& part) { return !ranks.contains(part.first); });
  }
}

void RankFiles::read(Kinds kinds, const std::function<void(const RankRecord&)>& take) {
  base::Progress progress(kinds == Kinds::all ? "reading spans" : "reading events", parts_.size());
  for (const auto& [rank, parts] : parts_) {
    const RankRecord record = read_rank(rank, parts, kinds);
    if (!record.spans.empty() || !record.functions.empty() || !record.events.empty()) {
      take(record);
    }
    progress.advance();
  }
}

RankRecord RankFiles::read_rank(base::Rank rank, const std::vector<Part>& parts, Kinds kinds) {
  RankRecord record{.rank = rank};
  for (const Part& part : parts) {
    if (kinds == Kinds::events && part.file.path.ends_with(model::kSpanFileSuffix)) {
      continue;
    }
    std::string damage;
    if (const auto added = add_to_record(record, part.file, part.owner, damage); !added) {
      notes_.push_back(base::to_line(added.error()));
      continue;
    }
    if (!damage.empty()) {
      notes_.push_back(fmt::format("{}: {}", part.file.path, damage));
    }
  }
  if (const model::EventFileHeader* header = header_of(record)) {
    const NodeRun* node = parts.front().node;
    record.host = node->entry.host.empty() ? header->host : node->entry.host;
    // The same for all ranks of a node: their clocks are one.
    const auto [it, added] =
        offsets_.emplace(node, header->wall_ns - header->mono_ns - clock_offset_ns(*node));
    record.offset_ns = it->second;
  }
  return record;
}

}  // namespace xpurun::report
