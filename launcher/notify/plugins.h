// Plugins: runs the exit plug-ins (--plugin, XPU_TIMER_EXIT_HOOK_PLUGIN) after a run that failed. Each file
// gets a Python process of its own (templates/plugin_driver.py), which reads the run directory and calls the
// file's functions. Results and failures go into run.json and the log, no further. Event loop's thread only.
#pragma once

#include "launcher/journal/journal.h"
#include "launcher/notify/limited_program.h"

#include <list>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

// The files of the option, then those of the variable, without duplicates. Both are lists separated by
// commas.
std::vector<std::string> plugin_files(std::string_view option, const char* variable);

class Plugins {
 public:
  explicit Plugins(Journal& journal) : journal_(journal) {}
  Plugins(const Plugins&) = delete;
  Plugins& operator=(const Plugins&) = delete;

  // run.json and the dumps are on disk. `idle` is called once, later, when all plug-ins have ended.
  void start(const LimitedProgram::Setup& setup, const std::vector<std::string>& files,
             const std::string& run_dir, double limit_s, const std::function<void()>& idle);
  bool busy() const;
  void give_up(const std::string& why);
  // Call for every reaped child. Returns whether the pid was one of the processes.
  bool helper_ended(base::Pid pid, base::WaitStatus status);

 private:
  struct Run {
    Run(const LimitedProgram::Setup& setup, std::string path) : program(setup), file(std::move(path)) {}
    LimitedProgram program;
    std::string file;
  };

  void take_line(const Run& run, std::string_view line);
  void record(model::PluginResult result);

  Journal& journal_;
  std::list<Run> runs_;
};

}  // namespace xpurun::launcher
