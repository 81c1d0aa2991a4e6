#include "report/flight_recorder/nccl_ras.h"

#include "common/base/strings.h"
#include "common/model/json_fields.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace xpurun::report {

namespace {

using nlohmann::json;

constexpr int64_t kMostRanks = 1 << 20;
constexpr int64_t kMostAllRanks = 8 << 20;  // of all communicators together
constexpr size_t kMostCommunicators = 100'000;
constexpr size_t kMostRasNotes = 20;

bool is_rank(int64_t rank) {
  return rank >= 0 && rank < kMostRanks;
}

// The number behind `words`, which may stand anywhere; empty: there is none.
std::optional<int64_t> number_behind(std::string_view line, std::string_view words) {
  const size_t at = line.find(words);
  if (at == std::string_view::npos) {
    return std::nullopt;
  }
  const std::string_view rest = line.substr(at + words.size());
  return base::parse_int(rest.substr(0, rest.find_first_not_of("0123456789")));
}

// "... GPU 0 managed by process 483072 on node 172.16.64.210"
void read_place(RasRank& rank, std::string_view line) {
  rank.gpu = number_behind(line, "GPU ").value_or(-1);
  rank.pid = static_cast<base::Pid>(number_behind(line, "process ").value_or(0));
  constexpr std::string_view kNode = " on node ";
  if (const size_t node = line.find(kNode); node != std::string_view::npos) {
    rank.host = base::sanitize(base::trim(line.substr(node + kNode.size())));
  }
}

class TextReader {
 public:
  RasStatus read(std::string_view text) {
    for (const std::string_view line : base::split(text, '\n')) {
      use(base::trim(line));
    }
    close_counts();
    return std::move(out_);
  }

 private:
  // A group of ranks with one count.
  struct Group {
    int64_t size = 0;
    uint64_t count = 0;
    std::vector<int64_t> named;
  };

  void use(std::string_view line) {
    if (line.empty()) {
      // The count of the next operation follows.
    } else if (line.starts_with('#')) {
      open_communicator(line);
    } else if (line.starts_with("Encountered ") || line.find(" considered dead") != std::string_view::npos ||
               line.starts_with("Process ")) {
      if (out_.notes.size() < kMostRasNotes) {
        out_.notes.push_back(base::sanitize(line));
      }
    } else if (at_ == nullptr) {
      read_table(line);
    } else if (line.starts_with("Communicator ranks have different ")) {
      close_counts();
      const std::string_view what =
          line.substr(std::string_view("Communicator ranks have different ").size());
      operation_ = what.ends_with(" operation counts") ? std::string(what.substr(0, what.find(' '))) : "";
    } else if (line.starts_with("The missing rank")) {
      for (const std::string_view word : base::split(line.substr(line.find(':') + 1), ',')) {
        add_missing(base::parse_int(base::trim(word)), "");
      }
    } else if (incomplete_ && line.starts_with("Rank ")) {
      add_missing(number_behind(line, "Rank "), line);
    } else if (!operation_.empty()) {
      read_count(line);
    }
  }

  // "#0-0 (27a079b828ff1a75) MISMATCH"
  void open_communicator(std::string_view line) {
    close_counts();
    const size_t open = line.find('(');
    const size_t close = line.find(')');
    const auto group = number_behind(line, "#");
    at_ = nullptr;
    if (open == std::string_view::npos || close == std::string_view::npos || close < open ||
        out_.communicators.size() >= kMostCommunicators) {
      return;
    }
    const std::string id = base::sanitize(line.substr(open + 1, close - open - 1));
    incomplete_ = line.ends_with("INCOMPLETE");
    const auto known = std::find_if(out_.communicators.begin(), out_.communicators.end(),
                                    [&id](const RasCommunicator& c) { return c.id == id; });
    if (known != out_.communicators.end()) {
      at_ = &*known;
      return;
    }
    const auto size = sizes_.find(group.value_or(-1));
    const int64_t ranks = size == sizes_.end() ? 0 : size->second;
    if ((all_ranks_ += ranks) > kMostAllRanks) {
      return;
    }
    out_.communicators.push_back({.id = id, .size = ranks});
    at_ = &out_.communicators.back();
  }

  // "    0         8         4         1         4        32   RUNNING      OK": the fifth number is the
  // ranks of a communicator.
  void read_table(std::string_view line) {
    std::vector<std::string_view> words = base::split(line, ' ');
    std::erase_if(words, [](std::string_view w) { return w.empty(); });
    if (words.size() < 8) {
      return;
    }
    const auto group = base::parse_int(words[0]);
    const auto ranks = base::parse_int(words[4]);
    if (group && ranks && *ranks > 0 && *ranks < kMostRanks) {
      sizes_[*group] = *ranks;
    }
  }

  void add_missing(std::optional<int64_t> rank, std::string_view line) {
    if (rank && is_rank(*rank)) {
      RasRank& r = at_->ranks[*rank];
      r.missing = true;
      read_place(r, line);
    }
  }

