// Supervisor: what comes from outside while the job runs: signals and requests.
#include "common/base/output/log.h"
#include "common/base/strings.h"
#include "launcher/collect/op_names.h"
#include "launcher/supervise/supervisor.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <signal.h>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

std::optional<wire::Level> timing_level(std::string_view name) {
  for (const wire::Level level : {wire::Level::off, wire::Level::light, wire::Level::full}) {
    if (level_name(level) == name) {
      return level;
    }
  }
  return std::nullopt;
}

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void Supervisor::signal_received(const ReceivedSignal& signal) {
  if (signal.number == SIGCHLD) {
    reap();
    return;
  }
  if (signal.number == SIGTSTP) {
    stop_with_the_job();
    return;
  }
  if (signal.number == options_.dump_signal) {
    wish_dump({.why = model::DumpReason::signal});
    return;
  }
  if (signal.number == SIGINT || signal.number == SIGTERM || signal.number == SIGHUP) {
    interrupt(signal);
    return;
  }
  // The terminal's SIGQUIT has reached the command already; what a process sent to us is meant for it.
  if (signal.code != SI_KERNEL && !main_reaped_) {
    table_.signal_main(signal.number);
  }
}

// First: to the command once, which decides. Second interrupt within the grace time: kill.
void Supervisor::interrupt(const ReceivedSignal& signal) {
  const bool from_terminal = signal.code == SI_KERNEL;
  if (from_terminal && signal.number == SIGHUP && is_ignored(SIGHUP)) {
    return;  // nohup
  }
  if (finishing_ && relay_ && !relay_finished_) {
    // The reader of our streams has stopped reading, and somebody wants us to end.
    relay_->give_up();
    return;
  }
  const base::MonoNs now = base::mono_ns();
  const bool again = last_interrupt_ != 0 && now - last_interrupt_ < base::s_to_ns(options_.grace_s);
  last_interrupt_ = now;
  if (again && signal.number == SIGINT) {
    say("interrupted again: killing the job's processes");
    ledger_.we_are_ending_the_job();
    shutdown_.kill_now();
    return;
  }
  ledger_.signal_was_forwarded(signal.number);
  if (signal.number == SIGHUP && from_terminal) {
    if (::getsid(0) == ::getpid()) {
      hung_up_ = true;
      // The kernel tells the leader of the session alone (tty_signal_session_leader); without us that is the
      // command.
      base::log_info("the terminal was hung up: forwarding SIGHUP");
      table_.signal_main(SIGHUP);
      table_.signal_main(SIGCONT);
    }
    return;
  }
  if (!from_terminal && !main_reaped_) {
    base::log_info("forwarding {} from pid {}", signal_name(signal.number), signal.sender);
    table_.signal_main(signal.number);
  }
  if (from_terminal && table_.multi_process() && options_.verbosity >= 0) {
    say("interrupted; waiting for the job to end (Ctrl-C again kills it)");
  }
}

void Supervisor::control(const nlohmann::json& request, ControlServer::Reply reply) {
  const auto cmd = request["cmd"].get<std::string>();
  if (cmd == "dump") {
    if (finishing_ || shutdown_.active()) {
      reply({{"ok", false}, {"code", "ending"}, {"error", "the job is ending"}});
      return;
    }
    wish_dump({.why = model::DumpReason::request, .replies = {std::move(reply)}});
    return;
  }
  if (cmd == "status") {
    nlohmann::ordered_json answer{{"ok", true}};
    answer.update(to_json(live_status()));
    reply(answer);
    return;
  }
  if (cmd == "timing") {
    const auto level = request.find("level");
    const std::string name = level != request.end() && level->is_string() ? level->get<std::string>() : "";
    const auto known = timing_level(name);
    if (!known) {
      reply({{"ok", false}, {"code", "bad_request"}, {"error", "\"level\" must be off, light or full"}});
      return;
    }
    set_level(*known);
    reply({{"ok", true}, {"level", name}});
    return;
  }
  if (cmd == "trace" || cmd == "DumpKernelTrace") {
    if (finishing_) {
      reply({{"ok", false}, {"code", "ending"}, {"error", "the job is ending"}});
    } else if (cmd == "trace") {
      control_trace(request, reply);
    } else {
      control_kernel_trace(request, reply);
    }
    return;
  }
  if (cmd == "reset") {
    end_trace("reset");
    set_level(static_cast<wire::Level>(options_.timing));
    reply({{"ok", true}, {"level", level_name(level_)}});
    return;
  }
  reply({{"ok", false},
         {"code", "bad_request"},
         {"error", fmt::format("unknown request '{}'; there are status, timing, dump, trace and reset",
                               base::sanitize(cmd))}});
}

}  // namespace xpurun::launcher
