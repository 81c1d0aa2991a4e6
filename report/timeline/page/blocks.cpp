#include "report/timeline/page/blocks.h"

#include "report/flamegraph/escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace xpurun::report {

namespace {

constexpr int kRowHeight = 14;
constexpr int kLabelWidth = 90;
constexpr int kColumnWidth = 6;
// The kinds of tracks, and calls that had not ended.
constexpr size_t kOpen = model::kNames<TrackKind>.size();
constexpr size_t kLooks = kOpen + 1;

using Times = std::vector<std::array<int64_t, kLooks>>;  // by column

class Still {
 public:
  Still(const std::vector<PageRow>& rows, int64_t begin_ns, int64_t end_ns)
      : rows_(rows), begin_ns_(begin_ns), end_ns_(end_ns) {}

  std::string draw(const std::string& about, const StillLimits& limits) const {
    std::string body;
    size_t line = 0;
    for (size_t i = 0; i < rows_.size() && line < limits.ranks; ++line) {
      Times times(limits.columns);
      const base::Rank rank = rows_[i].rank;
      for (; i < rows_.size() && rows_[i].rank == rank; ++i) {
        add(rows_[i], times);
      }
      body += line_of(line, rank, times);
    }
    const auto width = kLabelWidth + static_cast<int>(limits.columns) * kColumnWidth;
    const auto height = static_cast<int>(line) * kRowHeight + 4;
    return fmt::format(
        R"(<svg class="tl-still" viewBox="0 0 {} {}" role="img" aria-label="{}, one line per rank: what took most of the time">{}</svg>)",
        width, height, escape_attribute(about), body);
  }

 private:
  void add(const PageRow& row, Times& times) const {
    const double scale = static_cast<double>(times.size()) / static_cast<double>(end_ns_ - begin_ns_);
    const size_t look = row.part == PagePart::open ? kOpen : static_cast<size_t>(row.kind);
    for (const PageBlock& b : row.blocks) {
      const auto column = [&](int64_t at) {
        return std::min(times.size() - 1, static_cast<size_t>(static_cast<double>(at - begin_ns_) * scale));
      };
      const size_t last = column(b.end_ns);
      for (size_t c = column(b.begin_ns); c <= last; ++c) {
        const auto left = begin_ns_ + static_cast<int64_t>(static_cast<double>(c) / scale);
        const auto right = begin_ns_ + static_cast<int64_t>(static_cast<double>(c + 1) / scale);
        times[c][look] += std::max<int64_t>(1, std::min(right, b.end_ns) - std::max(left, b.begin_ns));
      }
    }
  }

  // GPU work hides what the host does at the same time.
  static size_t look_of(const std::array<int64_t, kLooks>& times) {
    const auto gpu = std::max_element(times.begin() + static_cast<long>(TrackKind::compute), times.end());
    const auto all = *gpu > 0 ? gpu : std::max_element(times.begin(), times.end());
    return *all > 0 ? static_cast<size_t>(all - times.begin()) : kLooks;
  }

  static std::string line_of(size_t line, base::Rank rank, const Times& times) {
    const auto y = static_cast<int>(line) * kRowHeight + 2;
    std::string out = fmt::format(R"(<text x="0" y="{}">rank {}</text>)", y + 10, rank);
    for (size_t c = 0; c < times.size();) {
      const size_t look = look_of(times[c]);
      size_t end = c + 1;
      while (end < times.size() && look_of(times[end]) == look) {
        ++end;
      }
      if (look < kLooks) {
        out += fmt::format(R"(<rect class="tl-{}" x="{}" y="{}" width="{}" height="{}"/>)",
                           look == kOpen ? "open" : model::name_of(static_cast<TrackKind>(look)),
                           kLabelWidth + static_cast<int>(c) * kColumnWidth, y,
                           static_cast<int>(end - c) * kColumnWidth, kRowHeight - 3);
      }
      c = end;
    }
    return out;
  }

  const std::vector<PageRow>& rows_;
  int64_t begin_ns_;
  int64_t end_ns_;
};

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

std::string still_picture(const std::vector<PageRow>& rows, int64_t begin_ns, int64_t end_ns,
                          const std::string& about, const StillLimits& limits) {
  return Still(rows, begin_ns, end_ns).draw(about, limits);
}

}  // namespace xpurun::report
