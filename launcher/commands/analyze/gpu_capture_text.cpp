#include "launcher/commands/analyze/gpu_capture_text.h"

#include "common/base/strings.h"
#include "launcher/output/text_block.h"
#include "report/profile/gpu_words.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

namespace {

constexpr size_t kGpuNumbers = 62;      // columns before the name
constexpr size_t kGpuShareColumn = 10;  // on a narrow terminal
constexpr size_t kNarrowestName = 16;   // of the name
constexpr size_t kWidestGpuRanks = 9;

std::string share_of_time(double part) {
  return fmt::format("{:.1f}%", 100 * part);
}

std::string row(const model::CapturedWork& w, size_t columns) {
  if (columns < kGpuNumbers + kNarrowestName) {
    const std::string who = w.ranks.empty() ? ""
                                            : fmt::format(": rank{} {} {}", w.ranks.size() == 1 ? "" : "s",
                                                          w.ranks.brief(), share_of_time(w.ranks_share));
    return definition(share_of_time(w.path), base::sanitize(w.name) + who, columns, kGpuShareColumn);
  }
  return fmt::format("{:>6} {:>6} {:>7} {:>9} {:>9} {:>{}} {:>6} {:<2}{}\n", share_of_time(w.path),
                     share_of_time(w.share), w.count, report::work_duration(w.mean_s),
                     report::work_duration(w.spread_s),
                     w.ranks.empty() ? "" : base::elide_middle(w.ranks.text(), kWidestGpuRanks),
                     kWidestGpuRanks, w.ranks.empty() ? "" : share_of_time(w.ranks_share), "",
                     base::elide_middle(base::sanitize(w.name), columns - kGpuNumbers));
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
             : fmt::format("\n{:>6} {:>6} {:>7} {:>9} {:>9} {:>{}} {:>6} {:<2}{}\n", "PATH", "TOTAL", "COUNT",
                           "MEAN", "SPREAD", "BUT RANKS", kWidestGpuRanks, "SPEND", "", "KERNEL, COPY, CALL");
  for (size_t i = 0; i < std::min(rows, capture.work.size()); ++i) {
    out += row(capture.work[i], columns);
  }
  return out;
}

}  // namespace xpurun::launcher
