// Parallel groups of the ranks: as the user names them in Megatron's order, or as the communicators show.
#pragma once

#include "common/base/result.h"
#include "common/model/rank_set.h"
#include "report/events/activity.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::report {

struct GroupType {
  std::string name;  // "tp"
  int size = 1;
};

// "tp4-cp2-dp4-pp2": the first type varies fastest from rank to rank.
class GroupOrder {
 public:
  static base::Result<GroupOrder> parse(std::string_view text);
  // A path that ends in .json: the content of the file in the form of parse_domains() or
  // parse_rank_table(); else parse().
  static base::Result<GroupOrder> read(const std::string& value);
  // sysTrace's hccl_domain, {"tp": [[0,1], [2,3]], "dp": [[0,2], [1,3]]}: evenly spaced groups of all ranks.
  static base::Result<GroupOrder> parse_domains(std::string_view json);
  // MindSpore's rank_table_file, {"server_list": [{"device": [{"rank_id": "0"}, ...]}, ...]}: servers with
  // equally many consecutive ranks become "device8-server2".
  static base::Result<GroupOrder> parse_rank_table(std::string_view json);

  // "tp1 cp0 dp3 pp0", without the type `except`; empty for a rank outside.
  std::string label(base::Rank rank, std::string_view except = {}) const;
  bool has(std::string_view type) const;
  // Negative for a rank outside, and if there is no such type.
  int index_of(base::Rank rank, std::string_view type) const;
  // Whether the rank is in the first group of a type: its index is 0 in every other type.
  bool is_in_a_first_group(base::Rank rank) const;
  base::Rank world() const { return world_; }
  // An error if these cannot be the groups of the job. `world_size`: of the job; 0: unknown.
  base::Status check(const model::RankSet& ranks, int world_size) const;

 private:
  std::vector<int> indices(base::Rank rank) const;

  std::vector<GroupType> types_;
  base::Rank world_ = 1;
};

// Collects the members of communicators and finds families: communicators of one size that divide the ranks
// among them, such as the tensor-parallel groups.
class GroupFinder {
 public:
  void add(const Activity& activity);

  struct Family {
    std::string name;  // "4 by 1": groups of four neighbours; "2 by 4"
    std::vector<model::RankSet> groups;
  };
  // Without communicators of one rank and of all ranks.
  std::vector<Family> families() const;

  // "4 by 1: 0, 2 by 4: 3": the index of the rank's group in each family; empty without families.
  static std::string label(const std::vector<Family>& families, base::Rank rank);

 private:
  std::map<std::pair<uint64_t, int>, std::vector<base::Rank>> members_;  // by identity and size
  model::RankSet ranks_;
};

}  // namespace xpurun::report
