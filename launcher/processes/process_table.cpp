#include "launcher/processes/process_table.h"

#include "common/base/strings.h"
#include "common/model/secrets/redact.h"
#include "launcher/processes/error_stream.h"
#include "launcher/processes/late_launcher.h"

#include <algorithm>
#include <signal.h>

namespace xpurun::launcher {

using base::Pid;

namespace {

bool looks_like_python(const std::string& exe) {
  return base::base_name(exe).starts_with("python");
}

}  // namespace

ProcessTable::ProcessTable(Pid supervisor, base::MonoNs started, base::ProcFs proc)
    : proc_(std::move(proc)), supervisor_(supervisor), started_(started) {}

void ProcessTable::walk(Pid pid, std::vector<Pid>& found) const {
  for (Pid child : proc_.children(pid)) {
    if (ignored_.count(child) != 0 || std::find(found.begin(), found.end(), child) != found.end()) {
      continue;
    }
    found.push_back(child);
    walk(child, found);
  }
}

// The parents of a foreign job's orphans are unknown to xpurun, so the walk starts at every known process. A
// root that has ended is no start: its pid may belong to another program by now.
void ProcessTable::walk_foreign_job(std::vector<Pid>& found) const {
  const auto add = [&](Pid pid) {
    if (ignored_.count(pid) == 0 && std::find(found.begin(), found.end(), pid) == found.end()) {
      found.push_back(pid);
      walk(pid, found);
    }
  };
  for (const Pid root : roots_) {
    if (find(root) == nullptr) {
      add(root);
    }
  }
  for (const auto& [pid, p] : processes_) {
    if (const auto stat = proc_.stat(pid); p.alive && stat && stat->start_ticks == p.record.start_ticks) {
      add(pid);
    }
  }
}

bool ProcessTable::foreign_job_ended() const {
  const auto lives = [&](Pid root) { return find(root) != nullptr && find(root)->alive; };
  return is_foreign() && std::none_of(roots_.begin(), roots_.end(), lives) && living_ranks().empty();
}

void ProcessTable::inspect(TrackedProcess& p) {
  const Pid pid = p.record.pid;
  std::string exe = proc_.exe(pid);
  const std::vector<std::string> cmdline = proc_.cmdline(pid);
  const auto environment = proc_.environ(pid);
  // A process that is exiting has lost its memory map, perhaps between these reads. The known data stays.
  if (!p.exe.empty() && (exe.empty() || proc_.exe(pid).empty())) {
    return;
  }
  p.record.cmdline = model::redact_argv(cmdline);
  p.identity = identity_from(environment);
  p.identity = p.identity || !members_count_ ? p.identity : p.member;
  if (const auto file = environment.find("TORCHELASTIC_ERROR_FILE"); file != environment.end()) {
    p.record.error_file = file->second;
  }
  p.record.error_stream = error_stream_of(proc_, pid);
  // Between fork and exec a child looks like its parent.
  p.record.python = p.record.python && (p.exe.empty() || exe == p.exe);
  p.exe = std::move(exe);
  const std::string maps = proc_.text(pid, "maps");
  p.record.python =
      p.record.python || looks_like_python(p.exe) || maps.find("libpython") != std::string::npos;
  if (!maps.empty()) {
    p.record.preload = maps.find("libxpurun_preload.so") != std::string::npos;
  }
}

void ProcessTable::refresh() {
  std::vector<Pid> found;
  if (is_foreign()) {
    walk_foreign_job(found);
  } else {
    walk(supervisor_, found);
  }
  const base::MonoNs now = base::mono_ns();
  std::vector<Pid> newcomers;
  for (Pid pid : found) {
    const auto st = proc_.stat(pid);
    if (!st || st->state == 'Z' || st->state == 'X') {
      continue;
    }
    auto it = processes_.find(pid);
    // The same pid with another start time is another process: the pid was reused.
    if (it != processes_.end() && it->second.record.start_ticks != st->start_ticks) {
      it->second.alive = false;
      dead_.push_back(std::move(it->second));
      processes_.erase(it);
      it = processes_.end();
    }
    if (it == processes_.end()) {
      TrackedProcess p;
      p.record.pid = pid;
      p.record.start_ticks = st->start_ticks;
      p.record.role = model::ProcessRole::other;
      p.record.seen_s = base::ns_to_s(now - started_);
      p.seen = now;
      if (auto fd = Pidfd::open(pid)) {
        p.pidfd = std::move(*fd);
      }
      it = processes_.emplace(pid, std::move(p)).first;
      newcomers.push_back(pid);
    }
    TrackedProcess& p = it->second;
    // A fork is followed by exec within milliseconds, and by the loading of libraries.
    const bool young = now - p.seen < base::s_to_ns(3);
    // exec nearly always changes the thread name. A young process is inspected again until it has settled.
    const bool changed = p.record.comm != st->comm;
    p.record.ppid = st->ppid;
    p.record.comm = st->comm;
    if (changed || young || p.executed) {
      p.executed = false;
      inspect(p);
    }
  }
  assign_roles();
  for (Pid pid : newcomers) {
    if (on_found_) {
      on_found_(processes_.at(pid));
    }
  }
}

bool ProcessTable::descends_from(const TrackedProcess& p, Pid ancestor) const {
  Pid at = p.record.ppid;
  // Bounded: the table may hold stale parents, which could form a circle.
  for (int depth = 0; depth < 64 && at > 1 && at != supervisor_; ++depth) {
    if (at == ancestor) {
      return true;
    }
    const auto it = processes_.find(at);
    if (it == processes_.end()) {
      return false;
    }
    at = it->second.record.ppid;
  }
  return false;
}

void ProcessTable::assign_roles() {
  for (const auto& [pid, p] : processes_) {
    if (p.alive && p.identity && (!kind_ || p.identity->kind < *kind_)) {
      kind_ = p.identity->kind;
    }
  }
  if (!kind_) {
    assign_by_parents();
    return;
  }
  find_left_behind();
  // Of all processes with a rank's variables, the rank is the topmost Python process; without Python, the
  // topmost process.
  std::map<base::Rank, Pid> chosen;
  const auto better = [&](const TrackedProcess& a, const TrackedProcess& b) {
    if (a.record.python != b.record.python) {
      return a.record.python;
    }
    return descends_from(b, a.record.pid);
  };
  for (const auto& [pid, p] : processes_) {
    if (!p.alive || !p.identity || p.identity->kind != *kind_ || p.left_behind) {
      continue;
    }
    const auto it = chosen.find(p.identity->rank);
    if (it == chosen.end() || better(p, processes_.at(it->second))) {
      chosen[p.identity->rank] = pid;
    }
  }
  for (auto& [pid, p] : processes_) {
    if (!p.alive) {
      continue;
    }
    model::ProcessRecord& r = p.record;
    if (p.left_behind) {
      r.role = r.python ? model::ProcessRole::worker : model::ProcessRole::child;
      r.rank = p.identity->rank;
      r.local_rank = -1;
      continue;
    }
    const bool carries = p.identity && p.identity->kind == *kind_;
    if (carries && chosen.at(p.identity->rank) == pid) {
      r.role = model::ProcessRole::rank;
      r.rank = p.identity->rank;
      r.local_rank = p.identity->local_rank;
      r.identity = source_of(*kind_);
      continue;
    }
    r.rank = base::kNoRank;
    r.local_rank = -1;
    r.role = model::ProcessRole::other;
    for (const auto& [rank, rank_pid] : chosen) {
      if (descends_from(p, rank_pid)) {
        r.role = r.python ? model::ProcessRole::worker : model::ProcessRole::child;
        r.rank = rank;
      } else if (descends_from(processes_.at(rank_pid), pid)) {
        r.role = model::ProcessRole::agent;
        r.rank = base::kNoRank;
        break;
      }
    }
  }
}

bool ProcessTable::known_rank_before(const TrackedProcess& p) const {
  const auto is_it = [&](const TrackedProcess& other) {
    return other.record.role == model::ProcessRole::rank && other.identity == p.identity &&
           std::pair(other.record.start_ticks, other.record.pid) <
               std::pair(p.record.start_ticks, p.record.pid);
  };
  return std::any_of(dead_.begin(), dead_.end(), is_it) ||
         std::any_of(processes_.begin(), processes_.end(),
                     [&](const auto& entry) { return is_it(entry.second); });
}

// Finds orphans (now children of xpurun, the subreaper) with the variables of an earlier rank: helpers that
// an ended rank left behind. A restarted rank is a child of its launcher and so not an orphan. A process that
// has been a rank stays a rank when its launcher ends.
void ProcessTable::find_left_behind() {
  for (auto& [pid, p] : processes_) {
    const bool orphan = p.record.ppid == supervisor_ && pid != main_;
    if (p.alive && p.identity && orphan && p.record.role != model::ProcessRole::rank &&
        known_rank_before(p)) {
      p.left_behind = true;
    }
  }
}

const TrackedProcess* ProcessTable::topmost_python() const {
  const TrackedProcess* chosen = nullptr;
  for (const auto& [pid, p] : processes_) {
    if (p.alive && p.record.python && (chosen == nullptr || descends_from(*chosen, pid))) {
      chosen = &p;
    }
  }
  return chosen;
}

void ProcessTable::signal_main(int signal) const {
  const TrackedProcess* command = find(main_);
  if (command != nullptr && command->pidfd) {
    (void)command->pidfd.send_signal(signal);
  } else if (main_ > 0 && (command == nullptr || command->alive)) {
    (void)::kill(main_, signal);
  }
}

void ProcessTable::mark_dead(Pid pid) {
  const auto it = processes_.find(pid);
  if (it == processes_.end()) {
    return;
  }
  it->second.alive = false;
  // A launcher counts as the rank until it has started one.
  if (it->second.record.role != model::ProcessRole::rank || becomes_launcher(it->second.record)) {
    return;
  }
  // A process that a dead rank has started does not become the rank, even with the same variables.
  for (auto& [below, p] : processes_) {
    if (p.alive && p.identity && p.identity == it->second.identity && descends_from(p, pid)) {
      p.left_behind = true;
    }
  }
}

void ProcessTable::note_error_stream(Pid pid) {
  TrackedProcess* p = find(pid);
  if (p == nullptr) {
    return;
  }
  model::ErrorStream& stream = p->record.error_stream;
  if (p->alive) {
    if (model::ErrorStream now = error_stream_of(proc_, pid); !now.empty()) {
      stream = std::move(now);
      stream.end = stream.kind == model::StreamKind::file ? error_position_of(proc_, pid) : -1;
    }
    return;
  }
  int64_t end = -1;
  for (const auto& [other, q] : processes_) {
    if (q.alive && stream.kind == model::StreamKind::file && q.record.error_stream.path == stream.path) {
      end = std::max(end, error_position_of(proc_, other));
    }
  }
  // No remaining process can write after it, so the rest of the file belongs to the process. A position that
  // the process itself has reported is more accurate.
  stream.end = end < 0 || stream.end < 0 ? end : stream.end;
}

bool ProcessTable::add_departed(Pid pid, const Identity& identity) {
  const auto now = proc_.stat(pid);
  if (find(pid) != nullptr || (now && now->state != 'Z' && now->state != 'X')) {
    return false;
  }
  // A short-lived program that a rank runs has the rank's variables too.
  const auto is_it = [&](const auto& entry) {
    const TrackedProcess& p = entry.second;
    return p.alive && p.record.role == model::ProcessRole::rank && p.record.rank == identity.rank;
  };
  if (std::any_of(processes_.begin(), processes_.end(), is_it)) {
    return false;
  }
  TrackedProcess p;
  p.seen = base::mono_ns();
  p.identity = identity;
  p.record = {.pid = pid,
              .role = model::ProcessRole::rank,
              .rank = identity.rank,
              .local_rank = identity.local_rank,
              .identity = source_of(identity.kind),
              .python = true,
              .preload = true,
              .seen_s = base::ns_to_s(p.seen - started_)};
  // The process that was taken for the only rank is its launcher.
  for (auto& [known, other] : processes_) {
    if (!kind_ && other.record.identity == model::RankSource::single) {
      other.record.role = model::ProcessRole::agent;
      other.record.rank = base::kNoRank;
      other.record.local_rank = -1;
      other.record.identity = model::RankSource::none;
    }
  }
  if (!kind_ || identity.kind < *kind_) {
    kind_ = identity.kind;
  }
  processes_.emplace(pid, std::move(p));
  return true;
}

void ProcessTable::note_exec(Pid pid) {
  if (TrackedProcess* p = find(pid)) {
    p->executed = true;
  }
}

void ProcessTable::note_python(Pid pid) {
  const auto it = processes_.find(pid);
  if (it != processes_.end()) {
    it->second.record.python = true;
    // Only the library reports this. /proc may have been read before the library was loaded.
    it->second.record.preload = true;
  }
}

TrackedProcess* ProcessTable::find(Pid pid) {
  const auto it = processes_.find(pid);
  return it == processes_.end() ? nullptr : &it->second;
}

const TrackedProcess* ProcessTable::find(Pid pid) const {
  const auto it = processes_.find(pid);
  return it == processes_.end() ? nullptr : &it->second;
}

std::vector<const TrackedProcess*> ProcessTable::living() const {
  std::vector<const TrackedProcess*> out;
  for (const auto& [pid, p] : processes_) {
    if (p.alive) {
      out.push_back(&p);
    }
  }
  return out;
}

std::vector<Descendant> ProcessTable::descendants_of(Pid pid) const {
  const TrackedProcess* above = find(pid);
  std::vector<Descendant> out;
  for (const auto& [below, p] : processes_) {
    if (!p.alive || above == nullptr || !descends_from(p, pid)) {
      continue;
    }
    // A forked process keeps the program's arguments; the other two start methods have arguments of their
    // own.
    const auto& words = p.record.cmdline;
    const bool forked = words == above->record.cmdline ||
                        std::find(words.begin(), words.end(), "--multiprocessing-fork") != words.end() ||
                        multiprocessing_part(words) == MultiprocessingPart::fork_server;
    out.push_back({.pid = below,
                   .parent = p.record.ppid,
                   .python = p.record.python,
                   .forked = p.record.python && forked,
                   .name = p.record.comm});
  }
  return out;
}

std::vector<const TrackedProcess*> ProcessTable::living_ranks() const {
  std::vector<const TrackedProcess*> out;
  for (const auto& [pid, p] : processes_) {
    if (p.alive && p.record.role == model::ProcessRole::rank) {
      out.push_back(&p);
    }
  }
  std::sort(out.begin(), out.end(),
            [](const auto* a, const auto* b) { return a->record.rank < b->record.rank; });
  return out;
}

std::vector<const TrackedProcess*> ProcessTable::dead_ranks() const {
  std::vector<const TrackedProcess*> out;
  for (const auto& [pid, p] : processes_) {
    if (!p.alive && p.record.role == model::ProcessRole::rank) {
      out.push_back(&p);
    }
  }
  return out;
}

bool ProcessTable::replaced(Pid pid) const {
  const TrackedProcess* old = find(pid);
  return old != nullptr && !old->alive &&
         std::any_of(processes_.begin(), processes_.end(), [&](const auto& e) {
           const TrackedProcess& p = e.second;
           return p.record.role == model::ProcessRole::rank && p.record.rank == old->record.rank &&
                  p.seen > old->seen;
         });
}

std::vector<model::ProcessRecord> ProcessTable::records() const {
  std::vector<model::ProcessRecord> out;
  const auto add = [&](const TrackedProcess& p) {
    const bool matters =
        p.record.role != model::ProcessRole::other && p.record.role != model::ProcessRole::child;
    if (matters || p.record.pid == main_) {
      out.push_back(p.record);
    }
  };
  for (const TrackedProcess& p : dead_) {
    add(p);
  }
  for (const auto& [pid, p] : processes_) {
    add(p);
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    // Ranks first, in order; then the others in order of discovery.
    const auto key = [](const model::ProcessRecord& r) {
      return std::tuple(r.role != model::ProcessRole::rank, r.role == model::ProcessRole::rank ? r.rank : 0,
                        r.seen_s, r.pid);
    };
    return key(a) < key(b);
  });
  return out;
}

int ProcessTable::world_size() const {
  int size = 0;
  for (const auto& [pid, p] : processes_) {
    if (p.record.role == model::ProcessRole::rank) {
      size = std::max({size, kind_ && p.identity ? p.identity->world_size : 0, p.record.rank + 1});
    }
  }
  return std::max(size, 1);
}

}  // namespace xpurun::launcher
