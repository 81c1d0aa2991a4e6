#include "commands/runs/runs.h"
#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/frame_text.h"
#include "common/model/json/json_text.h"
#include "launcher/output/text_block.h"
#include "report/diagnosis/diagnose.h"
#include "report/diagnosis/title.h"
#include "report/diagnosis/wording.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace xpurun::launcher {

namespace {

using Json = nlohmann::ordered_json;
using base::tr;

constexpr size_t kNarrow = 70;  // below it, a run takes several lines
constexpr size_t kLabelColumn = 13;
constexpr size_t kShortestVerdict = 48;  // with less room, the verdict takes a line of its own
constexpr size_t kShownProcesses = 12;

// What outcome_text() gives besides an exit status and the name of a signal.
[[maybe_unused]] constexpr std::string_view kOutcomes[] = {
    base::later("running"), base::later("left alone"),  base::later("killed"),   base::later("unknown"),
    base::later("hang"),    base::later("interrupted"), base::later("detached"), base::later("not started"),
    base::later("exit"),    base::later("signal")};

// Of an option. Others are names of variables and files.
[[maybe_unused]] constexpr std::string_view kTyped = base::later("command line");

std::string spoken_outcome(const RunEntry& run) {
  const std::string text = outcome_text(run);
  constexpr std::string_view kExit = "exit ";
  return text.starts_with(kExit) ? tr("exit {}", text.substr(kExit.size())) : tr(text);
}

// What fits into a line of a table.
std::string verdict_of(const RunEntry& run) {
  const model::Verdict& v = run.manifest.verdict;
  const bool english = base::spoken() == base::Language::english;
  return base::sanitize(english ? report::sentence_lines(v).front() : report::sentence_of(run.manifest));
}

size_t width_of_names(const std::vector<RunEntry>& runs) {
  size_t out = 3;
  for (const RunEntry& run : runs) {
    out = std::max(out, base::display_width(run.name));
  }
  return out;
}

std::string label(std::string_view name, std::string_view text, size_t columns) {
  return text.empty() ? std::string() : definition(tr(name), text, columns, kLabelColumn);
}

std::string command_line(const model::RunManifest& m) {
  std::vector<std::string> words;
  for (const std::string& word : m.command) {
    words.push_back(base::shell_quote(base::sanitize(word)));
  }
  return base::join(words, " ");
}

// The user's own line, as `top` and the status line tell it; of an older run, the innermost place.
std::string place(const model::ProcessRecord& p) {
  const bool known = !p.place.empty() && (!p.function.empty() || p.death.happened);
  const model::CodeLocation at =
      known ? p.place : model::CodeLocation{.function = p.function, .file = p.file, .line = p.line};
  const std::string where =
      at.empty() ? "-" : fmt::format("{} ({}:{})", at.function, model::source_name(at.file), at.line);
  return p.death.happened ? tr("rank {}: pid {}, {}, ended", p.rank, p.pid, base::sanitize(where))
                          : tr("rank {}: pid {}, {}", p.rank, p.pid, base::sanitize(where));
}

std::string row(const std::string& name, std::string_view outcome, std::string_view lasted,
                std::string_view size) {
  return fmt::format("{}  {} {} {}", name, pad_end(outcome, 12), pad_start(lasted, 8), pad_start(size, 10));
}

// Of a job of several nodes this run directory lists the ranks of one.
std::string rank_numbers(const model::RunManifest& m) {
  std::set<base::Rank> here;
  for (const model::ProcessRecord& p : m.processes) {
    if (p.role == model::ProcessRole::rank && p.rank != base::kNoRank) {
      here.insert(p.rank);
    }
  }
  if (m.world_size <= 0) {
    return "";
  }
  return !here.empty() && here.size() < static_cast<size_t>(m.world_size)
             ? tr("{}, {} of them on this node", m.world_size, here.size())
             : fmt::format("{}", m.world_size);
}

}  // namespace

std::string runs_table(const std::vector<RunEntry>& runs, size_t columns) {
  std::string out;
  if (columns < kNarrow) {
    for (const RunEntry& run : runs) {
      out += base::sanitize(run.name) + '\n';
      out += text_block(tr("{}, {}, {}", spoken_outcome(run), base::human_duration(run.manifest.elapsed_s),
                           base::human_size(run.bytes)),
                        columns, 2);
      if (const std::string verdict = verdict_of(run); !verdict.empty()) {
        out += text_block(verdict, columns, 2);
      }
    }
    return out;
  }
  const size_t name = width_of_names(runs);
  out = row(pad_end(tr("RUN"), name), tr("OUTCOME"), tr("LASTED"), tr("SIZE"));
  const size_t before = base::display_width(out) + 1;
  const bool beside = before + kShortestVerdict <= columns;
  out += beside ? "  " + tr("VERDICT") + "\n" : "\n";
  for (const RunEntry& run : runs) {
    std::string line = row(pad_end(base::sanitize(run.name), name), spoken_outcome(run),
                           base::human_duration(run.manifest.elapsed_s), base::human_size(run.bytes)) +
                       "  ";
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
  return model::json_text(j, 2) + "\n";
}

std::string run_details(const RunEntry& run, size_t columns) {
  const model::RunManifest& m = run.manifest;
  std::string out = base::sanitize(run.name) + '\n';
  out += label(base::later("command"), command_line(m), columns);
  out += label(base::later("outcome"), spoken_outcome(run), columns);
  out += label(base::later("verdict"), verdict_of(run), columns);
  out += label(base::later("started"),
               tr("{} on {}, lasted {}", base::utc_iso8601(m.started_wall_ns), base::sanitize(m.host),
                  base::human_duration(m.elapsed_s)),
               columns);
  out += label(base::later("directory"), base::sanitize(m.cwd), columns);
  out += label(base::later("ranks"), rank_numbers(m), columns);
  size_t shown = 0;
  for (const model::ProcessRecord& p : m.processes) {
    if (p.role == model::ProcessRole::rank && shown < kShownProcesses) {
      out += label("", place(p), columns);
      ++shown;
    }
  }
  for (const model::DumpRecord& dump : m.dumps) {
    out += label(base::later("dump"), tr("{} {}", dump.dir, report::moment_words(m, dump.at_s)), columns);
  }
  for (const model::OptionOrigin& o : m.options) {
    out += label(base::later("option"), base::sanitize(tr("{} = {} ({})", o.name, o.value, tr(o.source))),
                 columns);
  }
  out += label(base::later("size"), base::human_size(run.bytes), columns);
  const std::string page = run.path + "/report.html";
  return out + label(base::later("open"), base::file_exists(page) ? base::shell_quote(page) : "", columns);
}

}  // namespace xpurun::launcher