  // "26 ranks have launched up to operation 6650", "Rank 0 -- GPU 0 managed by ...", "Rank 3 has launched up
  // to operation 6649 -- GPU ...", "Rank 3 has not launched any operations -- ..."
  void read_count(std::string_view line) {
    const bool counts = line.find("launched") != std::string_view::npos;
    const auto count = static_cast<uint64_t>(number_behind(line, "operation ").value_or(0));
    if (line.starts_with("Rank ")) {
      const auto rank = number_behind(line, "Rank ");
      if (!rank || !is_rank(*rank)) {
        return;
      }
      if (counts) {
        groups_.push_back({.size = 1, .count = count});
      }
      if (!groups_.empty()) {
        groups_.back().named.push_back(*rank);
        read_place(at_->ranks[*rank], line);
      }
    } else if (counts) {
      groups_.push_back(
          {.size = base::parse_int(line.substr(0, line.find(' '))).value_or(0), .count = count});
    }
  }

  // Ranks that a text does not name are of the only group without names.
  void close_counts() {
    if (at_ != nullptr && !operation_.empty()) {
      const Group* unnamed = nullptr;
      size_t without_names = 0;
      for (const Group& g : groups_) {
        for (const int64_t rank : g.named) {
          at_->ranks[rank].launched[operation_] = g.count;
        }
        if (g.named.empty()) {
          unnamed = &g;
          ++without_names;
        }
      }
      if (without_names == 1) {
        for (int64_t rank = 0; rank < at_->size; ++rank) {
          RasRank& r = at_->ranks[rank];
          if (!r.missing) {
            r.launched.emplace(operation_, unnamed->count);
          }
        }
      }
    }
    groups_.clear();
    operation_.clear();
  }

  RasStatus out_;
  std::map<int64_t, int64_t> sizes_;  // of the communicators of a group
  int64_t all_ranks_ = 0;
  RasCommunicator* at_ = nullptr;
  bool incomplete_ = false;
  std::string operation_;  // whose counts are read
  std::vector<Group> groups_;
};

int64_t number_in(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() && found->is_number_integer() ? found->get<int64_t>()
                                                                                   : -1;
}

std::string text_in(const json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() && found->is_string()
             ? base::sanitize(found->get<std::string>())
             : "";
}

const json& part_of(const json& object, const char* key) {
  static const json kNone = json::array();
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : kNone;
}

void read_json_rank(RasCommunicator& to, const json& from, bool missing) {
  const int64_t number = number_in(from, "rank");
  if (!is_rank(number)) {
    return;
  }
  RasRank& rank = to.ranks[number];
  rank.host = text_in(from, "host");
  rank.pid = static_cast<base::Pid>(std::max<int64_t>(number_in(from, "pid"), 0));
  rank.gpu = number_in(from, "nvml_dev");
  rank.missing = missing;
  rank.dead = part_of(part_of(from, "status"), "considered_dead") == true;
  const json& counts = part_of(from, "collective_counts");
  for (auto count = counts.begin(); counts.is_object() && count != counts.end(); ++count) {
    if (count->is_number_unsigned()) {
      rank.launched[base::sanitize(count.key())] = count->get<uint64_t>();
    }
  }
}

RasStatus read_json(const json& whole) {
  RasStatus out;
  int64_t all_ranks = 0;
  for (const json& from : part_of(whole, "communicators")) {
    all_ranks += std::clamp<int64_t>(number_in(from, "size"), 0, kMostRanks);
    if (!from.is_object() || out.communicators.size() >= kMostCommunicators || all_ranks > kMostAllRanks) {
      continue;
    }
    std::string id = text_in(from, "hash");
    id = id.starts_with("0x") ? id.substr(2) : id;
    RasCommunicator to{.id = std::move(id),
                       .size = std::clamp<int64_t>(number_in(from, "size"), 0, kMostRanks)};
    for (const json& rank : part_of(from, "ranks")) {
      read_json_rank(to, rank, false);
    }
    for (const json& rank : part_of(from, "missing_ranks")) {
      read_json_rank(to, rank, true);
    }
    out.communicators.push_back(std::move(to));
  }
  if (const int64_t timeouts = number_in(part_of(whole, "ras"), "timeouts_count"); timeouts > 0) {
    out.notes.push_back(fmt::format("Encountered {} communication timeouts while gathering data", timeouts));
  }
  return out;
}

}  // namespace

bool looks_like_ras(std::string_view head) {
  const bool text = head.find("Communicators...") != std::string_view::npos &&
                    head.find("Job summary") != std::string_view::npos;
  return text ||
         (base::trim(head).starts_with('{') && head.find("\"nccl_version\"") != std::string_view::npos &&
          head.find("\"communicators\"") != std::string_view::npos);
}

base::Result<RasStatus> parse_ras(std::string_view text) {
  RasStatus out;
  if (base::trim(text).starts_with('{')) {
    const json whole = model::parse_json(text);
    if (!whole.is_object()) {
      return base::fail("the JSON of NCCL's RAS is damaged or cut off");
    }
    out = read_json(whole);
  } else {
    out = TextReader().read(text);
  }
  return out;
}

}  // namespace xpurun::report
