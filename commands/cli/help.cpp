#include "commands/cli/help.h"

#include "common/base/strings.h"
#include "common/base/tr.h"
#include "launcher/output/text_block.h"

#include <fmt/format.h>

namespace xpurun::launcher {

using base::tr;

namespace {

constexpr size_t kOptionColumn = 31;
constexpr size_t kCommandColumn = 16;
constexpr size_t kLongChoices = 30;

std::string option_help(const OptionSpec& o) {
  std::string out = tr(o.help);
  if (!o.default_text.empty() && takes_value(o)) {
    out += tr(" (default: {})", o.default_text);
  }
  if (o.kind == ValueKind::choice) {
    // Long lists can be broken at a blank.
    const std::string_view between = o.words.size() > kLongChoices ? " | " : "|";
    out += fmt::format(" [{}]", fmt::join(base::split(o.words, ' '), between));
  }
  return out;
}

std::string examples(const CommandSpec& command, size_t columns) {
  std::string out = tr("Examples:") + '\n';
  for (const Example& e : command.examples) {
    out += fmt::format("  {}\n", e.command);
    out += text_block(tr(e.what), columns, 6);
  }
  return out;
}

enum class Which { all, common };

std::string options(const CommandSpec& command, size_t columns, Which which) {
  std::string out;
  std::string_view group;
  for (const OptionSpec& o : command.options) {
    if (which == Which::common && !o.common) {
      continue;
    }
    if (which == Which::all && o.group != group) {
      group = o.group;
      out += fmt::format("\n{}\n", tr("{}:", tr(group)));
    }
    out += definition(option_term(o), option_help(o), columns, kOptionColumn);
  }
  return out;
}

}  // namespace

std::string option_term(const OptionSpec& o) {
  std::string out = o.short_name != 0 ? fmt::format("-{}, ", o.short_name) : std::string("    ");
  out += flag(o);
  if (takes_value(o)) {
    out += fmt::format(" {}", o.metavar);
  }
  return out;
}

std::string overview_help(size_t columns) {
  const CommandSpec& run = *find_command("run");
  std::string out = text_block(tr("xpurun runs a distributed training command and names the rank to blame "
                                  "when it hangs or crashes, and where."),
                               columns, 0);
  out += fmt::format("\n{}\n  xpurun [OPTION]... [--] COMMAND...\n\n", tr("Usage:"));
  out += examples(run, columns);
  std::string_view group;
  for (const CommandSpec& c : command_table()) {
    if (c.group != group) {
      group = c.group;
      out += fmt::format("\n{}\n", tr("{}:", tr(group)));
    }
    out += definition(c.name, tr(c.summary), columns, kCommandColumn);
  }
  out += fmt::format("\n{}\n", tr("Common options of run:")) + options(run, columns, Which::common);
  out += fmt::format("\n{}\n", tr("More: {}", "xpurun help run, man xpurun"));
  return out;
}

std::string command_help(const CommandSpec& command, size_t columns) {
  std::string out = tr("Usage:") + '\n';
  for (std::string_view line : command.synopsis) {
    out += text_block(line, columns, 2);
  }
  out += '\n' + text_block(tr(command.description), columns, 0);
  out += '\n' + examples(command, columns);
  out += options(command, columns, Which::all);
  if (command.name == "run") {
    out += '\n' +
           text_block(tr("--no-X undoes a switch --X. Every option except --print-config and those under "
                         "General can also be set in the environment (--hang-timeout: XPURUN_HANG_TIMEOUT) "
                         "and, except --preload-library, in ./xpurun.conf or ~/.config/xpurun/xpurun.conf "
                         "(hang-timeout = 5m). The first of these that sets an option counts."),
                      columns, 0);
  }
  out += fmt::format("\n{}\n", tr("More: {}", command.manual));
  return out;
}

}  // namespace xpurun::launcher
