#include "report/memory/memory_report.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/json/json_text.h"
#include "common/model/json_fields.h"
#include "report/diagnosis/memory/held.h"
#include "report/flamegraph/palette.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace xpurun::report {

using base::tr;
using model::LookReason;
using model::MemoryCategory;
using model::MemoryLook;

namespace {

constexpr int64_t kKiB = 1024;

int order_of(std::string_view kind) {
  return kind == "cuda" ? 0 : kind == "host" ? 1 : kind == "cpu" ? 2 : 3;
}

std::string size_of(int64_t bytes) {
  return base::human_size(static_cast<uint64_t>(std::max<int64_t>(bytes, 0)));
}

std::string kind_words(std::string_view kind) {
  return kind == "cuda"   ? tr("GPU")
         : kind == "host" ? tr("host")
         : kind == "cpu"  ? tr("CPU tensors")
                          : tr("Python");
}

std::string why_words(const MemoryLook& look) {
  switch (look.why) {
    case LookReason::out_of_memory:
      return tr("out of memory");
    case LookReason::request:
      return tr("on request");
    case LookReason::growth:
      return tr("as memory grew");
    case LookReason::full:
      return tr("as the GPU was nearly full");
    case LookReason::peak:
      return tr("before a backward pass");
    case LookReason::snapshot:
      return tr("in a snapshot of PyTorch");
    case LookReason::heap:
      return tr("host memory, sampled");
    case LookReason::first:
    case LookReason::time:
      break;
  }
  return tr("while the job ran");
}

std::vector<CategoryRow> categories_of(const std::vector<MemoryLook>& looks) {
  std::map<std::pair<std::string, MemoryCategory>, std::vector<std::pair<int64_t, base::Rank>>> all;
  std::map<std::string, std::set<base::Rank>> ranks_of;  // by kind
  for (const MemoryLook& look : looks) {
    for (const model::MemoryDevice& device : look.devices) {
      ranks_of[std::string(kind_of_device(device.name))].insert(look.rank);
    }
  }
  for (const auto& [kind, ranks] : ranks_of) {
    for (const MemoryLook& look : looks) {
      for (const CategoryBytes& one : by_category(look, kind)) {
        all[{kind, one.category}].emplace_back(one.bytes, look.rank);
      }
    }
  }
  std::vector<CategoryRow> out;
  for (auto& [key, values] : all) {
    for (const MemoryLook& look : looks) {  // a rank that holds none
      const auto has = [&](const auto& value) { return value.second == look.rank; };
      if (ranks_of[key.first].contains(look.rank) && std::none_of(values.begin(), values.end(), has)) {
        values.emplace_back(0, look.rank);
      }
    }
    std::sort(values.begin(), values.end());
    out.push_back({.kind = key.first,
                   .category = key.second,
                   .median = values[values.size() / 2].first,
                   .least = values.front().first,
                   .most = values.back().first,
                   .least_rank = values.front().second,
                   .most_rank = values.back().second});
  }
  std::stable_sort(out.begin(), out.end(), [](const CategoryRow& a, const CategoryRow& b) {
    return std::tuple(order_of(a.kind), -a.most) < std::tuple(order_of(b.kind), -b.most);
  });
  return out;
}

std::vector<HolderRow> holders_in(const std::vector<MemoryLook>& looks) {
  std::map<std::tuple<std::string, MemoryCategory, std::string, std::string>, HolderRow> sums;
  for (const MemoryLook& look : looks) {
    for (const HeldBy& held : holders_of(look, "")) {
      if (!is_held(held.category)) {
        continue;
      }
      const std::string kind(kind_of_device(held.device));
      HolderRow& row = sums[{kind, held.category, held.name, held.place}];
      row.kind = kind;
      row.category = held.category;
      row.name = held.name;
      row.place = held.place;
      if (look.rank != base::kNoRank) {
        row.ranks.insert(look.rank);
      }
      if (held.bytes > row.most) {
        row.most = held.bytes;
        row.most_rank = look.rank;
        row.count = held.count;
      }
      if (look.steps > 0) {
        row.grown_per_step =
            std::max(row.grown_per_step, static_cast<double>(held.grown) / static_cast<double>(look.steps));
      }
    }
  }
  std::vector<HolderRow> out;
  for (auto& [key, row] : sums) {
    out.push_back(std::move(row));
  }
  std::stable_sort(out.begin(), out.end(), [](const HolderRow& a, const HolderRow& b) {
    return std::tuple(order_of(a.kind), -a.most) < std::tuple(order_of(b.kind), -b.most);
  });
  return out;
}

std::string rank_cell(base::Rank rank) {
  return rank == base::kNoRank ? std::string() : std::to_string(rank);
}

std::string name_cell(const HolderRow& row) {
  return row.name.empty() ? category_words(row.category) : row.name;
}

TextTable category_table(const MemoryReport& report, size_t most) {
  TextTable out{.id = "memory",
                .title = tr("Memory by category"),
                .columns = {{tr("Kind"), false, 3},
                            {tr("Held as"), false, kNeverLeftOut},
                            {tr("Median"), true, 5},
                            {tr("Least"), true, 2},
                            {tr("Rank"), true, 2},
                            {tr("Most"), true, kNeverLeftOut},
                            {tr("Rank"), true, 4}}};
  out.all_rows = report.categories.size();
  for (const CategoryRow& row : report.categories) {
    if (out.rows.size() < most) {
      out.rows.push_back({kind_words(row.kind), category_words(row.category), size_of(row.median),
                          size_of(row.least), rank_cell(row.least_rank), size_of(row.most),
                          rank_cell(row.most_rank)});
    }
  }
  return out;
}

TextTable holder_table(const MemoryReport& report, size_t most) {
  TextTable out{.id = "holders",
                .title = tr("Who holds the most"),
                .about = tr("Without a place of the allocation: allocated before allocations were recorded."),
                .columns = {{tr("Most"), true, kNeverLeftOut},
                            {tr("Rank"), true, 4},
                            {tr("Count"), true, 1},
                            {tr("A step"), true, 3},
                            {tr("Ranks"), false, 2},
                            {tr("Kind"), false, 2},
                            {tr("Held as"), false, 5},
                            {tr("Holder"), false, kNeverLeftOut},
                            {tr("Allocated at"), false, 6}}};
  out.all_rows = report.holders.size();
  for (const HolderRow& row : report.holders) {
    if (out.rows.size() < most) {
      out.rows.push_back(
          {size_of(row.most), rank_cell(row.most_rank), std::to_string(row.count),
           row.grown_per_step > 0 ? "+" + size_of(static_cast<int64_t>(row.grown_per_step)) : "",
           row.ranks.text(), kind_words(row.kind), category_words(row.category), name_cell(row), row.place});
    }
  }
  return out;
}

TextTable growth_table(const MemoryReport& report, size_t most) {
  TextTable out{.id = "growth",
                .title = tr("What grew while allocations were recorded"),
                .columns = {{tr("A step"), true, kNeverLeftOut},
                            {tr("Ranks"), false, 2},
                            {tr("Kind"), false, 2},
                            {tr("Held as"), false, 3},
                            {tr("Holder"), false, kNeverLeftOut},
                            {tr("Allocated at"), false, 6}}};
  std::vector<const HolderRow*> rows;
  for (const HolderRow& row : report.holders) {
    if (row.grown_per_step > 0) {
      rows.push_back(&row);
    }
  }
  std::stable_sort(rows.begin(), rows.end(), [](const HolderRow* a, const HolderRow* b) {
    return a->grown_per_step > b->grown_per_step;
  });
  out.all_rows = rows.size();
  for (const HolderRow* row : rows) {
    if (out.rows.size() < most) {
      out.rows.push_back({"+" + size_of(static_cast<int64_t>(row->grown_per_step)), row->ranks.text(),
                          kind_words(row->kind), category_words(row->category), name_cell(*row), row->place});
    }
  }
  return out;
}

std::string device_words(const model::MemoryDevice& device) {
  std::string out =
      tr("{}: {} allocated, {} reserved", device.name, size_of(device.allocated), size_of(device.reserved));
  if (device.unused > 0) {
    out += tr(", {} of that unused (largest block {})", size_of(device.unused), size_of(device.largest));
  }
  if (device.total > 0) {
    out += tr(", {} free of {}", size_of(device.free), size_of(device.total));
  }
  return out;
}

}  // namespace

