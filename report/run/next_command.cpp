#include "report/run/next_command.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/run_dir.h"
#include "common/model/secrets/redact.h"
#include "report/diagnosis/ends/exceptions.h"
#include "report/diagnosis/rank_view.h"
#include "report/diagnosis/several_nodes.h"
#include "report/diagnosis/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <optional>

namespace xpurun::report {

using base::tr;

namespace {

constexpr size_t kMostPaths = 8;  // in a command to type

bool any_of(std::string_view id, std::initializer_list<std::string_view> ids) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

std::string in_run(const RunReport& report, std::string_view name) {
  return base::shell_quote(fmt::format("{}/{}", report.dir, name));
}

// The culprit is on another host, so its pid is meaningless here.
bool is_elsewhere(const RunReport& report) {
  return is_culprit_elsewhere(report.run, report.verdict);
}

// Hangs that only a dump of all ranks explains.
bool concerns_all(std::string_view id) {
  return any_of(id, {kHangMismatch, kHangMismatchSize, kHangMismatchType, kHangMismatchRoot, kHangOrder,
                     kHangP2p, kHangQueued, kHangNotFinished, kHangNetwork, kHangAllWaiting});
}

// The user's command, to run again; empty if a part of it was masked.
std::string own_command(const model::RunManifest& run) {
  std::string out;
  for (const std::string& word : run.command) {
    if (word.find(model::kMask) != std::string::npos) {
      return "";
    }
    out += (out.empty() ? "" : " ") + base::shell_quote(word);
  }
  return out;
}

// xpurun's own options that were typed, without options that a second run cannot have. Empty if a part was
// masked, because a masked option cannot be typed.
std::optional<std::string> own_options(const model::RunManifest& run) {
  std::string out;
  for (const model::OptionOrigin& o : run.options) {
    if (o.typed.empty() || o.name == "out" || o.name == "logs") {
      continue;
    }
    if (o.typed.find(model::kMask) != std::string::npos) {
      return std::nullopt;
    }
    out += base::shell_quote(o.typed) + " ";
  }
  return out;
}

// The verdict is about the process of a rank, not about the command as a whole.
bool is_single_rank(const model::RunManifest& run, const model::Verdict& verdict) {
  return std::any_of(run.processes.begin(), run.processes.end(), [&](const model::ProcessRecord& p) {
    return p.role == model::ProcessRole::rank && p.pid == verdict.pid && verdict.ranks.contains(p.rank) &&
           !is_plain_command(p);
  });
}

std::string log_command(const RunReport& report) {
  if (!report.culprit_log.empty()) {
    return "tail -n 50 " + base::shell_quote(report.culprit_log);
  }
  const std::string again = is_elsewhere(report) ? "" : own_command(report.run);
  const auto options = own_options(report.run);
  return again.empty() || !options ? "" : fmt::format("xpurun --logs {}-- {}", *options, again);
}

std::string culprit_stacks(const RunReport& report) {
  const model::Verdict& v = report.verdict;
  if (v.dump.empty() || v.ranks.empty() || (is_elsewhere(report) && report.culprit_dump.empty())) {
    return "";
  }
  const std::string key =
      model::process_key(v.ranks.ranks().front(), model::ProcessRole::rank, v.host, v.pid);
  return fmt::format("xpurun stacks --format text {}",
                     report.culprit_dump.empty()
                         ? in_run(report, fmt::format("{}/{}.stacks.json", v.dump, key))
                         : base::shell_quote(fmt::format("{}/{}.stacks.json", report.culprit_dump, key)));
}

std::string while_running(const RunReport& report) {
  const model::Verdict& v = report.verdict;
  if (is_elsewhere(report)) {
    return "";
  }
  if (any_of(v.id, {kHangStuck, kHangLock, kHangKernel, kHangNotEntered, kHangNotLaunched}) && v.pid > 0) {
    return fmt::format("xpurun stacks --pid {} --locals", v.pid);
  }
  if (any_of(v.id, {kHangBusy, kHangLongCall}) && v.pid > 0) {
    return fmt::format("xpurun stacks --pid {} --samples 3", v.pid);
  }
  if (v.id == kHangStopped || v.id == kHangSilent) {
    return v.next.command;  // for the living process
  }
  return concerns_all(v.id) || v.id == kRunning ? "xpurun stacks --run " + base::shell_quote(report.dir) : "";
}

}  // namespace

std::string verdict_command(const RunReport& report) {
  const model::Verdict& v = report.verdict;
  if (report.run.outcome == model::RunOutcome::running) {
    if (std::string command = while_running(report); !command.empty()) {
      return command;
    }
  }
  if (v.id == kCrashSignal && !v.next.command.empty()) {
    return v.next.command;  // there are no stacks to show
  }
  if (any_of(v.id, {kHangStuck, kHangLock, kHangKernel, kHangNotEntered, kHangNotLaunched, kHangBusy,
                    kHangLongCall, kCrashSignal})) {
    const bool chosen = v.kind == model::VerdictKind::hang && !v.next.command.empty();
    return chosen ? v.next.command : culprit_stacks(report);
  }
  if (concerns_all(v.id) || any_of(v.id, {kCrashMismatch, kExitMismatch, kInterruptedHung})) {
    return dump_command(report, v.dump);
  }
  if (any_of(v.id, {kHangDead, kHangLeftEarly, kExitError, kExitLeftEarly, kExitLauncher, kExitUnknown})) {
    return log_command(report);
  }
  if (any_of(v.id, {kHangUninterruptible, kCrashKilled})) {
    return v.next.command;
  }
  if (any_of(v.id, {kSlowRank, kSlowJob, kSlowSpell, kSlowPause})) {
    return "xpurun analyze " + base::shell_quote(report.dir);
  }
  if (v.id == kNoneFinished && v.slow.present()) {
    return "xpurun analyze " + base::shell_quote(report.dir);
  }
  if (v.id == kHangUnknown) {
    return "tail " + in_run(report, "xpurun.log");
  }
  if (v.id == kExitNotStarted && !report.run.command.empty()) {
    return "command -v " + base::shell_quote(report.run.command.front());
  }
  return "";
}

namespace {

// "10.0.0.7:443": what the call of this line waits for; empty for anything else.
std::string awaited_server(const model::CodeLocation& where) {
  const size_t colon = where.target.rfind(':');
  const bool address = colon != std::string::npos && colon > 0 &&
                       where.target.find('/') == std::string::npos &&
                       base::parse_int(where.target.substr(colon + 1)).has_value();
  return address && where.callee.find("accept") == std::string::npos ? base::sanitize(where.target)
                                                                     : std::string();
}

}  // namespace

void complete_next_step(const RunReport& report, const std::string& page, model::Verdict& verdict) {
  if (verdict.kind == model::VerdictKind::exception && !page.empty() &&
      verdict.next.text == whole_traceback_words("report.html")) {
    verdict.next.text = whole_traceback_words(base::shell_quote(page));
    return;
  }
  // The sentence says where the culprit stands; its stacks say more.
  if (verdict.kind == model::VerdictKind::hang && verdict.next.empty()) {
    const std::string command = verdict_command(report);
    const std::string server = awaited_server(verdict.where);
    verdict.next =
        command.empty()
            ? model::NextStep()
            : model::NextStep{.text = server.empty() ? tr("see all its threads")
                                                     : tr("find out why {} does not answer, and give the "
                                                          "call a time limit",
                                                          server),
                              .command = command};
    return;
  }
  const bool by_log = any_of(verdict.id, {kHangDead, kHangLeftEarly, kExitError, kExitUnknown});
  if (!by_log || !verdict.next.command.empty()) {
    return;
  }
  const std::string command = log_command(report);
  if (!report.culprit_log.empty()) {
    verdict.next.command = command;
  } else if (is_single_rank(report.run, verdict)) {
    verdict.next = {.text = tr("no log of rank {} was kept: run again with --logs", verdict.ranks.lowest()),
                    .command = command};
  }
}

std::string dump_command(const RunReport& report, const std::string& dump) {
  if (report.dump_parts.size() > kMostPaths) {
    return "xpurun stacks --format tree " + base::shell_quote(report.dir);
  }
  if (dump == report.dump && report.dump_parts.size() > 1) {
    std::string command = "xpurun stacks --format tree";
    for (const std::string& part : report.dump_parts) {
      command += " " + base::shell_quote(part);
    }
    return command;
  }
  return dump.empty() ? "" : "xpurun stacks --format tree " + in_run(report, dump);
}

std::string doctor_command(const RunReport& report) {
  const std::string command = own_command(report.run);
  return command.empty() ? "xpurun doctor" : "xpurun doctor -- " + command;
}

std::string typed_path(const std::string& path, const std::string& cwd) {
  const std::filesystem::path relative = std::filesystem::path(path).lexically_relative(cwd);
  const bool inside = !cwd.empty() && !relative.empty() && *relative.begin() != "..";
  return inside ? relative.string() : path;
}

}  // namespace xpurun::report
