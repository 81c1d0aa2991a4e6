#include "commands/analyze/capture_text.h"

#include "commands/analyze/gpu_capture_text.h"
#include "common/base/strings.h"
#include "launcher/output/text_block.h"
#include "report/profile/captured_functions.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::launcher {

namespace {

constexpr size_t kNumbers = 35;      // columns before the function
constexpr size_t kPath = 7;          // more, if there are records of GPUs
constexpr size_t kShareColumn = 10;  // on a narrow terminal
constexpr size_t kNarrowest = 20;    // of the function
constexpr size_t kWidestRanks = 12;  // "0-3,8,10"
constexpr size_t kStackIndent = 4;

std::string share(double part) {
  return fmt::format("{:.1f}%", 100 * part);
}

// On a narrow terminal: the share of the ranks that stand out, else of all; the function; who it is.
std::string narrow_row(const model::CapturedFunction& f, size_t columns) {
  const bool stands_out = !f.ranks.empty();
  const std::string who = stands_out
                              ? fmt::format(": rank{} {}, the others {}", f.ranks.size() == 1 ? "" : "s",
                                            f.ranks.brief(), share(f.total))
                              : "";
  return definition(share(stands_out ? f.ranks_total : f.total),
                    base::sanitize((f.worker ? "worker: " : "") + report::place_of(f) + who), columns,
                    kShareColumn);
}

// The largest share of the critical path: that of the ranks that stand out, if there are any.
std::string path_of(const model::CapturedFunction& f) {
  const double path = f.ranks_path >= 0 ? f.ranks_path : f.path;
  return path < 0 ? "" : share(path);
}

bool has_paths(const model::CaptureReport& capture) {
  return std::any_of(capture.functions.begin(), capture.functions.end(),
                     [](const auto& f) { return f.path >= 0 || f.ranks_path >= 0; });
}

std::string row(const model::CapturedFunction& f, bool paths, size_t columns) {
  if (columns < kNumbers + kNarrowest) {
    return narrow_row(f, columns);
  }
  const size_t room = columns - kNumbers - (paths ? kPath : 0);
  const bool stands_out = !f.ranks.empty();
  return fmt::format(
      "{}{:>7} {:>6} {:>{}} {:>6} {}\n", paths ? fmt::format("{:>7}", path_of(f)) : "", share(f.own),
      share(f.total), stands_out ? base::elide_middle(f.ranks.text(), kWidestRanks) : "", kWidestRanks,
      stands_out ? share(f.ranks_own > 0 ? f.ranks_own : f.ranks_total) : "",
      base::elide_middle(base::sanitize((f.worker ? "worker: " : "") + report::place_of(f)), room));
}

}  // namespace

std::string capture_text(const model::CaptureReport& capture, size_t rows, size_t columns) {
  std::string out =
      text_block(fmt::format("{}, {} samples of {} in {}{}", base::sanitize(capture.dir), capture.samples,
                             capture.ranks.size() == 1 ? "rank " + capture.ranks.text()
                                                       : fmt::format("{} ranks", capture.ranks.size()),
                             base::human_duration(capture.seconds), report::capture_reason(capture.reason)),
                 columns, 0);
  if (!capture.sentence.empty()) {
    out += text_block(base::sanitize(capture.sentence), columns, 0);
  }
  const bool paths = has_paths(capture);
  out += columns < kNumbers + kNarrowest
             ? std::string("\n")
             : fmt::format("\n{}{:>7} {:>6} {:>{}} {:>6} {}\n", paths ? fmt::format("{:>7}", "PATH") : "",
                           "OWN", "TOTAL", "BUT RANKS", kWidestRanks, "SPEND", "FUNCTION");
  for (size_t i = 0; i < std::min(rows, capture.functions.size()); ++i) {
    const model::CapturedFunction& f = capture.functions[i];
    out += row(f, paths, columns);
    if (!f.ranks.empty() && !f.stack.empty()) {
      out += text_block(base::sanitize(f.stack), columns, kStackIndent);
    }
  }
  if (!capture.gpu.empty()) {
    out += '\n' + gpu_capture_text(capture.gpu, rows, columns);
  }
  return out;
}

}  // namespace xpurun::launcher
