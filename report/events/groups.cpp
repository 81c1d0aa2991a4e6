#include "report/events/groups.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/json_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>

namespace xpurun::report {

namespace {

constexpr int64_t kMostRanks = 1'000'000;

// "tp4" is the type tp of size 4.
base::Result<GroupType> parse_type(std::string_view part) {
  const size_t digits = static_cast<size_t>(
      std::find_if(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c) != 0; }) -
      part.begin());
  const auto size = base::parse_int(part.substr(digits));
  const bool letters = digits > 0 && digits <= 8 &&
                       std::all_of(part.begin(), part.begin() + static_cast<long>(digits),
                                   [](unsigned char c) { return std::islower(c) != 0; });
  if (!letters || !size || *size < 1 || *size > kMostRanks) {
    return base::fail(
        fmt::format("\"{}\" is not a group type with its size, such as tp4", base::sanitize(part)));
  }
  return GroupType{std::string(part.substr(0, digits)), static_cast<int>(*size)};
}

// Distance between neighbours of an evenly spaced set, else 0.
base::Rank stride_of(const std::vector<base::Rank>& ranks) {
  const base::Rank stride = ranks.size() > 1 ? ranks[1] - ranks[0] : 0;
  for (size_t i = 1; i < ranks.size(); ++i) {
    if (ranks[i] - ranks[i - 1] != stride) {
      return 0;
    }
  }
  return stride;
}

}  // namespace

base::Result<GroupOrder> GroupOrder::parse(std::string_view text) {
  GroupOrder out;
  int64_t world = 1;
  for (const std::string_view part : base::split(text, '-')) {
    XPURUN_TRY_ASSIGN(GroupType type, parse_type(part));
    const bool twice = std::any_of(out.types_.begin(), out.types_.end(),
                                   [&](const GroupType& t) { return t.name == type.name; });
    world *= type.size;
    if (twice || world > kMostRanks) {
      return base::fail(twice ? fmt::format("the group type {} is named twice", type.name)
                              : fmt::format("these groups have more than {} ranks", kMostRanks));
    }
    out.types_.push_back(std::move(type));
  }
  out.world_ = static_cast<base::Rank>(world);
  return out;
}

base::Result<GroupOrder> GroupOrder::parse_domains(std::string_view json) {
  using Domains = std::map<std::string, std::vector<std::vector<base::Rank>>>;
  Domains domains;
  try {
    domains = model::parse_json(json).get<Domains>();
  } catch (const nlohmann::json::exception&) {
    return base::fail("the file does not have the form {\"tp\": [[0,1], [2,3]], \"dp\": [[0,2], [1,3]]}");
  }
  std::map<base::Rank, GroupType> by_stride;  // the fastest first
  for (const auto& [name, groups] : domains) {
    if (groups.empty() || groups.front().size() < 2) {
      continue;  // a type of size 1 changes nothing
    }
    const base::Rank stride = stride_of(groups.front());
    if (stride <= 0 ||
        !by_stride.emplace(stride, GroupType{name, static_cast<int>(groups.front().size())}).second) {
      return base::fail(fmt::format("the groups of {} are not evenly spaced, or as those of another type",
                                    base::sanitize(name)));
    }
  }
  std::string text;
  for (const auto& [stride, type] : by_stride) {
    text += fmt::format("{}{}{}", text.empty() ? "" : "-", type.name, type.size);
  }
  XPURUN_TRY_ASSIGN(GroupOrder out, parse(text));
  for (const auto& [name, groups] : domains) {
    for (const std::vector<base::Rank>& group : groups) {
      const bool fits = std::all_of(group.begin(), group.end(), [&, type = name](base::Rank rank) {
        return !out.label(rank).empty() && out.label(rank, type) == out.label(group.front(), type);
      });
      if (!fits) {
        return base::fail(
            fmt::format("the groups do not have the order {}, which their first ones have", text));
      }
    }
  }
  return out;
}

base::Result<GroupOrder> GroupOrder::parse_rank_table(std::string_view json) {
  std::vector<std::vector<int64_t>> servers;  // ranks of each
  try {
    const nlohmann::json table = model::parse_json(json);
    for (const nlohmann::json& server : table.at("server_list")) {
      std::vector<int64_t>& ranks = servers.emplace_back();
      for (const nlohmann::json& device : server.at("device")) {
        const auto rank = base::parse_int(device.at("rank_id").get<std::string>());
        ranks.push_back(rank.value_or(-1));
      }
      std::sort(ranks.begin(), ranks.end());
    }
  } catch (const nlohmann::json::exception&) {
    return base::fail(
        "the file does not have the form {\"server_list\": [{\"device\": [{\"rank_id\": \"0\"}]}]}");
  }
  std::sort(servers.begin(), servers.end());
  int64_t next = 0;
  for (const std::vector<int64_t>& ranks : servers) {
    if (ranks.empty() || ranks.size() != servers.front().size()) {
      return base::fail("the servers of the rank table do not have equally many devices");
    }
    for (const int64_t rank : ranks) {
      if (rank != next++) {
        return base::fail("the ranks of a server in the rank table are not consecutive");
      }
    }
  }
  if (servers.empty()) {
    return base::fail("the rank table has no server");
  }
  return parse(fmt::format("device{}-server{}", servers.front().size(), servers.size()));
}

