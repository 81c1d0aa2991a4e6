#include "report/events/files/importers.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/model/timing/event_file.h"
#include "common/model/timing/span_file.h"
#include "report/events/foreign/execution_trace.h"
#include "report/events/foreign/nccl_inspector.h"
#include "report/events/foreign/nsys_export.h"
#include "report/events/foreign/otlp_trace.h"
#include "report/events/foreign/perfetto/trace.h"
#include "report/events/foreign/torch_profiler.h"
#include "report/events/foreign/trace_text.h"
#include "report/events/foreign/xpu_timer/matmuls.h"
#include "report/events/foreign/xpu_timer/trace.h"

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
constexpr std::array<std::string_view, 1> kNsys{".sqlite"};
constexpr std::array<std::string_view, 1> kOtlp{".otlp.json"};
constexpr std::array<std::string_view, 1> kChakra{".et"};
constexpr size_t kJsonHead = size_t{16} << 10;

base::Result<RecordOwner> owner_of_ours(const std::string& path) {
  XPURUN_TRY_ASSIGN(const model::EventFileHeader header, read_record_header(path));
  const base::Rank rank = std::max(header.rank, base::kNoRank);
  return RecordOwner{rank, header.host, rank == base::kNoRank ? header.pid : 0};
}

// Files of several kinds end in ".json"; their first bytes tell.
struct JsonReader {
  base::Result<RecordOwner> (*owner)(const std::string&);
  base::Status (*read)(Activity&, const std::string&);
};
JsonReader json_reader(const std::string& path) {
  const auto text = TraceText::open(path);
  std::string head(kJsonHead, '\0');
  head.resize(
      !text ? 0
            : static_cast<size_t>((*text)->sgetn(head.data(), static_cast<std::streamsize>(head.size()))));
  return begins_execution_trace(head) ? JsonReader{owner_of_execution_trace, add_execution_trace}
         : begins_otlp_trace(head)    ? JsonReader{owner_of_otlp_trace, add_otlp_trace}
                                      : JsonReader{owner_of_torch_file, add_torch_trace};
}

base::Result<RecordOwner> owner_of_json(const std::string& path) {
  return json_reader(path).owner(path);
}

base::Status add_json(Activity& out, const std::string& path) {
  return json_reader(path).read(out, path);
}

// Of xpu_timer's xpu_timer_gen_trace_timeline: "matmul_dp2.bin", and "trace_dp2.bin" for Perfetto.
bool is_matmul_file(const std::string& path) {
  return base::base_name(path).starts_with("matmul");
}

base::Result<std::vector<RecordOwner>> owners_of_bin(const std::string& path) {
  return is_matmul_file(path) ? owners_of_xpu_timer_matmuls(path) : owners_of_perfetto_trace(path);
}

base::Status add_bin(Activity& out, const std::string& path) {
  return is_matmul_file(path) ? add_xpu_timer_matmuls(out, path) : add_perfetto_trace(out, path);
}

constexpr std::array kImporters{
    Importer{.name = "xpurun", .endings = kOurs, .owner = owner_of_ours},
    Importer{.name = "xpu_timer",
             .endings = kXpuTimer,
             .owner = owner_of_xpu_timer_file,
             .read = add_xpu_timer_trace},
    Importer{.name = "OpenTelemetry", .endings = kOtlp, .owner = owner_of_otlp_trace, .read = add_otlp_trace},
    Importer{.name = "torch.profiler",
             .endings = kTorch,
             .named_ending = ".json",
             .owner = owner_of_json,
             .read = add_json},
    Importer{
        .name = "Chakra", .endings = kChakra, .owner = owner_of_execution_trace, .read = add_chakra_trace},
    Importer{.name = "nsys", .endings = kNsys, .owner = owner_of_nsys_export, .read = add_nsys_export},
    Importer{.name = "NCCL inspector",
             .named_ending = ".log",
             .owner = owner_of_inspector_log,
             .read = add_inspector_log},
    Importer{.name = "NCCL inspector",
             .named_ending = ".jsonl",
             .owner = owner_of_inspector_log,
             .read = add_inspector_log},
    Importer{.name = "Perfetto",
             .named_ending = ".perfetto-trace",
             .read = add_perfetto_trace,
             .owners = owners_of_perfetto_trace},
    Importer{.name = "xpu_timer", .named_ending = ".bin", .read = add_bin, .owners = owners_of_bin},
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