MemoryReport memory_report(const std::vector<MemoryLook>& looks, std::optional<LookReason> why) {
  MemoryReport out;
  std::set<base::Rank> ranks;
  for (const MemoryLook& look : looks) {
    if (look.rank == base::kNoRank) {
      out.looks.push_back(look);  // a snapshot of unknown rank
    } else if (ranks.insert(look.rank).second) {
      const MemoryLook* best = why ? look_of(looks, look.rank, *why) : last_look(looks, look.rank);
      const MemoryLook* heap = why ? nullptr : look_of(looks, look.rank, LookReason::heap);
      for (const MemoryLook* one : {best, heap}) {
        if (one != nullptr) {
          out.looks.push_back(*one);
          out.ranks.insert(look.rank);
        }
      }
    }
  }
  out.categories = categories_of(out.looks);
  out.holders = holders_in(out.looks);
  return out;
}

std::vector<std::string> look_lines(const MemoryReport& report) {
  std::vector<std::pair<std::string, model::RankSet>> groups;
  for (const MemoryLook& look : report.looks) {
    std::string words =
        look.step > 0 ? tr("{}, after {} steps", why_words(look), look.step) : why_words(look);
    if (look.asked > 0) {
      words += tr(", {} asked for", size_of(look.asked));
    }
    for (const model::MemoryDevice& device : look.devices) {
      if (device.reserved > 0) {
        words += "; " + device_words(device);
      }
    }
    const auto known =
        std::find_if(groups.begin(), groups.end(), [&](const auto& group) { return group.first == words; });
    model::RankSet& ranks =
        known == groups.end() ? groups.emplace_back(words, model::RankSet()).second : known->second;
    if (look.rank != base::kNoRank) {
      ranks.insert(look.rank);
    }
  }
  std::vector<std::string> out;
  for (const auto& [words, ranks] : groups) {
    out.push_back(ranks.empty() ? words : fmt::format("{}: {}", ranks_text(ranks), words));
  }
  return out;
}

