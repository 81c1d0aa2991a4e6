#include "launcher/supervise/python_reports.h"

#include "common/base/output/log.h"

#include <nlohmann/json.hpp>

namespace xpurun::launcher {

namespace {

// So many records are kept, so many of them with their tracebacks whole.
constexpr size_t kMostExceptions = 1000;
constexpr size_t kMostTracebacks = 32;
constexpr size_t kMostUntraced = 100;

}  // namespace

PythonReports::PythonReports(Parts parts, const std::string& host, Hooks hooks)
    : parts_(parts),
      hooks_(std::move(hooks)),
      spans_({parts.loop, parts.storage, parts.table, segments_}, parts.journal.dir().path(), host,
             {.span_bytes = parts.options.span_bytes(), .function_bytes = parts.options.function_bytes()},
             [this] { return hooks_.spans_wanted(); }) {}

// The other ranks of a job have the same problem, and processes that are no ranks may lack the module.
bool PythonReports::take_untraced(base::Pid pid, std::string_view json) {
  const auto function = model::untraced_from_message(json);
  if (!function) {
    return false;
  }
  if (parts_.table.find(pid) == nullptr) {
    hooks_.discover();
  }
  const TrackedProcess* p = parts_.table.find(pid);
  const bool is_rank = p != nullptr && p->record.role == model::ProcessRole::rank;
  if (is_rank && told_untraced_.size() < kMostUntraced &&
      told_untraced_.emplace(function->name, function->problem).second) {
    base::log_warn("rank {}: {}", p->record.rank, sentence_of(*function));
  }
  return true;
}

void PythonReports::received(base::Pid pid, std::string_view json) {
  if (take_untraced(pid, json)) {
    return;
  }
  auto exception = model::exception_from_message(json);
  std::vector<model::PythonException>& known = parts_.journal.manifest().exceptions;
  if (!exception || known.size() >= kMostExceptions) {
    base::log_debug("pid {} reports an exception that is not kept", pid);
    return;
  }
  if (parts_.table.find(pid) == nullptr) {
    hooks_.discover();
  }
  if (parts_.table.find(pid) == nullptr) {
    add_departed(pid, json, exception->code);
  }
  const TrackedProcess* p = parts_.table.find(pid);
  exception->pid = pid;
  exception->rank = p != nullptr ? p->record.rank : base::kNoRank;
  exception->at_s = parts_.journal.elapsed_s();
  if (known.size() >= kMostTracebacks) {
    model::drop_details(*exception);
  }
  base::log_info("pid {} (rank {}) reports {}: {}", pid, exception->rank, name_of(exception->kind),
                 model::headline(exception->chain.front()));
  known.push_back(std::move(*exception));
  parts_.journal.changed();
  hooks_.recorded(known.back());
}

// The rank was faster than the walks. Whether it exited with the code of the call was not seen, but the call
// was its last word.
void PythonReports::add_departed(base::Pid pid, std::string_view json, int code) {
  const auto identity = identity_from(model::identity_in_message(json));
  if (identity && parts_.table.add_departed(pid, *identity)) {
    hooks_.ended(pid, code >= 0 ? base::WaitStatus(code << 8) : base::WaitStatus());
  }
}

void PythonReports::attach(base::Pid pid, const std::function<void(int)>& answer) {
  spans_.before_attach(pid);
  const auto descriptor = segments_.attach(pid);
  if (!descriptor) {
    base::log_warn("the calls and spans of pid {} are not seen: {}", pid, base::to_line(descriptor.error()));
  }
  answer(descriptor ? *descriptor : -1);
  segments_.sent(pid);
  if (parts_.table.find(pid) == nullptr) {
    hooks_.discover();
  }
  spans_.attached();
}

void PythonReports::add_calls(model::CollectiveFacts& facts) const {
  for (const base::Pid pid : segments_.pids()) {
    const TrackedProcess* p = parts_.table.find(pid);
    if (p != nullptr && p->record.role == model::ProcessRole::rank) {
      segments_.add_to(facts, pid, p->record.rank, base::mono_ns());
    }
  }
}

}  // namespace xpurun::launcher
