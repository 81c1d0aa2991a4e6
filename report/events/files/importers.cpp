#include "report/events/files/importers.h"

#include "common/base/os/io.h"
#include "common/model/timing/event_file.h"
#include "common/model/timing/span_file.h"
#include "report/events/foreign/torch_profiler.h"
#include "report/events/foreign/xpu_timer_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace xpurun::report {

namespace {

constexpr size_t kLongestHeader = size_t{128} << 10;
constexpr std::array<std::string_view, 2> kOurs{model::kEventFileSuffix, model::kSpanFileSuffix};
constexpr std::array<std::string_view, 1> kXpuTimer{".timeline"};
// What torch.profiler's tensorboard_trace_handler writes: other JSON in a directory is no trace.
constexpr std::array<std::string_view, 2> kTorch{".pt.trace.json", ".pt.trace.json.gz"};

base::Result<RecordOwner> owner_of_ours(const std::string& path) {
  XPURUN_TRY_ASSIGN(const model::EventFileHeader header, read_record_header(path));
  const base::Rank rank = std::max(header.rank, base::kNoRank);
  return RecordOwner{rank, header.host, rank == base::kNoRank ? header.pid : 0};
}

constexpr std::array kImporters{
    Importer{.name = "xpurun", .endings = kOurs, .owner = owner_of_ours},
    Importer{.name = "xpu_timer",
             .endings = kXpuTimer,
             .owner = owner_of_xpu_timer_file,
             .read = add_xpu_timer_trace},
    Importer{.name = "torch.profiler",
             .endings = kTorch,
             .named_ending = ".json",
             .owner = owner_of_torch_file,
             .read = add_torch_trace},
};

}  // namespace

std::span<const Importer> importers() {
  return kImporters;
}

const Importer* importer_of(std::string_view path, bool named) {
  const std::string_view plain = path.ends_with(".gz") ? path.substr(0, path.size() - 3) : path;
  const auto* found = std::find_if(kImporters.begin(), kImporters.end(), [&](const Importer& one) {
    return std::any_of(one.endings.begin(), one.endings.end(),
                       [path](std::string_view ending) { return path.ends_with(ending); }) ||
           (named && !one.named_ending.empty() && plain.ends_with(one.named_ending));
  });
  return found == kImporters.end() ? nullptr : found;
}

// The two header lines, with the reader of whole files.
base::Result<model::EventFileHeader> read_record_header(const std::string& path) {
  XPURUN_TRY_ASSIGN(const std::string head, base::read_file_start(path, kLongestHeader));
  const size_t first = head.find('\n');
  const size_t second = first == std::string::npos ? first : head.find('\n', first + 1);
  if (second == std::string::npos) {
    return base::fail(fmt::format("{}: the header is incomplete", path));
  }
  const std::string_view lines = std::string_view(head).substr(0, second + 1);
  if (path.ends_with(model::kEventFileSuffix)) {
    const auto file = model::parse_event_file(lines);
    return file ? base::Result<model::EventFileHeader>(file->header)
                : base::fail(base::Error(file.error()).context(path));
  }
  const auto file = model::parse_span_file(lines);
  return file ? base::Result<model::EventFileHeader>(file->header)
              : base::fail(base::Error(file.error()).context(path));
}

}  // namespace xpurun::report
