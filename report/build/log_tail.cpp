#include "report/build/log_tail.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/frame_text.h"
#include "common/model/secrets/redact.h"
#include "report/build/job_file.h"

#include <fmt/format.h>

#include <algorithm>

namespace xpurun::report {

using base::later;
using base::tr;
using model::LogTail;
using model::ProcessRecord;
using model::StreamKind;
using model::Verdict;
using model::VerdictKind;

namespace {

constexpr size_t kMostColumns = 400;
constexpr size_t kConditionColumns = 100;
constexpr size_t kMostBytes = size_t{64} << 10;
constexpr size_t kInEvidence = 4;
constexpr std::string_view kOwnLine = "xpurun: ";

bool is_about_a_death(const Verdict& v) {
  return v.kind == VerdictKind::crash || v.kind == VerdictKind::exit || v.kind == VerdictKind::exception ||
         (v.kind == VerdictKind::hang && v.state == model::RankState::dead);
}

const ProcessRecord* culprit_of(const model::RunManifest& run, const Verdict& v) {
  const auto it = std::find_if(run.processes.rbegin(), run.processes.rend(), [&](const ProcessRecord& p) {
    return p.pid == v.pid && p.role == model::ProcessRole::rank && v.ranks.contains(p.rank);
  });
  return it == run.processes.rend() ? nullptr : &*it;
}

// Other ranks with the same file, and this one.
model::RankSet sharing(const model::RunManifest& run, const ProcessRecord& process) {
  model::RankSet out;
  for (const ProcessRecord& p : run.processes) {
    if (p.role == model::ProcessRole::rank && p.node == process.node &&
        p.error_stream.path == process.error_stream.path) {
      out.insert(p.rank);
    }
  }
  return out.size() > 1 ? out : model::RankSet();
}

std::string why_none(StreamKind kind) {
  switch (kind) {
    case StreamKind::pipe:
      return std::string(later("standard error was a pipe: only --logs keeps its output"));
    case StreamKind::terminal:
      return std::string(later("standard error was a terminal: only --logs keeps its output"));
    case StreamKind::file:
      return std::string(later("the file of standard error cannot be read, or was changed after the run"));
    case StreamKind::other:
      return std::string(later("standard error was discarded"));
    case StreamKind::unknown:
      break;
  }
  return std::string(later("the process ended before its standard error was examined"));
}

// Lines of a traceback's own: its frames, and what joins it with the next one.
bool continues_traceback(std::string_view line) {
  return base::trim(line).empty() || line.front() == ' ' ||
         line.starts_with("During handling of the above exception") ||
         line.starts_with("The above exception was the direct cause");
}

// A process that a signal has killed prints no traceback at its end: one at the end of a shared file is that
// of a rank that failed later, perhaps cut off. Complete, a traceback is frames and one line of the message.
// torch puts "[rank0]: " before each line.
std::string_view without_last_tracebacks(std::string_view text) {
  constexpr std::string_view kHead = "Traceback (most recent call last):";
  for (size_t at = text.rfind(kHead); at != std::string_view::npos; at = text.rfind(kHead)) {
    const size_t begin = text.rfind('\n', at) + 1;  // 0 on the first line
    const std::string_view prefix = text.substr(begin, at - begin);
    const auto lines = base::split(text.substr(at), '\n');
    const auto others = std::count_if(lines.begin() + 1, lines.end(), [&](std::string_view line) {
      line.remove_prefix(line.starts_with(prefix) ? prefix.size() : 0);
      return !continues_traceback(line);
    });
    if (others > 1) {
      break;  // other output came after the traceback
    }
    text = text.substr(0, begin);
  }
  return text;
}

// The verdict already has the traceback of an exception, and the call of an exit with a position. A shared
// file continues after the end of a rank that did not report its end, with the output of ranks that failed
// after it.
bool is_explained(const Verdict& verdict, const LogTail& tail) {
  const bool placed_exit = verdict.kind == VerdictKind::exit && !verdict.where.function.empty();
  const bool unnoticed = verdict.exit_code == 0 || verdict.id == "crash.killed";
  return verdict.kind == VerdictKind::exception || (!tail.shared.empty() && (placed_exit || unnoticed));
}

// Whether the death may be the consequence of a failed assertion of a kernel.
bool may_follow_device_assert(const model::Verdict& verdict) {
  constexpr std::string_view kMessage = "device-side assert";
  return verdict.kind == model::VerdictKind::crash ||
         verdict.exception.message.find(kMessage) != std::string::npos ||
         verdict.sentence.find(kMessage) != std::string::npos;
}

// "; assertion `index < size` of the kernel indexSelect failed (Indexing.cu:1292)" goes into the sentence.
void name_device_assert(model::Verdict& verdict, const model::DeviceAssert& failed) {
  say(verdict, tr("{}; assertion `{}` of the kernel {} failed ({}:{})", verdict.headline,
                  base::elide_middle(failed.condition, kConditionColumns),
                  base::elide_middle(failed.function, kConditionColumns), model::source_name(failed.file),
                  failed.line));
}

}  // namespace

std::vector<std::string> last_lines(std::string_view text, size_t most) {
  std::vector<std::string> out;
  const auto lines = base::split(text, '\n');
  for (auto it = lines.rbegin(); it != lines.rend() && out.size() < most; ++it) {
    std::string_view line = *it;
    while (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    line.remove_prefix(line.rfind('\r') == std::string_view::npos ? 0 : line.rfind('\r') + 1);
    if (!base::trim(line).empty() && !line.starts_with(kOwnLine)) {
      out.push_back(base::elide_middle(base::sanitize(line), kMostColumns));
    }
  }
  std::reverse(out.begin(), out.end());
  return out;
}

std::vector<std::string> lines_up_to(std::string_view text, const model::VerdictException& exception,
                                     size_t most) {
  const std::string_view message = exception.message;
  const std::string_view first_line = message.substr(0, message.find('\n'));
  std::string last = exception.type;
  last += first_line.empty() ? "" : fmt::format(": {}", first_line);
  for (size_t at = text.find(last); exception.present() && at != std::string_view::npos;
       at = text.find(last, at + 1)) {
    const size_t end = at + last.size();
    const bool begins = at == 0 || text[at - 1] == '\n';
    if (begins && (end == text.size() || text[end] == '\n' || text[end] == '\r')) {
      return last_lines(text.substr(0, end), most);
    }
  }
  return {};
}

TailOfRank read_log_tail(const std::vector<std::string>& nodes, const model::RunManifest& run,
                         const Verdict& verdict) {
  const ProcessRecord* process = is_about_a_death(verdict) ? culprit_of(run, verdict) : nullptr;
  if (process == nullptr || process->node >= nodes.size() || nodes[process->node].empty()) {
    return {};
  }
  const model::RunDir dir(nodes[process->node]);
  TailOfRank tail{.rank = process->rank, .log = {}, .failed_assert = {}};
  LogTail& out = tail.log;
  out.file = fmt::format("ranks/{}/stderr.log", process->rank);
  const auto look_for_assert = [&](std::string_view text) {
    tail.failed_assert = may_follow_device_assert(verdict) ? model::find_device_assert(text) : std::nullopt;
  };
  if (const auto log = end_of_file(dir.file(out.file), -1, kMostBytes, 0)) {
    look_for_assert(*log);
    out.lines = last_lines(model::redact_text(*log), kTailLines);
    return tail;
  }
  out.file.clear();
  const model::ErrorStream& stream = process->error_stream;
  const auto text =
      stream.kind != StreamKind::file
          ? std::nullopt
          : read_job_file(dir, run,
                          // From another node, only the kept copy: on this host the path may be another file.
                          {.path = process->node == 0 ? stream.path : std::string(),
                           .kept = fmt::format("ranks/{}/stderr-{}.tail", process->rank, process->pid),
                           .end = stream.end,
                           .most = kMostBytes});
  if (!text) {
    out.reason = why_none(stream.kind);
    return tail;
  }
  look_for_assert(*text);
  out.file = stream.path;
  out.shared = sharing(run, *process);
  if (verdict.kind == VerdictKind::crash && !verdict.exception.present() && !out.shared.empty()) {
    out.lines = last_lines(without_last_tracebacks(*text), kTailLines);
  }
  if (out.lines.empty() && (verdict.kind != VerdictKind::exception || out.shared.empty())) {
    out.lines = last_lines(*text, kTailLines);
  }
  if (!out.lines.empty()) {
    return tail;
  }
  // The last lines are those of ranks that failed later.
  out.lines = lines_up_to(*text, verdict.exception, kTailLines);
  if (out.lines.empty()) {
    out.reason = std::string(later("ranks that share the file of standard error wrote to it later"));
  }
  return tail;
}

void add_log_tail(Verdict& verdict, TailOfRank of) {
  if (!verdict.log_tail.lines.empty()) {
    return;  // the node that has judged had it
  }
  LogTail& tail = of.log;
  if (!tail.lines.empty() && !is_explained(verdict, tail) && !verdict.ranks.empty()) {
    std::vector<std::string> reported{
        tail.shared.empty() ? tr("the standard error of rank {} ended with:", of.rank)
                            : tr("the standard error that ranks {} share ended with:", tail.shared.text())};
    const size_t first = tail.lines.size() - std::min(tail.lines.size(), kInEvidence);
    reported.insert(reported.end(), tail.lines.begin() + static_cast<ptrdiff_t>(first), tail.lines.end());
    verdict.evidence.insert(verdict.evidence.begin(), reported.begin(), reported.end());
  }
  verdict.log_tail = std::move(tail);
  if (of.failed_assert && !verdict.ranks.empty()) {
    name_device_assert(verdict, *of.failed_assert);
  }
}

}  // namespace xpurun::report
