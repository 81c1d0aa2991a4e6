#include "report/timeline/page_timeline.h"

#include "common/base/clock.h"
#include "common/base/strings.h"
#include "report/flamegraph/escape.h"
#include "report/timeline/clock_alignment.h"
#include "report/timeline/inputs.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <unordered_map>

namespace xpurun::report {

namespace {

using nlohmann::ordered_json;

constexpr int64_t kTick = 100;  // ns; unit of the data
constexpr size_t kTrackKinds = model::kNames<TrackKind>.size();
constexpr int kRowHeight = 14;
constexpr int kLabelWidth = 90;
constexpr int kColumnWidth = 6;

struct Row {
  base::Rank rank = 0;
  std::string host;
  TrackKind kind = TrackKind::compute;
  std::vector<PageBlock> blocks;
};

class Builder {
 public:
  explicit Builder(const PageTimelineLimits& limits) : limits_(limits) {}

  void add(const Activity& a) {
    if (a.slices.empty()) {
      return;
    }
    clocks_.add(a);
    int64_t last = 0;
    for (const Slice& s : a.slices) {
      last = std::max(last, s.end_ns());
    }
    const int64_t from = last - base::s_to_ns(limits_.seconds);
    std::array<std::vector<PageBlock>, kTrackKinds> by_kind;
    for (const Slice& s : a.slices) {
      if (s.end_ns() >= from) {
        const std::string& name = a.calls[s.call].name;
        const auto known = names_.emplace(name, static_cast<uint32_t>(names_.size())).first;
        by_kind[static_cast<size_t>(a.tracks[s.track].kind)].push_back(
            {s.begin_ns, s.end_ns(), known->second, 1, s.meeting});
      }
    }
    for (size_t kind = 0; kind < kTrackKinds; ++kind) {
      if (!by_kind[kind].empty()) {
        rows_.push_back({a.rank, a.host, static_cast<TrackKind>(kind), std::move(by_kind[kind])});
      }
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
    out.json = json();
    out.svg = svg();
    return out;
  }

 private:
  size_t blocks() const {
    size_t n = 0;
    for (const Row& row : rows_) {
      n += row.blocks.size();
    }
    return n;
  }

  void fit() {
    while (blocks() > limits_.blocks) {
      resolution_ns_ = resolution_ns_ == 0 ? 1'000 : resolution_ns_ * 2;
      for (Row& row : rows_) {
        row.blocks = merge_blocks(row.blocks, resolution_ns_);
      }
    }
  }

  // Makes the clocks of the hosts equal and finds the interval that is shown.
  void align() {
    clocks_.solve();
    for (Row& row : rows_) {
      const int64_t shift = clocks_.offset_ns(row.host);
      for (PageBlock& b : row.blocks) {
        b.begin_ns += shift;
        b.end_ns += shift;
        end_ns_ = std::max(end_ns_, b.end_ns);
      }
    }
    const int64_t from = end_ns_ - base::s_to_ns(limits_.seconds);
    begin_ns_ = end_ns_;
    for (Row& row : rows_) {
      std::erase_if(row.blocks, [&](const PageBlock& b) { return b.end_ns < from; });
      for (PageBlock& b : row.blocks) {
        b.begin_ns = std::max(b.begin_ns, from);
        begin_ns_ = std::min(begin_ns_, b.begin_ns);
      }
    }
    std::erase_if(rows_, [](const Row& row) { return row.blocks.empty(); });
    std::stable_sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) { return a.rank < b.rank; });
    end_ns_ = std::max(end_ns_, begin_ns_ + 1);
  }

  size_t ranks() const {
    size_t n = 0;
    for (size_t i = 0; i < rows_.size(); ++i) {
      n += i == 0 || rows_[i].rank != rows_[i - 1].rank ? 1 : 0;
    }
    return n;
  }

