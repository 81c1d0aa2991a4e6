#include "common/base/os/system_call.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "report/diagnosis/holders.h"
#include "report/diagnosis/waits/code_place.h"
#include "report/diagnosis/waits/thread_waits.h"

#include <algorithm>

namespace xpurun::report {

using base::tr;
using model::HelperObservation;
using model::ThreadStack;

namespace {

constexpr size_t kMostPeers = 2;  // told of

std::string command_of(const Scene& scene, const std::string& host, base::Pid pid) {
  const auto& stacks = scene.facts.stacks;
  const auto dumped = std::find_if(stacks.begin(), stacks.end(), [&](const model::ProcessStacks& s) {
    return s.pid == pid && (s.host.empty() || s.host == host);
  });
  if (dumped != stacks.end()) {
    return dumped->comm;
  }
  const auto& known = scene.facts.run.processes;
  const auto record = std::find_if(known.rbegin(), known.rend(), [&](const auto& p) { return p.pid == pid; });
  return record != known.rend() ? record->comm : std::string();
}

// "pid 77 (less) and pid 78"; empty if nobody but `own` is known.
std::string peers_words(const Scene& scene, const RankView& v, const std::vector<base::Pid>& peers,
                        base::Pid own) {
  std::string out;
  size_t told = 0;
  for (const base::Pid pid : peers) {
    if (pid != own && told < kMostPeers) {
      out += (told++ == 0 ? "" : tr(" and ")) + process_words(scene, v, pid);
    }
  }
  return out;
}

bool sleeps(const std::string& syscall) {
  return base::kind_of_name(syscall) == base::CallKind::sleep;
}

bool reads(const std::string& syscall) {
  return base::kind_of_name(syscall) == base::CallKind::receive;
}

std::string lock_words(const Scene& scene, const RankView& v, const HelperObservation& program) {
  const std::string file = base::sanitize(base::base_name(program.lock.path));
  const std::string who = peers_words(scene, v, program.lock.pids, 0);
  return who.empty() ? tr(": it waits for the lock on {}", file)
                     : tr(": it waits for the lock on {} that {} holds", file, who);
}

}  // namespace

std::string process_words(const Scene& scene, const RankView& v, base::Pid pid) {
  if (pid == v.pid) {
    return tr("the rank itself");
  }
  const auto rank = std::find_if(scene.ranks.begin(), scene.ranks.end(), [&](const RankView& other) {
    return other.pid == pid && other.host == v.host;
  });
  if (rank != scene.ranks.end()) {
    return rank->where.empty() ? rank_words({rank->rank})
                               : tr("{} in {}", rank_words({rank->rank}), place(rank->where));
  }
  const std::string comm = base::sanitize(command_of(scene, v.host, pid));
  return comm.empty() ? tr("pid {}", pid) : tr("pid {} ({})", pid, comm);
}

std::string program_call_words(const Scene& scene, const RankView& v, const HelperObservation& h) {
  if (is_full(h.syscall, h.syscall_file, h.peers)) {
    const std::string who = peers_words(scene, v, h.peers, h.pid);
    return who.empty() ? tr(": it cannot write to a full pipe")
                       : tr(": it cannot write to a full pipe that {} has open and does not read", who);
  }
  if (!h.lock.pids.empty()) {
    return lock_words(scene, v, h);
  }
  if (sleeps(h.syscall)) {
    return tr(": it sleeps");
  }
  if (reads(h.syscall) && h.syscall_file.starts_with("pipe:") && !h.peers.empty()) {
    const std::string who = peers_words(scene, v, h.peers, h.pid);
    return who.empty() ? tr(": it reads from a pipe that no other process has open")
                       : tr(": it reads from a pipe that {} has open and does not write to", who);
  }
  if (!h.target.empty()) {
    return tr(": it waits in {} {}", h.syscall, base::sanitize(h.target));
  }
  return {};
}

std::string full_pipe_clause(const Scene& scene, const RankView& v) {
  if (v.state != RankState::stuck || v.cut_off() || v.thread == nullptr || !writes_to_full_pipe(*v.thread)) {
    return {};
  }
  const std::string who = peers_words(scene, v, v.thread->peers, v.pid);
  return who.empty()
             ? tr("; the pipe that it writes to is full")
             : tr("; the pipe that it writes to is full, and {}, which has the other end open, does not read",
                  who);
}

namespace {

bool is_address(const model::PolledFile& file) {
  return !file.path.starts_with('/');
}

// A lock file by its name.
bool names_a_lock(const model::PolledFile& file) {
  return base::base_name(file.path).find("lock") != std::string_view::npos;
}

// Whether the loop may go on because of the file. Work asks for files that exist, too.
bool may_keep(const model::PolledFile& file) {
  return is_address(file) || file.missing || file.taken || !file.lock.empty() || !file.pids.empty() ||
         names_a_lock(file);
}

// What keeps the loop going, if one is known: a file that is missing or in the way.
const model::PolledFile* polled_file(const RankView& v) {
  if (v.thread == nullptr || (v.state != RankState::stuck && v.state != RankState::busy)) {
    return nullptr;
  }
  const auto& all = v.thread->polls;
  const auto in_vain =
      std::find_if(all.begin(), all.end(), [](const model::PolledFile& f) { return f.missing || f.taken; });
  if (in_vain != all.end() || v.state == RankState::busy) {
    return in_vain != all.end() ? &*in_vain : nullptr;
  }
  const auto kept = std::find_if(all.begin(), all.end(), may_keep);
  return kept == all.end() ? nullptr : &*kept;
}

// ", which exists since before the job began; no process of its host has it open".
std::string existing_words(const Scene& scene, const RankView& v, const model::PolledFile& file) {
  const bool before = file.made_s > 0 && file.made_s < base::ns_to_s(scene.facts.run.started_wall_ns) - 1;
  const std::string exists = before ? tr(", which exists since before the job began") : tr(", which exists");
  const std::string who = peers_words(scene, v, file.pids, v.pid);
  return !who.empty()        ? tr("{}; {} has the file open", exists, who)
         : file.pids.empty() ? tr("{}; no process of this host has the file open", exists)
                             : exists;
}

const model::PolledFile* missing_file(const RankView& v) {
  const model::PolledFile* file = polled_file(v);
  return file != nullptr && file->missing && file->path.starts_with('/') ? file : nullptr;
}

// The numbers in a file's name: "flag.12.done" -> 12.
std::vector<base::Rank> numbers_in(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr size_t kMostDigits = 6;
  std::vector<base::Rank> out;
  for (size_t at = name.find_first_of(kDigits); at != std::string_view::npos;) {
    const size_t end = std::min(name.find_first_not_of(kDigits, at), name.size());
    if (end - at <= kMostDigits) {
      out.push_back(static_cast<base::Rank>(base::parse_int(name.substr(at, end - at)).value_or(-1)));
    }
    at = name.find_first_of(kDigits, end);
  }
  return out;
}

// The other rank whose number is in the name of the file that this one looks for; null unless it is one rank.
const RankView* maker_of(const Scene& scene, const RankView& v) {
  const model::PolledFile* file = missing_file(v);
  const auto numbers = numbers_in(file == nullptr ? "" : base::base_name(file->path));
  const RankView* found = nullptr;
  for (const RankView& other : scene.ranks) {
    if (std::find(numbers.begin(), numbers.end(), other.rank) != numbers.end()) {
      if (found != nullptr || other.rank == v.rank) {
        return nullptr;
      }
      found = &other;
    }
  }
  return found;
}

}  // namespace

std::string poll_clause(const Scene& scene, const RankView& v) {
  const model::PolledFile* file = polled_file(v);
  if (file == nullptr) {
    return {};
  }
  const std::string path = base::sanitize(file->path);
  if (is_address(*file)) {
    return file->missing ? tr("; it tries to connect to {} again and again, without success", path)
                         : tr("; it tries to connect to {} again and again", path);
  }
  if (!file->lock.empty()) {
    return tr("; it asks again and again for the lock on {}", path);
  }
  return file->missing ? tr("; it looks again and again for {}, which does not exist", path)
         : file->taken ? tr("; it tries again and again to make {}{}", path, existing_words(scene, v, *file))
                       : tr("; it asks again and again for {}{}", path, existing_words(scene, v, *file));
}

model::NextStep poll_advice(const RankView& v) {
  const model::PolledFile* file = polled_file(v);
  if (file == nullptr) {
    return {};
  }
  const std::string name = base::sanitize(is_address(*file) ? file->path : base::base_name(file->path));
  if (is_address(*file)) {
    return {.text = tr("see whether a server takes connections at {}, or give the loop a time limit", name)};
  }
  if (file->missing) {
    return {.text = tr("find out who should make {}, or give the loop a time limit", name)};
  }
  const bool left = (file->taken || names_a_lock(*file)) && file->pids.empty() && file->lock.empty();
  return left ? model::
                    NextStep{.text = tr(
                                 "remove {} if a program that has ended left it there; a lock of flock() or "
                                 "fcntl() ends with its process",
                                 name),
                             .command = "ls -l " + base::shell_quote(base::sanitize(file->path))}
              : model::NextStep{
                    .text =
                        tr("find out who should remove or change {}, or give the loop a time limit", name)};
}

std::string polled_name(const RankView& v) {
  const model::PolledFile* file = polled_file(v);
  return file == nullptr ? std::string() : base::sanitize(base::base_name(file->path));
}

std::string polls_words(const Views& views) {
  constexpr size_t kMostFiles = 3;
  std::string out;
  for (size_t i = 0; i < views.size(); ++i) {
    const model::PolledFile* file = missing_file(*views[i]);
    if (file == nullptr) {
      return {};
    }
    if (i < kMostFiles) {
      out += tr("{}{} for {}", i == 0 ? "" : tr(", "), rank_words({views[i]->rank}), polled_name(*views[i]));
    }
  }
  return out;
}

Views poll_circle(const Scene& scene) {
  for (const RankView& first : scene.ranks) {
    Views circle;
    const RankView* v = &first;
    while (v != nullptr && std::find(circle.begin(), circle.end(), v) == circle.end()) {
      circle.push_back(v);
      v = maker_of(scene, *v);
    }
    if (circle.size() > 1 && v == &first) {
      return circle;
    }
  }
  return {};
}

std::string lonely_pipe_clause(const RankView& v) {
  const ThreadStack* t = v.thread;
  const bool lonely = v.state == RankState::stuck && t != nullptr && t->state == 'S' && reads(t->syscall) &&
                      t->syscall_file.starts_with("pipe:") && t->peers == std::vector<base::Pid>{v.pid};
  return lonely ? tr("; no other process has the other end of this pipe open, so that nobody can write there")
                : std::string();
}

}  // namespace xpurun::report
