// xpurun selftest: puts faults into a small job, one at a time, and checks the verdicts.
#include "commands/commands.h"
#include "commands/selftest/trial_runner.h"
#include "commands/selftest/trial_text.h"
#include "common/base/clock.h"
#include "common/base/os/io.h"
#include "common/base/os/temporary_directory.h"
#include "common/base/strings.h"
#include "common/base/suggest.h"
#include "common/base/tr.h"
#include "common/model/json/json_text.h"
#include "launcher/options/exit_status.h"
#include "launcher/os/interrupt_cleanup.h"
#include "launcher/output/text_block.h"
#include "launcher/spawn/command_spawner.h"
#include "launcher/spawn/install_paths.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <thread>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

using Json = nlohmann::ordered_json;
using Chosen = std::vector<const Injection*>;

// NCCL's ranks take longer to meet, and their pauses are longer.
constexpr double kHangTimeoutS = 3;
constexpr double kGpuHangTimeoutS = 5;

int print_json(const Json& j) {
  return print(model::json_text(j, 2) + "\n");
}

std::vector<std::string> names_of(const std::vector<Injection>& all) {
  std::vector<std::string> out;
  for (const Injection& injection : all) {
    out.emplace_back(injection.name);
  }
  return out;
}

base::Result<Chosen> choose(const Settings& settings) {
  Chosen out;
  const Setting* names = settings.find("inject");
  if (names == nullptr) {
    for (const Injection& injection : injections()) {
      if (injection.slow == settings.has("slow")) {
        out.push_back(&injection);
      }
    }
    return out;
  }
  for (const std::string_view name : base::split(names->value, ',')) {
    const Injection* found = find_injection(name);
    if (found == nullptr) {
      const auto close = base::closest(name, names_of(injections()));
      return base::fail(base::Error{
          .what = base::cli_text("--inject: unknown injection '{}'{}", base::sanitize(name),
                                 close ? base::cli_text("; did you mean {}?", *close) : std::string()),
          .hint = "xpurun selftest --list"});
    }
    out.push_back(found);
  }
  return out;
}

// Where the files of the trials go: kept below the working directory, or removed at the end.
struct Scratch {
  base::TemporaryDirectory temporary;
  std::string path;
};

base::Result<Scratch> make_scratch(bool keep) {
  Scratch out;
  if (keep) {
    std::error_code error;
    const auto here = std::filesystem::current_path(error);
    out.path = fmt::format("{}/xpurun-selftest-{}", here.string(), base::utc_compact(base::wall_ns()));
    XPURUN_TRY(base::make_own_dir(out.path));
  } else {
    XPURUN_TRY_ASSIGN(out.temporary, base::TemporaryDirectory::create("xpurun-selftest"));
    out.path = out.temporary.path();
  }
  return out;
}

base::Result<TrialSettings> settings_of(const Invocation& call, const std::string& scratch) {
  TrialSettings out;
  out.device = call.words.settings.has("gpu") ? Device::gpu : Device::cpu;
  out.hang_timeout_s = out.device == Device::gpu ? kGpuHangTimeoutS : kHangTimeoutS;
  out.python = call.child.empty() ? std::vector<std::string>{"python3"} : call.child;
  XPURUN_TRY_ASSIGN(out.python[0], resolve_program(out.python[0]));
  XPURUN_TRY_ASSIGN(out.job, selftest_job());
  XPURUN_TRY_ASSIGN(out.places, load_places(out.job.substr(0, out.job.rfind('/'))));
  out.scratch = scratch;
  // The runner has its own way of ending early.
  const InterruptCleanup cleanup(scratch);
  XPURUN_TRY_ASSIGN(out.host, probe_host(out.python, out.job, scratch));
  return out;
}

class Selftest {
 public:
  Selftest(TrialSettings settings, bool json, bool keep)
      : settings_(std::move(settings)), json_(json), keep_(keep) {}

  base::Result<int> run(const Chosen& chosen) {
    if (!json_) {
      printed_ |= print(trial_heading(columns_));
    }
    Chosen possible;
    for (const Injection* injection : chosen) {
      const std::string reason = reason_to_skip(*injection, settings_.device, settings_.host);
      if (reason.empty()) {
        possible.push_back(injection);
      } else {
        report({.injection = injection, .outcome = TrialOutcome::skipped, .reason = reason});
      }
    }
    // Jobs on GPUs share them, and slow jobs must not slow each other: they are tried alone.
    const bool slow =
        std::any_of(possible.begin(), possible.end(), [](const auto* one) { return one->slow; });
    const size_t at_a_time =
        slow || settings_.device == Device::gpu ? 1 : std::max(std::thread::hardware_concurrency(), 1U);
    XPURUN_TRY_ASSIGN(std::string program, own_program());
    XPURUN_TRY_ASSIGN(TrialRunner runner,
                      TrialRunner::create(settings_, {.at_a_time = at_a_time}, std::move(program)));
    XPURUN_TRY_ASSIGN(const int signal, runner.run(possible, [this](const Trial& trial) { report(trial); }));
    if (signal != 0) {
      return kExitSignalBase + signal;
    }
    finish();
    return all_right(trials_) && printed_ == 0 ? 0 : kExitFailure;
  }

 private:
  void report(Trial trial) {
    if (!keep_ && !trial.directory.empty()) {
      std::error_code error;
      std::filesystem::remove_all(trial.directory, error);
      trial.directory.clear();
    }
    if (!json_) {
      printed_ |= print(trial_text(trial, columns_, ink_));
    }
    trials_.push_back(std::move(trial));
  }

  void finish() {
    if (json_) {
      printed_ = print_json(to_json(trials_, settings_));
      return;
    }
    printed_ |= print(trial_summary(trials_, columns_, ink_));
    if (keep_) {
      printed_ |= print(fmt::format("kept: {}\n", settings_.scratch));
    }
  }

  TrialSettings settings_;
  bool json_;
  bool keep_;
  size_t columns_ = help_columns(STDOUT_FILENO);
  Ink ink_ = Ink::for_stream(STDOUT_FILENO);
  std::vector<Trial> trials_;
  int printed_ = 0;
};

}  // namespace

int selftest_command(const Invocation& call) {
  const bool json = call.words.settings.has("json");
  const bool keep = call.words.settings.has("keep");
  const auto chosen = choose(call.words.settings);
  if (!chosen) {
    return complain(chosen.error(), kExitUsage);
  }
  if (call.words.settings.has("list")) {
    return json ? print_json(list_json(*chosen)) : print(list_text(*chosen, help_columns(STDOUT_FILENO)));
  }
  const auto scratch = make_scratch(keep);
  if (!scratch) {
    return complain(scratch.error(), kExitFailure);
  }
  auto settings = settings_of(call, scratch->path);
  if (!settings) {
    return complain(settings.error(), kExitFailure);
  }
  const auto status = Selftest(std::move(*settings), json, keep).run(*chosen);
  return status ? *status : complain(status.error(), kExitFailure);
}

}  // namespace xpurun::launcher
