#include "launcher/supervise/python_reports.h"

#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "common/model/secrets/redact.h"
#include "launcher/options/values/traced_functions.h"
#include "launcher/supervise/command_start.h"
#include "launcher/watch/kernel_wait.h"
#include "report/diagnosis/ends/exceptions.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace xpurun::launcher {

PythonReports::PythonReports(Parts parts, const std::string& host, Hooks hooks)
    : parts_(parts),
      hooks_(std::move(hooks)),
      spans_({parts.loop, parts.storage, parts.table, segments_, parts.mpi, parts.places},
             parts.journal.dir().path(), host,
             {.span_bytes = parts.options.span_bytes(), .function_bytes = parts.options.function_bytes()},
             [this] { return hooks_.spans_wanted(); }),
      looks_({parts.loop, parts.table, parts.storage, segments_}, parts.journal.dir().path(), host,
             [this] { return parts_.journal.elapsed_s(); }),
      names_(traced_at_start(parts.options)),
      exceptions_(parts.journal.manifest().exceptions) {}

// A walk that sees a process between fork and exec takes it for a worker of its parent, so a second walk is
// needed.
void PythonReports::discover(base::Pid pid) {
  const TrackedProcess* p = parts_.table.find(pid);
  if (p == nullptr || p->record.role != model::ProcessRole::rank) {
    hooks_.look_at(pid);
  }
}

// Warned about once and for ranks only: the other ranks have the same problem, and other processes may lack
// the module.
bool PythonReports::take_untraced(base::Pid pid, std::string_view json) {
  const auto function = model::untraced_from_message(json);
  if (!function) {
    return false;
  }
  discover(pid);
  const TrackedProcess* p = parts_.table.find(pid);
  const bool is_rank = p != nullptr && p->record.role == model::ProcessRole::rank;
  if (is_rank && names_.note(*function)) {
    base::log_warn("rank {}: {}", p->record.rank, sentence_of(*function));
  }
  return true;
}

bool PythonReports::take_look(base::Pid pid, std::string_view json) {
  if (!model::is_memory_look(json)) {
    return false;
  }
  discover(pid);
  looks_.received(pid, json);
  return true;
}

// Of a process that the sender had started with multiprocessing.
bool PythonReports::take_helper_death(base::Pid parent, std::string_view json) {
  auto death = model::helper_death_from_message(json);
  if (!death) {
    return false;
  }
  constexpr size_t kMost = 200;  // the latest ones
  discover(parent);
  const TrackedProcess* p = parts_.table.find(parent);
  death->parent = parent;
  death->rank = p != nullptr ? p->record.rank : base::kNoRank;
  death->at_s = parts_.journal.elapsed_s();
  auto& known = parts_.journal.manifest().helper_deaths;
  const auto told = std::find_if(known.begin(), known.end(), [&](const model::HelperDeath& h) {
    return h.pid == death->pid && h.parent == parent && h.status == death->status;
  });
  if (told != known.end()) {  // what is lost with it is known later
    told->lost = std::move(death->lost);
    told->items = death->items;
    parts_.journal.changed();
    return true;
  }
  if (known.size() >= kMost) {
    known.erase(known.begin());
  }
  known.push_back(std::move(*death));
  parts_.journal.changed();
  return true;
}

void PythonReports::received(base::Pid pid, std::string_view json) {
  if (take_look(pid, json) || take_untraced(pid, json) || take_helper_death(pid, json)) {
    return;
  }
  auto exception = model::exception_from_message(json);
  if (!exception || !exceptions_.wants(exception->kind, pid)) {
    if (std::exchange(unkept_, pid) != pid) {
      base::log_debug("pid {} reports an exception that is not kept; further ones are not logged", pid);
    }
    return;
  }
  discover(pid);
  // A process that a rank had started may be gone, too. It has inherited the rank's variables; one with other
  // variables is a rank that a launcher has started.
  const TrackedProcess* parent = parts_.table.find(model::parent_in_message(json));
  const auto identity = identity_from(model::identity_in_message(json));
  const bool inherited =
      parent != nullptr && (!identity || (parent->identity && parent->identity->rank == identity->rank));
  // A process that counts as the only rank may yet prove to be a launcher.
  const bool of_rank = inherited && (parent->record.role == model::ProcessRole::worker ||
                                     (parent->record.role == model::ProcessRole::rank &&
                                      parent->record.identity != model::RankSource::single));
  if (parts_.table.find(pid) == nullptr && !of_rank) {
    add_departed(pid, json, exception->code);
  }
  const TrackedProcess* p = parts_.table.find(pid);
  exception->pid = pid;
  exception->rank = p != nullptr ? p->record.rank : of_rank ? parent->record.rank : base::kNoRank;
  exception->at_s = parts_.journal.elapsed_s();
  base::log_info("pid {} (rank {}) reports {}: {}", pid, exception->rank, name_of(exception->kind),
                 model::headline(exception->chain.front()));
  note_worker_failure(*exception);
  find_port_holder(exception->chain.front(), pid);
  exceptions_.add(std::move(*exception));
  parts_.journal.changed();
  if (!model::is_swallowed(parts_.journal.manifest().exceptions.back().kind)) {
    hooks_.recorded(parts_.journal.manifest().exceptions.back());
  }
}

