#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "launcher/commands/runs.h"
#include "launcher/output/text_block.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace xpurun::launcher {

namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kNarrow = 70;  // below it, a run takes several lines
constexpr size_t kLabelColumn = 13;
constexpr size_t kShortestVerdict = 48;  // with less room, the verdict takes a line of its own
constexpr size_t kShownProcesses = 12;

std::string verdict_of(const RunEntry& run) {
  return base::sanitize(run.manifest.verdict.sentence);
}

std::string pad(const std::string& text, size_t width) {
  const size_t used = base::display_width(text);
  return used < width ? text + std::string(width - used, ' ') : text;
}

size_t width_of_names(const std::vector<RunEntry>& runs) {
  size_t out = 3;
  for (const RunEntry& run : runs) {
    out = std::max(out, base::display_width(run.name));
  }
  return out;
}

std::string label(std::string_view name, std::string_view text, size_t columns) {
  return text.empty() ? std::string() : definition(name, text, columns, kLabelColumn);
}

std::string command_line(const model::RunManifest& m) {
  std::vector<std::string> words;
  for (const std::string& word : m.command) {
    words.push_back(base::shell_quote(base::sanitize(word)));
  }
  return base::join(words, " ");
}

std::string place(const model::ProcessRecord& p) {
  const std::string where =
      p.function.empty() ? "-" : fmt::format("{} ({}:{})", p.function, base::base_name(p.file), p.line);
  return fmt::format("rank {}: pid {}, {}{}", p.rank, p.pid, base::sanitize(where),
                     p.death.happened ? ", ended" : "");
}

}  // namespace

std::string runs_table(const std::vector<RunEntry>& runs, size_t columns) {
  std::string out;
  if (columns < kNarrow) {
    for (const RunEntry& run : runs) {
      out += base::sanitize(run.name) + '\n';
      out +=
          text_block(fmt::format("{}, {}, {}", outcome_text(run),
                                 base::human_duration(run.manifest.elapsed_s), base::human_size(run.bytes)),
                     columns, 2);
      if (const std::string verdict = verdict_of(run); !verdict.empty()) {
        out += text_block(verdict, columns, 2);
      }
    }
    return out;
  }
  const size_t name = width_of_names(runs);
  out = fmt::format("{}  {:<12} {:>8} {:>10}", pad("RUN", name), "OUTCOME", "LASTED", "SIZE");
  const size_t before = base::display_width(out) + 1;
  const bool beside = before + kShortestVerdict <= columns;
  out += beside ? "  VERDICT\n" : "\n";
  for (const RunEntry& run : runs) {
    std::string line =
        fmt::format("{}  {:<12} {:>8} {:>10}  ", pad(base::sanitize(run.name), name), outcome_text(run),
                    base::human_duration(run.manifest.elapsed_s), base::human_size(run.bytes));
    const std::string verdict = verdict_of(run);
    const size_t used = base::display_width(line);
    if (beside) {
      line += cut_end(verdict, columns > used ? columns - used : 0);
    }
    line.resize(line.find_last_not_of(' ') + 1);
    out += line + '\n';
    if (!beside && !verdict.empty()) {
      out += "  " + cut_end(verdict, columns - 2) + '\n';
    }
  }
  return out;
}

std::string runs_json(const std::vector<RunEntry>& runs) {
  Json j;
  j["schema"] = "xpurun.runs/1";
  auto& list = j["runs"] = Json::array();
  for (const RunEntry& run : runs) {
    const model::RunManifest& m = run.manifest;
    list.push_back({{"id", run.name},
                    {"path", run.path},
                    {"outcome", outcome_text(run)},
                    {"removable", may_be_removed(run.life)},
                    {"host", m.host},
                    {"started", base::utc_iso8601(m.started_wall_ns)},
                    {"elapsed_s", m.elapsed_s},
                    {"exit_status", m.exit_status},
                    {"world_size", m.world_size},
                    {"bytes", run.bytes},
                    {"command", m.command},
                    {"verdict", m.verdict.id},
                    {"sentence", m.verdict.sentence}});
  }
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string run_details(const RunEntry& run, size_t columns) {
  const model::RunManifest& m = run.manifest;
  std::string out = base::sanitize(run.name) + '\n';
  out += label("command", command_line(m), columns);
  out += label("outcome", outcome_text(run), columns);
  out += label("verdict", verdict_of(run), columns);
  out += label("started",
               fmt::format("{} on {}, lasted {}", base::utc_iso8601(m.started_wall_ns),
                           base::sanitize(m.host), base::human_duration(m.elapsed_s)),
               columns);
  out += label("directory", base::sanitize(m.cwd), columns);
  out += label("ranks", m.world_size > 0 ? fmt::format("{}", m.world_size) : "", columns);
  size_t shown = 0;
  for (const model::ProcessRecord& p : m.processes) {
    if (p.role == model::ProcessRole::rank && shown < kShownProcesses) {
      out += label("", place(p), columns);
      ++shown;
    }
  }
  for (const model::DumpRecord& dump : m.dumps) {
    out += label("dump", fmt::format("{} at {}", dump.dir, base::human_duration(dump.at_s)), columns);
  }
  for (const model::OptionOrigin& o : m.options) {
    out += label("option", base::sanitize(fmt::format("{} = {} ({})", o.name, o.value, o.source)), columns);
  }
  out += label("size", base::human_size(run.bytes), columns);
  const std::string page = run.path + "/report.html";
  return out + label("open", base::file_exists(page) ? base::shell_quote(page) : "", columns);
}

}  // namespace xpurun::launcher
