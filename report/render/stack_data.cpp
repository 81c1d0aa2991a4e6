#include "report/render/stack_data.h"

#include "common/base/strings.h"
#include "common/model/json/json_text.h"

#include <nlohmann/json.hpp>

#include <map>
#include <unordered_map>

namespace xpurun::report {

namespace {

using nlohmann::ordered_json;

// Names of C++ templates can be longer than a page.
constexpr size_t kLongestLabel = 240;
constexpr size_t kLongestDetail = 400;

char letter_of(const TreeFrame& f) {
  switch (f.kind) {
    case model::FrameKind::python:
      return 'p';
    case model::FrameKind::native:
      return f.eval ? 'e' : 'n';
    case model::FrameKind::kernel:
      return 'k';
    case model::FrameKind::gpu:
      return 'g';
    case model::FrameKind::marker:
      break;
  }
  return 'm';
}

char letter_of(FrameGroup group) {
  return group == FrameGroup::user ? 'u' : group == FrameGroup::library ? 'l' : 'i';
}

std::string state_of(const DistinctStack& s) {
  std::string out(1, s.state);
  out += s.gil == model::GilState::holder     ? "h"
         : s.gil == model::GilState::waiting  ? "w"
         : s.gil == model::GilState::dropping ? "d"
                                              : "";
  return out;
}

class Columns {
 public:
  explicit Columns(size_t max_nodes) : max_nodes_(max_nodes) {}

  void add(const DumpedStacks& moment) {
    frame_ids_.clear();
    path_ids_.clear();
    moments_.push_back({{"name", moment.name}, {"ranks", moment.forest->ranks().text()}});
    for (const DistinctStack& s : moment.forest->stacks()) {
      if (nodes_ >= max_nodes_) {
        left_out_ += s.threads * s.processes();
        continue;
      }
      at_["moment"].push_back(moments_.size() - 1);
      at_["path"].push_back(path(*moment.forest, s.path));
      at_["role"].push_back(
          index(role_ids_, roles_, {std::string(name_of(s.role->process)), s.role->thread}));
      at_["state"].push_back(state_of(s));
      at_["threads"].push_back(s.threads);
      at_["ranks"].push_back(set(s.ranks));
      at_["processes"].push_back(set(s.unranked));
    }
  }

  StackData finish(const model::RankSet& culprits) {
    ordered_json j;
    j["schema"] = kStackDataSchema;
    j["moments"] = std::move(moments_);
    j["culprits"] = culprits.text();
    j["labels"] = std::move(labels_);
    j["details"] = std::move(details_);
    j["kinds"] = std::move(kinds_);
    j["groups"] = std::move(groups_);
    j["parents"] = std::move(parents_);
    j["frames"] = std::move(frames_);
    j["roles"] = std::move(roles_);
    j["sets"] = std::move(sets_);
    j["stacks"] = std::move(at_);
    j["left_out"] = left_out_;
    return {.json = model::json_text(j), .left_out = left_out_};
  }

 private:
  template <typename Ids>
  size_t index(Ids& ids, ordered_json& list, const typename Ids::key_type& key) {
    const auto [it, fresh] = ids.try_emplace(key, list.size());
    if (fresh) {
      list.push_back(ordered_json(key));
    }
    return it->second;
  }

  size_t set(const model::RankSet& s) { return index(set_ids_, sets_, s.text()); }

  // Frames of different moments are the same if they look the same.
  size_t frame(const StackForest& forest, FrameId id) {
    const auto [known, fresh_here] = frame_ids_.try_emplace(id, 0);
    if (fresh_here) {
      const TreeFrame& f = forest.frames()[id];
      const auto [it, fresh] = by_label_.try_emplace(letter_of(f) + f.label, labels_.size());
      known->second = it->second;
      if (fresh) {
        labels_.push_back(base::elide_middle(f.label, kLongestLabel));
        details_.push_back(base::elide_middle(f.detail, kLongestDetail));
        kinds_ += letter_of(f);
        groups_ += letter_of(f.group);
      }
    }
    return known->second;
  }

  // Nodes are numbered from 1; 0 is the root.
  size_t path(const StackForest& forest, PathTree::NodeId id) {
    std::vector<PathTree::NodeId> missing;
    size_t at = 0;
    for (; id != 0; id = forest.paths()[id].parent) {
      if (const auto it = path_ids_.find(id); it != path_ids_.end()) {
        at = it->second;
        break;
      }
      missing.push_back(id);
    }
    for (size_t i = missing.size(); i-- > 0;) {
      const size_t f = frame(forest, forest.paths()[missing[i]].frame);
      const auto [it, fresh] = edges_.try_emplace(std::pair(at, f), nodes_ + 1);
      if (fresh) {
        ++nodes_;
        parents_.push_back(at);
        frames_.push_back(f);
      }
      at = it->second;
      path_ids_.emplace(missing[i], at);
    }
    return at;
  }

  size_t max_nodes_;
  size_t nodes_ = 0;
  size_t left_out_ = 0;
  std::unordered_map<FrameId, size_t> frame_ids_;          // of the moment being added
  std::unordered_map<PathTree::NodeId, size_t> path_ids_;  // the same
  std::unordered_map<std::string, size_t> by_label_;
  std::map<std::pair<size_t, size_t>, size_t> edges_;
  std::map<std::string, size_t> set_ids_;
  std::map<std::pair<std::string, std::string>, size_t> role_ids_;
  std::string kinds_;
  std::string groups_;
  ordered_json moments_ = ordered_json::array();
  ordered_json labels_ = ordered_json::array();
  ordered_json details_ = ordered_json::array();
  ordered_json parents_ = ordered_json::array();
  ordered_json frames_ = ordered_json::array();
  ordered_json roles_ = ordered_json::array();
  ordered_json sets_ = ordered_json::array();
  ordered_json at_ = ordered_json::object();
};

}  // namespace

StackData stack_data(const std::vector<DumpedStacks>& moments, const model::RankSet& culprits,
                     size_t max_nodes) {
  Columns columns(max_nodes);
  for (const DumpedStacks& m : moments) {
    columns.add(m);
  }
  return columns.finish(culprits);
}

}  // namespace xpurun::report
