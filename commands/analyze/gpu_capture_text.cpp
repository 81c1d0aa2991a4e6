#include "commands/analyze/gpu_capture_text.h"

#include "common/base/strings.h"
#include "launcher/output/text_block.h"
#include "report/profile/gpu_words.h"
#include "report/profile/resource_sums.h"
#include "report/profile/resource_words.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

namespace {

constexpr size_t kGpuNumbers = 62;      // columns before the name
constexpr size_t kGpuMedian = 10;       // column of the median, on a wide terminal
constexpr size_t kGpuShareColumn = 10;  // on a narrow terminal
constexpr size_t kNarrowestName = 16;   // of the name
constexpr size_t kWidestGpuRanks = 9;
constexpr size_t kResourceNumbers = 55;  // columns before the name
constexpr size_t kResourceColumn = 12;   // on a narrow terminal

std::string share_of_time(double part) {
  return fmt::format("{:.1f}%", 100 * part);
}

// The column of the median with the blank behind it, where there is room.
std::string median_column(std::string_view text, size_t columns) {
  const bool wide = columns >= kGpuNumbers + kGpuMedian + kNarrowestName;
  return wide ? fmt::format("{:>{}} ", text, kGpuMedian - 1) : std::string();
}

std::string row(const model::CapturedWork& w, size_t columns) {
  if (columns < kGpuNumbers + kNarrowestName) {
    const std::string who = w.ranks.empty() ? ""
                                            : fmt::format(": rank{} {} {}", w.ranks.size() == 1 ? "" : "s",
                                                          w.ranks.brief(), share_of_time(w.ranks_share));
    return definition(share_of_time(w.path), base::sanitize(w.name) + who, columns, kGpuShareColumn);
  }
  const std::string median = median_column(report::work_duration(w.median_s), columns);
  return fmt::format("{:>6} {:>6} {:>7} {}{:>9} {:>9} {:>{}} {:>6} {:<2}{}\n", share_of_time(w.path),
                     share_of_time(w.share), w.count, median, report::work_duration(w.mean_s),
                     report::work_duration(w.spread_s),
                     w.ranks.empty() ? "" : base::elide_middle(w.ranks.text(), kWidestGpuRanks),
                     kWidestGpuRanks, w.ranks.empty() ? "" : share_of_time(w.ranks_share), "",
                     base::elide_middle(base::sanitize(w.name), columns - kGpuNumbers - median.size()));
}

std::string resource_row(const model::CapturedWork& w, const model::ResourceUse& use, size_t columns) {
  const std::string mean = report::resource_amount(use.resource, use.mean);
  const std::string name = base::sanitize(w.name);
  if (columns < kResourceNumbers + kNarrowestName) {
    return definition(mean, fmt::format("{}: {}", model::title_of(use.resource), name), columns,
                      kResourceColumn);
  }
  const model::ResourceUse* sm = report::find_use(w.resources, "sm");
  return fmt::format("{:<15} {:>10} {:>10} {:>7} {:>7}  {}\n", model::title_of(use.resource), mean,
                     report::resource_amount(use.resource, use.spread),
                     sm == nullptr ? "" : report::resource_amount(sm->resource, sm->mean),
                     fmt::format("{:.0f} %", 100 * w.filled),
                     base::elide_middle(name, columns - kResourceNumbers));
}

// Hardware counters while each kernel or copy was running.
std::string resource_table(const model::GpuCapture& capture, size_t rows, size_t columns) {
  std::string out;
  for (size_t i = 0; i < std::min(rows, capture.work.size()); ++i) {
    const model::CapturedWork& w = capture.work[i];
    if (const model::ResourceUse* use = report::find_use(w.resources, w.resource)) {
      out += resource_row(w, *use, columns);
    }
  }
  if (out.empty()) {
    return out;
  }
  return (columns < kResourceNumbers + kNarrowestName
              ? std::string("\n")
              : fmt::format("\n{:<15} {:>10} {:>10} {:>7} {:>7}  {}\n", "RESOURCE", "MEAN", "SPREAD", "SM",
                            "FILLED", "WHILE THIS RAN")) +
         out;
}

}  // namespace

std::string gpu_capture_text(const model::GpuCapture& capture, size_t rows, size_t columns) {
  std::string out;
  for (const std::string& sentence : report::gpu_sentences(capture)) {
    out += text_block(sentence, columns, 0);
  }
  if (capture.work.empty()) {
    return out;
  }
  out += columns < kGpuNumbers + kNarrowestName
             ? std::string("\n")
             : fmt::format("\n{:>6} {:>6} {:>7} {}{:>9} {:>9} {:>{}} {:>6} {:<2}{}\n", "PATH", "TOTAL",
                           "COUNT", median_column("MEDIAN", columns), "MEAN", "SPREAD", "BUT RANKS",
                           kWidestGpuRanks, "SPEND", "", "KERNEL, COPY, CALL");
  for (size_t i = 0; i < std::min(rows, capture.work.size()); ++i) {
    out += row(capture.work[i], columns);
  }
  return out + resource_table(capture, rows, columns);
}

}  // namespace xpurun::launcher
