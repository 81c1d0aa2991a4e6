// The ends of the run's processes in order of time: deaths, combined with the fatal signals that the preload
// library reported before them. The first ending that is no consequence of another is the root cause.
#pragma once

#include "common/model/run_manifest.h"

#include <memory>
#include <string>
#include <vector>

namespace xpurun::report {

struct Ending {
  const model::ProcessRecord* process = nullptr;
  const model::CrashNotice* notice = nullptr;  // null if none was sent
  double at_s = 0;     // the notice's time if there is one, because a crashed rank is held for its dump
  bool dead = false;   // false: only a notice came, the process still exists
  bool known = false;  // signal or exit_code is known
  int signal = 0;      // 0: it exited
  int exit_code = -1;
  bool follower = false;  // explained by an earlier event
  // Python's last message: the exception that ended the main thread, else the call that set the exit code.
  const model::PythonException* exception = nullptr;
  std::shared_ptr<const model::PythonException>
      caught;         // what `exception` is where a library made it an exit
  std::string cause;  // the earlier event that explains this one, or the sender of the signal; may be empty
  bool in_wait = false;    // the exception left a call that waits for other ranks
  bool by_itself = false;  // the process sent itself the signal, other than by abort()
  bool silent = false;  // a death without any message, sorted before the exceptions that it may have caused

  bool raised() const { return exception != nullptr && exception->kind == model::ExceptionKind::raised; }
  bool failed() const { return !known || signal != 0 || exit_code != 0; }
};

// How well the clocks of the two endings' nodes agree, in seconds; 0 on one node.
double order_uncertainty_s(const model::RunManifest& run, const Ending& a, const Ending& b);

// Endings of every recorded process, earliest first. Followers are marked.
std::vector<Ending> endings_of(const model::RunManifest& run);

// The time at which Python raised the exception, by the host's clock, so that times of all ranks are
// comparable: `at_s` is the time at which the message was read.
double reported_at(const model::PythonException& x, const model::RunManifest& run);

// "raised KeyError: 'label' at data.py:21 (in collate)", "died of SIGSEGV", "was killed by SIGKILL", "exited
// with status 1", "ended, its status is unknown"; of several processes "were killed by SIGKILL".
std::string how_it_ended(const Ending& e, size_t processes = 1);

// Of a rank that another rank's end has made fail: "lost the connection to another rank (RuntimeError)". The
// message names an address, which differs from rank to rank. Empty for any other end.
std::string lost_peer_words(const Ending& e);

// How often the launcher has started the ranks: 1 without a restart.
int attempts(const model::RunManifest& run);
// The first failure of each attempt but the last, in order. Points into `endings`.
std::vector<const Ending*> failures_before_restarts(const std::vector<Ending>& endings,
                                                    const model::RunManifest& run);

bool is_launcher(const model::ProcessRecord& p, const model::RunManifest& run);

}  // namespace xpurun::report
