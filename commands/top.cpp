// xpurun top: shows the ranks of a live run, polled from its supervisor.
#include "commands/child.h"
#include "commands/commands.h"
#include "commands/top_machine.h"
#include "common/base/clock.h"
#include "common/base/os/fd.h"
#include "common/base/os/io.h"
#include "common/base/output/terminal.h"
#include "common/base/strings.h"
#include "common/base/tr.h"
#include "common/model/run_dir.h"
#include "common/model/run_manifest.h"
#include "launcher/control/control_client.h"
#include "launcher/options/exit_status.h"
#include "launcher/options/run_settings.h"
#include "launcher/output/live_status.h"
#include "launcher/output/screen.h"
#include "launcher/output/text_block.h"
#include "report/diagnosis/diagnose.h"
#include "report/run/next_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>
#include <unistd.h>

namespace xpurun::launcher {

namespace {

// The node that knows all ranks may be another one, which is given ten seconds.
constexpr double kAnswerLimitS = 12;
constexpr double kTopDumpLimitS = 60;
constexpr size_t kWidest = 200;
constexpr auto kBetweenReadings = std::chrono::seconds(1);

using base::tr;

base::Result<LiveStatus> ask(const std::string& control) {
  XPURUN_TRY_ASSIGN(const std::string reply, ControlClient(control).status(kAnswerLimitS));
  return live_status_from_json(reply);
}

int ended(const model::RunDir& dir) {
  const auto run = model::load_run_manifest(dir.run_json());
  if (!run || run->outcome == model::RunOutcome::running) {
    return complain({.what = base::cli_text("the xpurun of this run no longer exists"),
                     .id = "E-CONTROL",
                     .hint = fmt::format("xpurun report {}", base::shell_quote(dir.path()))},
                    kExitFailure);
  }
  return print(tr("the run has ended: {}", base::sanitize(report::sentence_of(*run))) + "\n");
}

std::string_view order_word(TableOrder order) {
  switch (order) {
    case TableOrder::still:
      return base::later("no progress first");
    case TableOrder::cpu:
      return base::later("most CPU first");
    case TableOrder::fitting:
    case TableOrder::rank:
      break;
  }
  return base::later("by rank");
}

TableOrder next_order(TableOrder order) {
  return order == TableOrder::still ? TableOrder::cpu
         : order == TableOrder::cpu ? TableOrder::rank
                                    : TableOrder::still;
}

// What a dump on request has to say.
std::string dump_now(const model::RunDir& dir, const std::string& control) {
  const auto dumped = ControlClient(control).dump(kTopDumpLimitS);
  if (!dumped) {
    return tr("no dump: {}", base::to_line(dumped.error()));
  }
  std::error_code ec;
  const std::string here = std::filesystem::current_path(ec).string();
  return fmt::format("xpurun stacks {}",
                     base::shell_quote(report::typed_path(dir.path() + "/" + *dumped, here)));
}

// The stacks of all ranks now, as `xpurun stacks` prints them; of a screen full of frames, those of Python
// say most.
std::string stacks_now(const model::RunDir& dir, const std::string& control) {
  const auto dumped = ControlClient(control).dump(kTopDumpLimitS);
  if (!dumped) {
    return tr("no dump: {}", base::to_line(dumped.error()));
  }
  const auto in_view = [path = dir.path() + "/" + *dumped](const char* view) {
    return run_program({"/proc/self/exe", "stacks", "--format", "tree", "--view", view, path}, kAnswerLimitS)
        .output;
  };
  const std::string python = in_view("python");
  return python.find(".py:") != std::string::npos ? python : in_view("merged");
}

// As many lines as fit.
std::string fitted(const std::string& text, size_t columns, size_t rows) {
  std::string out;
  size_t used = 0;
  for (const std::string_view line : base::split(text, '\n')) {
    if (++used > rows) {
      break;
    }
    out += cut_end(base::sanitize(line), columns) + '\n';
  }
  return out;
}

// This host, until the user has seen enough or the run has ended.
int watch_machine(const model::RunDir& dir, double interval_s) {
  auto screen = Screen::open();
  if (!screen) {
    return complain(screen.error(), kExitFailure);
  }
  MachineView view(dir);
  while (view.read()) {
    screen->show(view.text(screen->columns(), std::max<size_t>(screen->rows(), 2) - 1) +
                 Ink::for_stream(STDOUT_FILENO).paint(Ink::Colour::faint, tr("q quit")));
    switch (screen->wait(interval_s)) {
      case Screen::Event::quit:
        return 0;
      case Screen::Event::signal:
        return kExitSignalBase + screen->signal();
      default:
        break;
    }
  }
  screen->close();
  return ended(dir);
}

// Two readings, because one has no rates.
int machine_once(const model::RunDir& dir, size_t columns) {
  MachineView view(dir);
  if (!view.read()) {
    return ended(dir);
  }
  std::this_thread::sleep_for(kBetweenReadings);
  return view.read() ? print(view.text(columns, 0)) : ended(dir);
}

int watch(const model::RunDir& dir, const std::string& control, double interval_s) {
  auto screen = Screen::open();
  if (!screen) {
    return complain(screen.error(), kExitFailure);
  }
  TableOrder order = TableOrder::fitting;
  std::string said;    // the answer to the last key
  std::string stacks;  // shown instead of the table, until the next key
  for (;;) {
    const auto status = ask(control);
    if (!status) {
      screen->close();
      return ended(dir);
    }
    const Ink ink = Ink::for_stream(STDOUT_FILENO);
    const auto show = [&] {
      const size_t columns = screen->columns();
      if (!stacks.empty()) {
        screen->show(fitted(stacks, columns, std::max<size_t>(screen->rows(), 2) - 1) +
                     ink.paint(Ink::Colour::faint, tr("any key: back")));
        return;
      }
      const size_t below = said.empty() ? 1 : 2;
      std::string text =
          live_table(*status, columns, std::max<size_t>(screen->rows(), below + 2) - below, ink, order);
      text += said.empty() ? "" : cut_end(base::sanitize(said), columns) + '\n';
      const std::string keys = tr("q quit  s sort ({})  d dump now  Enter stacks", tr(order_word(order)));
      screen->show(text + ink.paint(Ink::Colour::faint, cut_end(keys, columns)));
    };
    show();
    switch (screen->wait(interval_s)) {
      case Screen::Event::time:
      case Screen::Event::redraw:
        break;
      case Screen::Event::key:
        if (!stacks.empty()) {
          stacks.clear();
        } else if (screen->key() == '\r' || screen->key() == '\n') {
          said = tr("taking the stacks of all ranks ...");
          show();
          stacks = stacks_now(dir, control);
          said.clear();
        } else if (screen->key() == 's') {
          order = next_order(order);
        } else if (screen->key() == 'd') {
          said = tr("taking the stacks of all ranks ...");
          show();
          said = dump_now(dir, control);
        }
        break;
      case Screen::Event::quit:
        return 0;
      case Screen::Event::signal:
        return kExitSignalBase + screen->signal();
    }
  }
}

}  // namespace

int top_command(const Invocation& call) {
  const auto& words = call.words.operands;
  if (words.size() > 1) {
    return complain_usage(
        call, base::cli_text("top takes one run directory; to run the program top: xpurun -- top ..."));
  }
  if (auto checked = check_language(call); !checked) {
    return complain_usage(call, checked.error().what);
  }
  const base::Speaking speaking(base::command_language());
  const Setting* interval = call.words.settings.find("interval");
  if (interval != nullptr) {
    if (auto checked = check_value(*find_option(top_options(), "interval"), interval->value); !checked) {
      return complain_usage(call, fmt::format("--interval: {}", checked.error().what));
    }
  }
  const auto dir = model::RunDir::find(words.empty() ? "latest" : words.front());
  if (!dir) {
    return complain(dir.error(), kExitFailure);
  }
  const auto run = model::load_run_manifest(dir->run_json());
  if (!run) {
    return complain(run.error(), kExitFailure);
  }
  if (run->outcome != model::RunOutcome::running) {
    return ended(*dir);
  }
  const bool machine = call.words.settings.has("machine");
  if (call.words.settings.has("once") || !base::is_terminal(STDOUT_FILENO) ||
      !base::is_terminal(STDIN_FILENO)) {
    const size_t columns = std::min(base::terminal_columns(STDOUT_FILENO), kWidest);
    if (machine) {
      return machine_once(*dir, columns);
    }
    const auto status = ask(run->control);
    return status ? print(live_table(*status, columns, 0, Ink::for_stream(STDOUT_FILENO)))
                  : complain(status.error(), kExitFailure);
  }
  const double seconds = interval != nullptr ? base::parse_duration_s(interval->value).value_or(1) : 1;
  return machine ? watch_machine(*dir, std::max(seconds, 0.1))
                 : watch(*dir, run->control, std::max(seconds, 0.1));
}

}  // namespace xpurun::launcher
