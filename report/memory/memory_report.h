// MemoryReport: who holds the memory of a job, rank beside rank, from the looks of its ranks or from
// snapshots of PyTorch. Pure: tables, JSON, and a profile whose samples are KiB, for the flame graph.
#pragma once

#include "common/model/memory/memory_look.h"
#include "common/model/rank_set.h"
#include "report/operations/tables/text_table.h"
#include "report/profile/profile.h"

#include <optional>
#include <string>
#include <vector>

namespace xpurun::report {

// Bytes of one category on one kind of device, over the ranks.
struct CategoryRow {
  std::string kind;  // "cuda", "cpu", "python"
  model::MemoryCategory category = model::MemoryCategory::tensors;
  int64_t median = 0;
  int64_t least = 0;
  int64_t most = 0;
  base::Rank least_rank = base::kNoRank;
  base::Rank most_rank = base::kNoRank;
};

// A holder, over the ranks: holders of one category with equal words together.
struct HolderRow {
  std::string kind;
  model::MemoryCategory category = model::MemoryCategory::tensors;
  std::string name;
  std::string place;  // of the allocation; empty: not recorded
  model::RankSet ranks;
  int64_t most = 0;  // bytes on one rank
  base::Rank most_rank = base::kNoRank;
  int64_t count = 0;           // on that rank
  double grown_per_step = -1;  // most on one rank; negative: there was no window
};

struct MemoryReport {
  std::vector<model::MemoryLook> looks;  // one of each rank
  std::vector<CategoryRow> categories;   // GPUs first; most bytes first
  std::vector<HolderRow> holders;        // most bytes first
  model::RankSet ranks;
};

// Of each rank the look of this reason; without a reason, the last one (report/diagnosis/memory/held.h).
MemoryReport memory_report(const std::vector<model::MemoryLook>& looks,
                           std::optional<model::LookReason> why = std::nullopt);

// "out of memory, after 12 steps", one line for ranks with equal words; the state of the allocators.
std::vector<std::string> look_lines(const MemoryReport& report);
// Categories, holders, growth; tables without rows are left out.
std::vector<TextTable> memory_tables(const MemoryReport& report, size_t most);
std::string memory_json(const MemoryReport& report);
// Kind of device, category, holder, then the stack of the allocation, outermost frame first. For
// profile_svg() and its like.
Profile memory_profile(const MemoryReport& report);

}  // namespace xpurun::report
