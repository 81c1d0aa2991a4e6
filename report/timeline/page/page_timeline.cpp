#include "report/timeline/page/page_timeline.h"

#include "common/base/clock.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/json/json_text.h"
#include "report/events/job_clocks.h"
#include "report/timeline/inputs.h"
#include "report/timeline/page/page_files.h"
#include "report/timeline/page/page_names.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>

namespace xpurun::report {

namespace {

using base::tr;
using nlohmann::ordered_json;

constexpr int64_t kTick = 100;  // ns; unit of the data
// The part of the picture, behind the last call that has ended, in which open calls are drawn.
constexpr int64_t kOpenShare = 8;

PagePart part_of(const Call& call) {
  return call.open ? PagePart::open : call.captured ? PagePart::captured : PagePart::timed;
}

// Calls of a C program over MPI are no Python, but have spans as those of Python programs have.
constexpr std::array kRowWords = {base::later("program"), base::later("host"), base::later("compute"),
                                  base::later("communication"), base::later("memory")};
static_assert(kRowWords.size() == model::kNames<TrackKind>.size());

// The end of the last call that has ended, or the begin of the last one; 0: there is none.
int64_t last_moment(const Activity& a) {
  int64_t out = 0;
  for (const Slice& s : a.slices) {
    out = std::max(out, a.calls[s.call].open ? s.begin_ns : s.end_ns());
  }
  return out;
}

std::string brief(int64_t ns) {
  constexpr int64_t kMs = 1'000'000;
  return ns < kMs ? fmt::format("{} µs", ns / 1'000) : fmt::format("{} ms", ns / kMs);
}

class Builder {
 public:
  Builder(const PageTimelineLimits& limits, size_t all_ranks)
      : limits_(limits), seconds_ns_(base::s_to_ns(limits.seconds)), all_ranks_(all_ranks) {}

  void add(const Activity& a) {
    if (a.slices.empty()) {
      return;
    }
    clocks_.add(a);
    const int64_t from = last_moment(a) - seconds_ns_;
    std::map<std::pair<PagePart, TrackKind>, std::vector<PageBlock>> found;
    std::vector<std::optional<uint32_t>> names(a.calls.size());
    for (const Slice& s : a.slices) {
      if (s.end_ns() >= from) {
        const Call& call = a.calls[s.call];
        std::optional<uint32_t>& name = names[s.call];  // an open call has one slice
        name = name ? name : names_.index(call, s);
        names_.count(*name);
        found[{part_of(call), a.tracks[s.track].kind}].push_back(
            {s.begin_ns, s.end_ns(), *name, 1, call.message ? 0 : s.meeting});
      }
    }
    for (auto& [place, blocks] : found) {
      rows_.push_back({a.rank, a.host, place.second, place.first,
                       resolution_ns_ == 0 ? std::move(blocks) : merge_blocks(blocks, resolution_ns_)});
    }
    fit();
  }

  PageTimeline finish() {
    PageTimeline out;
    if (rows_.empty()) {
      return out;
    }
    align();
    out.about = about();
    for (const PageRow& row : rows_) {
      if (row.part != PagePart::open) {
        out.kinds.push_back(row.kind);
      }
    }
    std::sort(out.kinds.begin(), out.kinds.end());
    out.kinds.erase(std::unique(out.kinds.begin(), out.kinds.end()), out.kinds.end());
    out.json = json();
    out.svg = still_picture(rows_, begin_ns_, end_ns_, out.about, limits_.still);
    return out;
  }

 private:
  size_t blocks() const {
    size_t n = 0;
    for (const PageRow& row : rows_) {
      n += row.blocks.size();
    }
    return n;
  }

  void fit() {
    // At the longest resolution, a row has a block or two.
    while (blocks() > limits_.blocks && resolution_ns_ < seconds_ns_) {
      resolution_ns_ = resolution_ns_ == 0 ? 1'000 : resolution_ns_ * 2;
      for (PageRow& row : rows_) {
        row.blocks = merge_blocks(row.blocks, resolution_ns_);
      }
    }
  }

  // Makes the clocks of the hosts equal and finds the interval that is shown.
  void align() {
    clocks_.solve();
    int64_t open_until = 0;
    for (PageRow& row : rows_) {
      const int64_t shift = clocks_.offset_ns(row.host);
      for (PageBlock& b : row.blocks) {
        b.begin_ns += shift;
        b.end_ns += shift;
        const bool open = row.part == PagePart::open;
        end_ns_ = std::max(end_ns_, open ? b.begin_ns : b.end_ns);
        open_until = std::max(open_until, open ? b.end_ns : 0);
      }
    }
    const int64_t from = end_ns_ - seconds_ns_;
    end_ns_ = std::max(end_ns_, std::min(open_until, end_ns_ + seconds_ns_ / kOpenShare));
    begin_ns_ = end_ns_;
    for (PageRow& row : rows_) {
      std::erase_if(row.blocks, [&](const PageBlock& b) { return b.end_ns < from; });
      for (PageBlock& b : row.blocks) {
        b.begin_ns = std::max(b.begin_ns, from);
        b.end_ns = std::min(b.end_ns, end_ns_);
        begin_ns_ = std::min(begin_ns_, b.begin_ns);
      }
    }
    std::erase_if(rows_, [](const PageRow& row) { return row.blocks.empty(); });
    std::stable_sort(rows_.begin(), rows_.end(),
                     [](const PageRow& a, const PageRow& b) { return a.rank < b.rank; });
    end_ns_ = std::max(end_ns_, begin_ns_ + 1);
  }

  size_t ranks() const {
    size_t n = 0;
    for (size_t i = 0; i < rows_.size(); ++i) {
      n += i == 0 || rows_[i].rank != rows_[i - 1].rank ? 1 : 0;
    }
    return n;
  }

  size_t open_calls() const {
    size_t n = 0;
    for (const PageRow& row : rows_) {
      n += row.part == PagePart::open ? row.blocks.size() : 0;
    }
    return n;
  }

  std::string about() const {
    const size_t open = open_calls();
    const std::string some = all_ranks_ > ranks()
                                 ? tr("; of {} ranks, those named by the verdict and some others", all_ranks_)
                                 : "";
    return tr("The last {} of {}{}{}{}", base::human_duration(base::ns_to_s(end_ns_ - begin_ns_)),
              ranks() == 1 ? tr("{} rank", ranks()) : tr("{} ranks", ranks()), some,
              resolution_ns_ == 0 ? "" : tr("; calls within {} are one block", brief(resolution_ns_)),
              open == 0   ? ""
              : open == 1 ? tr("; {} collective has not finished", open)
                          : tr("; {} collectives have not finished", open));
  }

  // Columns: begins (each minus the one before) and durations in ticks, names, calls, meetings.
  std::string json() const {
    ordered_json rows = ordered_json::array();
    std::unordered_map<uint64_t, size_t> meetings;
    for (const PageRow& row : rows_) {
      ordered_json j{{"rank", row.rank}, {"kind", model::name_of(row.kind)}, {"word", word_of_row(row.kind)}};
      if (row.part != PagePart::timed) {
        j["part"] = row.part == PagePart::open ? "open" : "captured";
      }
      int64_t last = 0;
      for (const PageBlock& b : row.blocks) {
        const int64_t at = (b.begin_ns - begin_ns_) / kTick;
        j["b"].push_back(at - last);
        j["d"].push_back((b.end_ns - b.begin_ns) / kTick);
        j["n"].push_back(b.name);
        j["c"].push_back(b.calls);
        j["m"].push_back(b.meeting == 0 ? 0 : meetings.emplace(b.meeting, meetings.size() + 1).first->second);
        last = at;
      }
      rows.push_back(std::move(j));
    }
    ordered_json all{{"begin_ns", fmt::format("{}", begin_ns_)},
                     {"began", base::utc_iso8601(begin_ns_)},
                     {"ticks", (end_ns_ - begin_ns_) / kTick},
                     {"tick_ns", kTick}};
    names_.put(all);
    all["rows"] = std::move(rows);
    return model::json_text(all);
  }

  PageTimelineLimits limits_;
  int64_t seconds_ns_;
  size_t all_ranks_;
  JobClocks clocks_;
  std::vector<PageRow> rows_;
  PageNames names_;
  int64_t resolution_ns_ = 0;
  int64_t begin_ns_ = 0;
  int64_t end_ns_ = 0;
};

model::RankSet shown_ranks(const model::RankSet& all, const PageTimelineLimits& limits) {
  if (all.size() <= limits.ranks) {
    return all;
  }
  model::RankSet out;
  for (const base::Rank rank : limits.first.ranks()) {
    if (all.contains(rank) && out.size() < limits.ranks / 2) {
      out.insert(rank);
    }
  }
  const size_t every = all.size() / (limits.ranks - out.size()) + 1;
  size_t i = 0;
  for (const base::Rank rank : all.ranks()) {
    if (i++ % every == 0) {
      out.insert(rank);
    }
  }
  return out;
}

// The newest files tell when the rank's last seconds begin, and so how many more files hold them.
Activity read_last(TraceSource source, double seconds) {
  std::vector<base::Error> problems;  // xpurun timeline names damaged files
  const std::vector<FileChain> chains = file_chains(source.files);
  const auto read = [&](int64_t from_ns) {
    source.files.clear();
    for (const FileChain& chain : chains) {
      chain.take(from_ns, source.files);
    }
    return read_source(source, problems);
  };
  Activity newest = read(INT64_MAX);
  const int64_t from_ns = last_moment(newest) - base::s_to_ns(seconds);
  const bool more = std::any_of(chains.begin(), chains.end(),
                                [&](const FileChain& chain) { return chain.reaches_back(from_ns); });
  return more ? read(from_ns) : std::move(newest);
}

}  // namespace

std::string word_of_row(TrackKind kind) {
  return tr(kRowWords[static_cast<size_t>(kind)]);
}

PageTimeline page_timeline(const std::vector<std::string>& run_dirs, const PageTimelineLimits& limits) {
  TraceInputs inputs = find_inputs(run_dirs);
  model::RankSet all;
  for (TraceSource& source : inputs.sources) {
    // The page has the stacks of a hang elsewhere.
    std::erase_if(source.open, [](const OpenCall& call) { return call.row == OpenRow::stack; });
    if (source.rank != base::kNoRank && source.importer->is_ours()) {
      all.insert(source.rank);
    }
  }
  const model::RankSet shown = shown_ranks(all, limits);
  Builder builder(limits, all.size());
  for (const TraceSource& source : inputs.sources) {
    if (shown.contains(source.rank) && source.importer->is_ours()) {
      builder.add(read_last(source, limits.seconds));
    }
  }
  return builder.finish();
}

}  // namespace xpurun::report