// Once for each port: the search reads the descriptors of all processes.
void PythonReports::find_port_holder(model::ExceptionLink& link, base::Pid pid) {
  constexpr size_t kMostPorts = 16;
  constexpr size_t kMostColumns = 40;
  const int port = model::port_in_use(link);
  if (port == 0 || port_holders_.size() >= kMostPorts) {
    return;
  }
  const auto [at, is_new] = port_holders_.try_emplace(port);
  if (is_new) {
    const base::ProcFs proc;
    const base::Pid holder = listener_of(proc, pid, port);
    std::vector<std::string> command = model::redact_argv(proc.cmdline(holder));
    if (!command.empty()) {
      command.front() = base::base_name(command.front());
    }
    at->second = {.port = port,
                  .pid = holder,
                  .command = base::elide_middle(base::sanitize(base::join(command, " ")), kMostColumns)};
  }
  link.port_holder = at->second;
}

// A pool starts a new process for each that ends, without end if all raise, and the rank waits.
void PythonReports::note_worker_failure(const model::PythonException& exception) {
  constexpr int kMany = 20;
  const TrackedProcess* p = parts_.table.find(exception.pid);
  const bool raised = exception.kind == model::ExceptionKind::raised;
  if (!raised || p == nullptr || p->record.role != model::ProcessRole::worker) {
    return;
  }
  hooks_.worker_failed(exception.rank);
  if (++worker_failures_[exception.rank] == kMany) {
    base::log_warn("{} processes of rank {} have ended by an exception, one after the other: the last one {}",
                   kMany, exception.rank, report::raised_words(exception));
  }
}

// The rank ended before any walk found it. Its exit was not seen, but the reported call was its last action,
// so the code of the call counts.
void PythonReports::add_departed(base::Pid pid, std::string_view json, int code) {
  const auto identity = identity_from(model::identity_in_message(json));
  if (identity ? parts_.table.add_departed(pid, *identity) : parts_.table.add_unreaped(pid)) {
    hooks_.ended(pid, code >= 0 ? base::WaitStatus(code << 8) : base::WaitStatus());
  }
}

void PythonReports::attach(base::Pid pid, SpanWriter writer, const std::function<void(int)>& answer) {
  spans_.before_attach(pid);
  const auto descriptor = segments_.attach(pid, writer);
  if (!descriptor) {
    base::log_warn("the calls and spans of pid {} are not seen: {}", pid, base::to_line(descriptor.error()));
  }
  // Before the answer: a process that ends a millisecond later must already be known as a rank.
  discover(pid);
  answer(descriptor ? *descriptor : -1);
  segments_.sent(pid);
  spans_.attached();
}

void PythonReports::attach_mpi(base::Pid pid, const std::function<void(int)>& answer) {
  spans_.before_attach(pid);
  parts_.places.attach(pid);
  // Before the answer: a process that ends a millisecond later must already be known as a rank.
  discover(pid);
  parts_.mpi.attach(pid, answer);
  spans_.attached();
}

base::Status PythonReports::change_traced(const std::vector<std::string>& add,
                                          const std::vector<std::string>& remove) {
  if (!parts_.options.python_hooks || !parts_.options.preload) {
    return base::fail("the job runs without xpurun's hooks in Python");
  }
  const auto normal = [](const std::vector<std::string>& names) -> base::Result<std::vector<std::string>> {
    XPURUN_TRY_ASSIGN(const std::string list, traced_functions(base::join(names, ",")));
    std::vector<std::string> out;
    for (const std::string_view name : base::split(list, ',')) {
      if (!name.empty()) {
        out.emplace_back(name);
      }
    }
    return out;
  };
  XPURUN_TRY_ASSIGN(const auto added, normal(add));
  XPURUN_TRY_ASSIGN(const auto removed, normal(remove));
  TracedNames names = names_;
  XPURUN_TRY(names.remove(removed));
  XPURUN_TRY(names.add(added));
  XPURUN_TRY(
      segments_.trace_functions({.names = names.text(), .least_s = parts_.options.trace_python_min_s}));
  names_ = std::move(names);
  changed_ = true;
  return {};
}

TracedState PythonReports::traced() const {
  TracedState out{.functions = names_.functions(), .ranks = {}};
  for (const TrackedProcess* p : parts_.table.living()) {
    if (p->record.role != model::ProcessRole::rank || p->record.rank == base::kNoRank) {
      continue;
    }
    const base::Pid pid = p->record.pid;
    const FollowsList follows = !changed_ || segments_.follows_list(pid) ? FollowsList::yes
                                : segments_.find(pid).memory != nullptr  ? FollowsList::pending
                                                                         : FollowsList::no_spans;
    out.ranks.push_back({.rank = p->record.rank, .follows = follows});
  }
  return out;
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
