#include "report/events/files/record_files.h"

#include "common/base/strings.h"
#include "common/model/speed/trace_manifest.h"
#include "common/model/timing/event_file.h"
#include "common/model/timing/span_file.h"
#include "report/events/foreign/foreign_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <tuple>

namespace xpurun::report {

namespace fs = std::filesystem;

namespace {

// "…/events-", 12 and ".xev" of "…/events-12.xev".
std::tuple<std::string_view, int64_t, std::string_view> numbered(std::string_view path) {
  const size_t name = path.rfind('/') + 1;
  const size_t dot = std::min(path.find('.', name), path.size());
  size_t digits = dot;
  while (digits > name && std::isdigit(static_cast<unsigned char>(path[digits - 1])) != 0) {
    --digits;
  }
  return {path.substr(0, digits), base::parse_int(path.substr(digits, dot - digits)).value_or(-1),
          path.substr(dot)};
}

bool comes_before(std::string_view a, std::string_view b) {
  return std::tuple(numbered(a), a) < std::tuple(numbered(b), b);
}

template <typename F>
base::Status keep(base::Result<F> file, std::vector<F>& to, RankRecord& record, std::string& damage) {
  if (!file) {
    return base::fail(file.error());
  }
  damage = file->complete ? "" : kEndMissing;
  record.gpu = record.gpu.empty() ? file->header.gpu : record.gpu;
  to.push_back(std::move(*file));
  return {};
}

}  // namespace

RecordFiles record_files(const std::string& place) {
  RecordFiles out;
  std::error_code ec;
  if (!fs::is_directory(place, ec)) {
    out.files.push_back({place, importer_of(place, true)});
    return out;
  }
  for (auto it = fs::recursive_directory_iterator(place, fs::directory_options::skip_permission_denied, ec);
       !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    const std::string path = it->path();
    const Importer* importer = importer_of(path, false);
    const bool is_trace = base::base_name(path) == model::kTraceFile;
    std::error_code other;
    if ((importer == nullptr && !is_trace) || !it->is_regular_file(other) || it->is_symlink(other)) {
      continue;
    }
    if (is_trace) {
      out.traces.push_back(path);
    } else {
      out.files.push_back({path, importer});
    }
  }
  std::sort(out.files.begin(), out.files.end(),
            [](const RecordFile& a, const RecordFile& b) { return comes_before(a.path, b.path); });
  std::sort(out.traces.begin(), out.traces.end());
  return out;
}

base::Result<std::vector<RecordOwner>> owners_of(const RecordFile& file) {
  if (file.importer == nullptr) {
    return base::fail(
        fmt::format("{} is not a file of a known form (.xev, .xsp, .timeline, .json, .json.gz, .et, .sqlite, "
                    ".perfetto-trace)",
                    file.path));
  }
  if (file.importer->owners != nullptr) {
    return file.importer->owners(file.path);
  }
  XPURUN_TRY_ASSIGN(RecordOwner owner, file.importer->owner(file.path));
  return std::vector<RecordOwner>{std::move(owner)};
}

base::Status add_to_record(RankRecord& record, const RecordFile& file, const RecordOwner& owner,
                           std::string& damage) {
  if (!file.importer->is_ours()) {
    Activity activity{.rank = owner.rank, .pid = owner.pid, .host = owner.host};
    XPURUN_TRY(file.importer->read(activity, file.path));
    damage = damage_of(activity);
    add_foreign(record, activity);
    return {};
  }
  if (file.path.ends_with(model::kEventFileSuffix)) {
    return keep(model::load_event_file(file.path), record.events, record, damage);
  }
  const bool functions = base::base_name(file.path).starts_with(model::kFunctionFilePrefix);
  return keep(model::load_span_file(file.path), functions ? record.functions : record.spans, record, damage);
}

}  // namespace xpurun::report
