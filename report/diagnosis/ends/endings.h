// How processes of the run ended, in order of time: deaths and the fatal signals that the preload reported
// before them, put together. The first ending that is nobody's consequence is the root cause of a crash.
#pragma once

#include "common/model/run_manifest.h"

#include <string>
#include <vector>

namespace xpurun::report {

struct Ending {
  const model::ProcessRecord* process = nullptr;
  const model::CrashNotice* notice = nullptr;  // null if none was sent
  double at_s = 0;     // of the notice if there is one: a crashed rank is held for its dump
  bool dead = false;   // false: notice only, the process still exists
  bool known = false;  // signal or exit_code is known
  int signal = 0;      // 0: it exited
  int exit_code = -1;
  bool follower = false;  // explained by an earlier event
  // What its Python said last: the exception that ended the main thread, else the call that gave the exit
  // code.
  const model::PythonException* exception = nullptr;
  std::string cause;     // what explains it, or who sent the signal; may be empty
  bool in_wait = false;  // the exception came out of a call that waits for other ranks
  bool silent = false;   // a death without a word that was put before the exceptions that it may have caused

  bool raised() const { return exception != nullptr && exception->kind == model::ExceptionKind::raised; }
  bool failed() const { return !known || signal != 0 || exit_code != 0; }
};

// How far the clocks of the nodes of two endings agree, in seconds; 0 on one node.
double order_uncertainty_s(const model::RunManifest& run, const Ending& a, const Ending& b);

// Endings of every recorded process, earliest first. Followers are marked.
std::vector<Ending> endings_of(const model::RunManifest& run);

// "SIGSEGV"; "signal 99" for one without a name.
std::string signal_name(int signal);

// "raised KeyError: 'label' at data.py:21 (in collate)", "died of SIGSEGV", "was killed by SIGKILL", "exited
// with status 1", "ended, its status is unknown"; of several processes "were killed by SIGKILL".
std::string how_it_ended(const Ending& e, size_t processes = 1);

bool is_launcher(const model::ProcessRecord& p, const model::RunManifest& run);

}  // namespace xpurun::report
