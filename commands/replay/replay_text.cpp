#include "commands/replay/replay_text.h"

#include "commands/analyze/table_text.h"
#include "common/base/strings.h"
#include "launcher/output/text_block.h"
#include "report/replay/tables.h"

#include <fmt/format.h>

namespace xpurun::launcher {

namespace {

constexpr size_t kLabelColumn = 11;
constexpr size_t kShownRanks = 16;

std::string about_gpu(const model::ReplayDevice& d) {
  std::string out =
      fmt::format("{} {}, {}", d.index, d.name, base::human_size(static_cast<uint64_t>(d.memory_bytes)));
  if (d.sm_clock_mhz >= 0) {
    out += fmt::format(", SM clock {} MHz", d.sm_clock_mhz);
    out += d.sm_clock_max_mhz > 0 ? fmt::format(" of {} while it worked", d.sm_clock_max_mhz) : "";
  } else {
    out += ", SM clock unknown (no NVML)";
  }
  if (d.temperature_c >= 0 && d.power_w >= 0) {
    out += fmt::format(", {} C, {:.0f} W", d.temperature_c, d.power_w);
  }
  if (!d.throttle_reasons.empty()) {
    std::vector<std::string> names;
    for (const model::ThrottleReason reason : d.throttle_reasons) {
      names.emplace_back(name_of(reason));
    }
    out += "; limited by: " + base::join(names, ", ");
  }
  return base::sanitize(out);
}

// "2 matmuls were not replayed: out of memory ..." for each reason once.
std::string skipped(const model::Replay& replay, size_t columns) {
  std::vector<std::pair<std::string, std::string>> reasons;  // reason, operations
  const auto add = [&reasons](const std::string& reason, const std::string& name) {
    for (auto& [known, names] : reasons) {
      if (known == reason) {
        names += ", " + name;
        return;
      }
    }
    reasons.emplace_back(reason, name);
  };
  for (const model::ReplayedMatmul& m : replay.matmuls) {
    if (!m.replay.skipped.empty()) {
      add(m.replay.skipped, fmt::format("{} {}", m.shape, m.types));
    }
  }
  for (const model::ReplayedCollective& c : replay.collectives) {
    if (!c.replay.skipped.empty()) {
      add(c.replay.skipped, fmt::format("{} of {}", c.operation, base::human_size(c.bytes)));
    }
  }
  std::string out;
  for (const auto& [reason, names] : reasons) {
    out += definition("skipped", base::sanitize(names + ": " + reason), columns, kLabelColumn);
  }
  return out;
}

}  // namespace

std::string replay_text(const model::Replay& replay, size_t columns) {
  std::string out = text_block(base::sanitize(replay.sentence), columns, 0) + '\n';
  out += definition("GPU", about_gpu(replay.device), columns, kLabelColumn);
  for (const std::string& library : replay.device.libraries) {
    out += definition("library", base::sanitize(library), columns, kLabelColumn);
  }
  if (!replay.matmuls.empty()) {
    out += definition("matmuls",
                      fmt::format("{} of {} distinct ones, {:.0f} % of the time of all",
                                  replay.matmuls.size(), replay.all_matmuls, 100 * replay.covered),
                      columns, kLabelColumn);
  }
  if (!replay.collectives.empty()) {
    out +=
        definition("collectives",
                   fmt::format("{} of {} distinct ones", replay.collectives.size(), replay.all_collectives),
                   columns, kLabelColumn);
  }
  out += skipped(replay, columns);
  for (const std::string& note : replay.notes) {
    out += definition("note", base::sanitize(note), columns, kLabelColumn);
  }
  for (const report::TextTable& table : report::replay_tables(replay, kShownRanks)) {
    out += '\n' + table_text(table, columns);
  }
  return out;
}

}  // namespace xpurun::launcher
