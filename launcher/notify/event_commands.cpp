#include "launcher/notify/event_commands.h"

#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "common/model/documents/document_text.h"
#include "templates/templates.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace xpurun::launcher {

namespace {

constexpr size_t kMostRunning = 4;
constexpr size_t kMostWaiting = 16;
// run.json keeps the newest commands: a job may stall and recover for weeks.
constexpr size_t kMostRecorded = 1000;
// Receivers that templates/notify_driver.py knows.
constexpr std::array<std::string_view, 8> kReceivers = {"slack",   "feishu",        "dingtalk", "pagerduty",
                                                        "webhook", "opentelemetry", "mlflow",   "wandb"};

// Of a receiver's name, or of a command line.
std::vector<std::string> argv_of(const std::string& command) {
  const bool named = std::find(kReceivers.begin(), kReceivers.end(), command) != kReceivers.end();
  return named ? std::vector<std::string>{"python3", "-c", std::string(templates::kNotifyDriverPy), command}
               : std::vector<std::string>{"/bin/sh", "-c", command};
}

}  // namespace

void EventCommands::report(const model::JobEvent& event) {
  if (running_.size() < kMostRunning || event.event == model::JobEventKind::end) {
    start(event);
  } else if (waiting_.size() < kMostWaiting) {
    waiting_.push_back(event);
  } else {
    record({.event = event.event,
            .at_s = event.at_s,
            .status = model::ProgramStatus::not_run,
            .reason = "too many commands of earlier events still run"});
  }
}

void EventCommands::start(const model::JobEvent& event) {
  Run& run = running_.emplace_back(setup_, event);
  const std::string input = model::document_text(event, 1);
  run.program.start(argv_of(command_), input + "\n", limit_s_,
                    {.line =
                         [kind = run.kind](std::string_view line) {
                           base::log_info("--on-event ({}): {}", name_of(kind), base::sanitize(line));
                         },
                     .done =
                         [this, &run](const ProgramEnd& end) {
                           run.ended = true;
                           record({.event = run.kind,
                                   .at_s = run.at_s,
                                   .seconds = end.seconds,
                                   .status = end.status,
                                   .reason = end.reason});
                           sweep_later();
                         }});
}

// Logged at level info: a command that fails must not write into the job's output.
void EventCommands::record(const model::EventCommand& what) {
  base::log_info("--on-event ({}): {}{}{}", name_of(what.event), name_of(what.status),
                 what.reason.empty() ? "" : ": ", what.reason);
  auto& recorded = parts_.journal.manifest().event_commands;
  if (recorded.size() >= kMostRecorded) {
    recorded.erase(recorded.begin());
  }
  recorded.push_back(what);
  parts_.journal.changed();
}

void EventCommands::sweep_later() {
  sweep_.after(0, [this] {
    running_.remove_if([](const Run& run) { return run.ended; });
    while (!waiting_.empty() && running_.size() < kMostRunning) {
      const model::JobEvent next = std::move(waiting_.front());
      waiting_.pop_front();
      start(next);
    }
    if (!busy() && idle_) {
      idle_();
    }
  });
}

void EventCommands::give_up(const std::string& why) {
  for (const model::JobEvent& event : std::exchange(waiting_, {})) {
    record(
        {.event = event.event, .at_s = event.at_s, .status = model::ProgramStatus::not_run, .reason = why});
  }
  for (Run& run : running_) {
    run.program.give_up(why);
  }
}

bool EventCommands::helper_ended(base::Pid pid, base::WaitStatus status) {
  return std::any_of(running_.begin(), running_.end(),
                     [&](Run& run) { return run.program.helper_ended(pid, status); });
}

}  // namespace xpurun::launcher