std::vector<TextTable> memory_tables(const MemoryReport& report, size_t most) {
  std::vector<TextTable> out{category_table(report, most), growth_table(report, most),
                             holder_table(report, most)};
  std::erase_if(out, [](const TextTable& table) { return table.rows.empty(); });
  return out;
}

std::string memory_json(const MemoryReport& report) {
  using Json = nlohmann::ordered_json;
  Json categories = Json::array();
  for (const CategoryRow& row : report.categories) {
    categories.push_back({{"device", row.kind},
                          {"category", model::name_of(row.category)},
                          {"median_bytes", row.median},
                          {"least_bytes", row.least},
                          {"least_rank", model::rank_or_null(row.least_rank)},
                          {"most_bytes", row.most},
                          {"most_rank", model::rank_or_null(row.most_rank)}});
  }
  Json holders = Json::array();
  for (const HolderRow& row : report.holders) {
    holders.push_back({{"device", row.kind},
                       {"category", model::name_of(row.category)},
                       {"name", row.name},
                       {"place", row.place},
                       {"ranks", row.ranks.ranks()},
                       {"most_bytes", row.most},
                       {"most_rank", model::rank_or_null(row.most_rank)},
                       {"count", row.count},
                       {"grown_per_step", row.grown_per_step < 0 ? Json() : Json(row.grown_per_step)}});
  }
  Json looks = Json::array();
  for (const MemoryLook& look : report.looks) {
    looks.push_back(Json::parse(model::memory_look_json(look)));
  }
  return model::json_text(Json{{"schema", "xpurun.memory_report/1"},
                               {"categories", std::move(categories)},
                               {"holders", std::move(holders)},
                               {"looks", std::move(looks)}},
                          1);
}

Profile memory_profile(const MemoryReport& report) {
  Profile out{.about = tr("memory"), .unit = "KiB"};
  std::map<std::tuple<std::string, std::string, int>, uint32_t> known;
  const auto frame = [&](const std::string& function, const std::string& file, int line) {
    const auto [it, added] =
        known.try_emplace({function, file, line}, static_cast<uint32_t>(out.frames.size()));
    if (added) {
      out.frames.push_back({.function = function, .file = file, .line = line});
    }
    return it->second;
  };
  for (const MemoryLook& look : report.looks) {
    ProfileTrack track{.rank = look.rank, .pid = look.pid, .thread = tr("memory")};
    for (const model::MemoryHolder& holder : look.holders) {
      const int64_t kib = holder.bytes / kKiB;
      if (kib == 0 || !is_held(holder.category)) {
        continue;
      }
      ProfileTrack::Stack stack{frame(kind_words(kind_of_device(holder.device)), "", 0),
                                frame(category_words(holder.category), "", 0)};
      if (!holder.name.empty()) {
        stack.push_back(frame(holder.name, "", 0));
      }
      for (auto it = holder.site.rbegin(); it != holder.site.rend(); ++it) {
        const model::MemoryPlace& place = look.places[*it];
        stack.push_back(frame(place.function.empty() ? fmt::format("line {}", place.line) : place.function,
                              place.file, place.line));
      }
      track.stacks[stack] += static_cast<uint64_t>(kib);
    }
    out.tracks.push_back(std::move(track));
  }
  return out;
}

}  // namespace xpurun::report
