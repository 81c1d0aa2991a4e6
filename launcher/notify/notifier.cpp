#include "launcher/notify/notifier.h"

#include "common/base/strings.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

namespace xpurun::launcher {

namespace {

constexpr const char* kPluginVariable = "XPU_TIMER_EXIT_HOOK_PLUGIN";
// Time between the programs' limit and the end of the run without them.
constexpr double kAfterTheLimitS = 0.5;

}  // namespace

Notifier::Notifier(Parts parts, LimitedProgram::Setup setup, std::string directory)
    : parts_(parts),
      setup_(std::move(setup)),
      directory_(std::move(directory)),
      commands_({parts.loop, parts.journal}, setup_, parts.options.on_event, parts.options.event_limit_s),
      events_({parts.loop, parts.table, parts.ledger, parts.journal, parts.options}, directory_,
              [this](const model::JobEvent& event) {
                if (!parts_.options.on_event.empty()) {
                  commands_.report(event);
                }
              }),
      plugins_(parts.journal) {
  commands_.on_idle([this] { end_if_idle(); });
}

bool Notifier::failed() const {
  const model::RunManifest& run = parts_.journal.manifest();
  return run.outcome != model::RunOutcome::exit || !run.child_status.succeeded();
}

void Notifier::end(std::function<void()> done) {
  done_ = std::move(done);
  events_.ended();
  if (failed()) {
    plugins_.start(setup_, plugin_files(parts_.options.plugins, std::getenv(kPluginVariable)), directory_,
                   parts_.options.event_limit_s, [this] { end_if_idle(); });
  }
  if (busy()) {
    deadline_.after(parts_.options.event_limit_s + kAfterTheLimitS,
                    [this] { give_up("the time limit at the end of the run came first"); });
  }
  end_if_idle();
}

void Notifier::give_up(const std::string& why) {
  commands_.give_up(why);
  plugins_.give_up(why);
}

void Notifier::end_if_idle() {
  if (done_ != nullptr && !busy()) {
    deadline_.stop();
    say_results();
    const auto done = std::exchange(done_, nullptr);
    done();
  }
}

bool Notifier::helper_ended(base::Pid pid, base::WaitStatus status) {
  return commands_.helper_ended(pid, status) || plugins_.helper_ended(pid, status);
}

void Notifier::say_results() const {
  const model::RunManifest& run = parts_.journal.manifest();
  if (run.event_commands.empty() && run.plugins.empty()) {
    return;
  }
  parts_.journal.save_now();
  for (const model::PluginResult& result : run.plugins) {
    if (!result.text.empty() && parts_.options.verbosity >= 0) {
      parts_.messages.say(fmt::format(
          "plug-in {}: {}{}", base::sanitize(base::base_name(result.file)),
          result.status == model::ProgramStatus::ok ? "" : "failed: ", base::sanitize(result.text)));
    }
  }
}

}  // namespace xpurun::launcher