  std::string about() const {
    return fmt::format(
        "The last {} of {} {}{}", base::human_duration(base::ns_to_s(end_ns_ - begin_ns_)), ranks(),
        ranks() == 1 ? "rank" : "ranks",
        resolution_ns_ == 0 ? "" : fmt::format("; calls within {} us are one block", resolution_ns_ / 1'000));
  }

  // Columns: begins (each minus the one before) and durations in ticks, names, calls, meetings.
  std::string json() const {
    ordered_json rows = ordered_json::array();
    std::unordered_map<uint64_t, size_t> meetings;
    for (const Row& row : rows_) {
      ordered_json j{{"rank", row.rank}, {"kind", model::name_of(row.kind)}};
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
    std::vector<std::string> names(names_.size());
    for (const auto& [name, index] : names_) {
      names[index] = name;
    }
    const ordered_json all{{"begin_ns", fmt::format("{}", begin_ns_)},
                           {"began", base::utc_iso8601(begin_ns_)},
                           {"ticks", (end_ns_ - begin_ns_) / kTick},
                           {"tick_ns", kTick},
                           {"names", names},
                           {"rows", std::move(rows)}};
    return all.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  }

  // One line per rank: in each column the kind that took most of its time.
  std::string svg() const {
    const size_t columns = limits_.still_columns;
    std::string body;
    size_t line = 0;
    for (size_t i = 0; i < rows_.size() && line < limits_.still_ranks; ++line) {
      std::vector<std::array<int64_t, kTrackKinds>> time(columns);
      const base::Rank rank = rows_[i].rank;
      for (; i < rows_.size() && rows_[i].rank == rank; ++i) {
        add_times(rows_[i], time);
      }
      body += still_line(line, rank, time);
    }
    const auto width = kLabelWidth + static_cast<int>(columns) * kColumnWidth;
    const auto height = static_cast<int>(line) * kRowHeight + 4;
    return fmt::format(
        R"(<svg class="tl-still" viewBox="0 0 {} {}" role="img" aria-label="{}, one line per rank: what took most of the time">{}</svg>)",
        width, height, escape_attribute(about()), body);
  }

  void add_times(const Row& row, std::vector<std::array<int64_t, kTrackKinds>>& time) const {
    const double scale = static_cast<double>(time.size()) / static_cast<double>(end_ns_ - begin_ns_);
    for (const PageBlock& b : row.blocks) {
      const auto column = [&](int64_t at) {
        return std::min(time.size() - 1, static_cast<size_t>(static_cast<double>(at - begin_ns_) * scale));
      };
      const size_t last = column(b.end_ns);
      for (size_t c = column(b.begin_ns); c <= last; ++c) {
        const auto left = begin_ns_ + static_cast<int64_t>(static_cast<double>(c) / scale);
        const auto right = begin_ns_ + static_cast<int64_t>(static_cast<double>(c + 1) / scale);
        time[c][static_cast<size_t>(row.kind)] +=
            std::max<int64_t>(1, std::min(right, b.end_ns) - std::max(left, b.begin_ns));
      }
    }
  }

  static std::string still_line(size_t line, base::Rank rank,
                                const std::vector<std::array<int64_t, kTrackKinds>>& time) {
    const auto y = static_cast<int>(line) * kRowHeight + 2;
    std::string out = fmt::format(R"(<text x="0" y="{}">rank {}</text>)", y + 10, rank);
    // GPU work hides what the host does at the same time.
    const auto kind_of = [&](size_t c) {
      const auto& t = time[c];
      const auto gpu = std::max_element(t.begin() + static_cast<long>(TrackKind::compute), t.end());
      const auto all = *gpu > 0 ? gpu : std::max_element(t.begin(), t.end());
      return *all > 0 ? static_cast<size_t>(all - t.begin()) : kTrackKinds;
    };
    for (size_t c = 0; c < time.size();) {
      const size_t kind = kind_of(c);
      size_t end = c + 1;
      while (end < time.size() && kind_of(end) == kind) {
        ++end;
      }
      if (kind < kTrackKinds) {
        out += fmt::format(R"(<rect class="tl-{}" x="{}" y="{}" width="{}" height="{}"/>)",
                           model::name_of(static_cast<TrackKind>(kind)),
                           kLabelWidth + static_cast<int>(c) * kColumnWidth, y,
                           static_cast<int>(end - c) * kColumnWidth, kRowHeight - 3);
      }
      c = end;
    }
    return out;
  }

  PageTimelineLimits limits_;
  ClockAlignment clocks_;
  std::vector<Row> rows_;
  std::map<std::string, uint32_t> names_;
  int64_t resolution_ns_ = 0;
  int64_t begin_ns_ = 0;
  int64_t end_ns_ = 0;
};

// The newest file of each suffix: names sort by their numbers up to the length.
void keep_newest(TraceSource& source) {
  std::map<std::string, std::string> newest;
  for (const std::string& path : source.files) {
    std::string& at = newest[path.substr(path.rfind('.'))];
    if (std::pair(at.size(), at) < std::pair(path.size(), path)) {
      at = path;
    }
  }
  source.files.clear();
  for (const auto& [suffix, path] : newest) {
    source.files.push_back(path);
  }
}

}  // namespace

std::vector<PageBlock> merge_blocks(const std::vector<PageBlock>& blocks, int64_t resolution_ns) {
  std::vector<PageBlock> out;
  int64_t longest = 0;
  for (const PageBlock& b : blocks) {
    const int64_t duration = b.end_ns - b.begin_ns;
    if (out.empty() || b.begin_ns - out.back().begin_ns >= resolution_ns || duration >= resolution_ns ||
        out.back().end_ns - out.back().begin_ns >= resolution_ns) {
      out.push_back(b);
      longest = duration;
      continue;
    }
    PageBlock& last = out.back();
    last.end_ns = std::max(last.end_ns, b.end_ns);
    last.calls += b.calls;
    last.meeting = 0;
    if (duration > longest) {
      last.name = b.name;
      longest = duration;
    }
  }
  return out;
}

PageTimeline page_timeline(const std::vector<std::string>& run_dirs, const PageTimelineLimits& limits) {
  std::vector<std::string> folders;
  for (const std::string& dir : run_dirs) {
    folders.push_back(dir + "/ranks");
  }
  TraceInputs inputs = find_inputs(folders);
  Builder builder(limits);
  std::vector<base::Error> problems;  // xpurun timeline names damaged files
  for (TraceSource& source : inputs.sources) {
    if (source.rank != base::kNoRank && source.format == TraceFormat::xpurun) {
      keep_newest(source);
      builder.add(read_source(source, problems));
    }
  }
  return builder.finish();
}

}  // namespace xpurun::report