base::Result<GroupOrder> GroupOrder::read(const std::string& value) {
  constexpr size_t kLargest = size_t{64} << 20;
  if (!value.ends_with(".json")) {
    return parse(value);
  }
  XPURUN_TRY_ASSIGN(const std::string text, base::read_regular_file(value, kLargest));
  const bool is_rank_table = text.find("\"server_list\"") != std::string::npos;
  auto groups = is_rank_table ? parse_rank_table(text) : parse_domains(text);
  return groups ? groups : base::fail(base::Error(groups.error()).context(value));
}

base::Status GroupOrder::check(const model::RankSet& ranks, int world_size) const {
  const std::vector<base::Rank> all = ranks.ranks();
  const base::Rank known = all.empty() ? 0 : all.back() + 1;
  if (world_size > 0 ? world_size != world_ : known > world_) {
    return base::fail({.what = fmt::format("these groups have {} {}, the job has {}{}", world_,
                                           world_ == 1 ? "rank" : "ranks", world_size > 0 ? "" : "at least ",
                                           world_size > 0 ? world_size : known),
                       .hint = "the sizes of all types, multiplied, are the number of ranks: tp2-dp4 for 8"});
  }
  // Of a job whose size is unknown the files of some ranks may be missing, but not of all groups.
  if (world_size == 0 && !all.empty() && static_cast<size_t>(types_.front().size) > all.size()) {
    return base::fail(fmt::format("a group of {}{} has {} ranks, but only {} {} there", types_.front().name,
                                  types_.front().size, types_.front().size, all.size(),
                                  all.size() == 1 ? "is" : "are"));
  }
  return {};
}

std::vector<int> GroupOrder::indices(base::Rank rank) const {
  std::vector<int> out;
  for (const GroupType& type : types_) {
    out.push_back(rank % type.size);
    rank /= type.size;
  }
  return out;
}

std::string GroupOrder::label(base::Rank rank, std::string_view except) const {
  if (rank < 0 || rank >= world_) {
    return {};
  }
  const std::vector<int> at = indices(rank);
  std::string out;
  for (size_t i = 0; i < types_.size(); ++i) {
    if (types_[i].name != except) {
      out += fmt::format("{}{}{}", out.empty() ? "" : " ", types_[i].name, at[i]);
    }
  }
  return out;
}

bool GroupOrder::has(std::string_view type) const {
  return std::any_of(types_.begin(), types_.end(), [&](const GroupType& t) { return t.name == type; });
}

int GroupOrder::index_of(base::Rank rank, std::string_view type) const {
  const auto found =
      std::find_if(types_.begin(), types_.end(), [&](const GroupType& t) { return t.name == type; });
  if (rank < 0 || rank >= world_ || found == types_.end()) {
    return -1;
  }
  return indices(rank)[static_cast<size_t>(found - types_.begin())];
}

bool GroupOrder::is_in_a_first_group(base::Rank rank) const {
  if (rank < 0 || rank >= world_) {
    return false;
  }
  const std::vector<int> at = indices(rank);
  return std::count_if(at.begin(), at.end(), [](int i) { return i != 0; }) <= 1;
}

void GroupFinder::add(const Activity& activity) {
  if (activity.rank < 0) {
    return;
  }
  ranks_.insert(activity.rank);
  for (const Communicator& c : activity.communicators) {
    auto& members = members_[{c.identity, c.size}];
    if (c.size > 1 && (members.empty() || members.back() != activity.rank)) {
      members.push_back(activity.rank);
    }
  }
}

std::vector<GroupFinder::Family> GroupFinder::families() const {
  // By size and stride, in the order of Megatron: neighbours first.
  std::map<std::pair<base::Rank, size_t>, std::vector<model::RankSet>> found;
  for (const auto& [key, members] : members_) {
    const model::RankSet set = model::RankSet::of(members);
    const base::Rank stride = stride_of(set.ranks());
    if (set.size() != static_cast<size_t>(key.second) || set.size() >= ranks_.size() || stride == 0) {
      continue;
    }
    auto& groups = found[{stride, set.size()}];
    if (std::find(groups.begin(), groups.end(), set) == groups.end()) {
      groups.push_back(set);
    }
  }
  std::vector<Family> out;
  for (auto& [key, groups] : found) {
    std::sort(groups.begin(), groups.end(),
              [](const model::RankSet& a, const model::RankSet& b) { return a.lowest() < b.lowest(); });
    out.push_back({fmt::format("{} by {}", key.second, key.first), std::move(groups)});
  }
  return out;
}

std::string GroupFinder::label(const std::vector<Family>& families, base::Rank rank) {
  std::string out;
  for (const Family& family : families) {
    const auto at = std::find_if(family.groups.begin(), family.groups.end(),
                                 [&](const model::RankSet& g) { return g.contains(rank); });
    if (at != family.groups.end()) {
      out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", family.name, at - family.groups.begin());
    }
  }
  return out;
}

}  // namespace xpurun::report
