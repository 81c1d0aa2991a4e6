// The one table of options. Parsing, --help, environment variables, configuration keys, completions and the
// test of the manual pages are derived from the table. Immutable data; any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace xpurun::launcher {

enum class ValueKind {
  none,      // --help: present or not; command line only
  on_off,    // --logs and --no-logs; elsewhere on/off, yes/no, true/false, 1/0
  repeated,  // -v, -vv: counts; elsewhere a number
  duration,  // 300, 5m, 1.5h, 250ms
  number,    // positive integer
  size,      // 4096, 64K, 500M, 10G
  choice,    // one of `words`
  directory,
  file,
  text,
  list,       // like text, but may be given several times: the values are joined with commas
  share,      // 0.1%: more than 0, at most 100
  port,       // of TCP, or one of `words`
  processes,  // like list: ids of processes
};

// Where an option may be set besides the command line.
enum class Scope {
  command_line,  // nowhere else
  environment,   // environment, not in configuration files
  everywhere,
};

struct OptionSpec {
  std::string_view name;  // long name without dashes
  char short_name = 0;    // 0: none
  ValueKind kind = ValueKind::none;
  std::string_view metavar;       // "DURATION"; empty if it takes no value
  std::string_view words;         // space-separated: choices, or the words a duration takes besides numbers
  std::string_view default_text;  // as a user would write it; empty: no default to speak of
  std::string_view group;         // heading in --help and in the manual page
  std::string_view help;          // one or two sentences without final full stop
  Scope scope = Scope::command_line;
  bool common = false;  // shown in the overview
};

// Options that several tables share.
inline constexpr std::string_view kOutput = "Output";
inline constexpr std::string_view kGeneral = "General";
inline constexpr OptionSpec kJson{.name = "json", .group = kOutput, .help = "print one JSON document"};
inline constexpr OptionSpec kLang{.name = "lang",
                                  .kind = ValueKind::choice,
                                  .metavar = "LANGUAGE",
                                  .words = "auto en zh",
                                  .default_text = "auto",
                                  .group = kOutput,
                                  .help =
                                      "language of the output, JSON excepted; auto: Chinese if the locale "
                                      "(LC_ALL, LC_MESSAGES, LANG) begins with zh"};
inline constexpr OptionSpec kHelp{
    .name = "help", .short_name = 'h', .group = kGeneral, .help = "print this help"};

std::span<const OptionSpec> run_options();
std::span<const OptionSpec> stacks_options();    // option_table_stacks.cpp
std::span<const OptionSpec> pipeline_options();  // option_table_timeline.cpp
std::span<const OptionSpec> memory_options();    // option_table_timeline.cpp
// option_table_tools.cpp
// The options of run that also make sense for a job that already runs.
std::span<const OptionSpec> now_options();
std::span<const OptionSpec> attach_options();
std::span<const OptionSpec> record_options();
std::span<const OptionSpec> capture_options();
std::span<const OptionSpec> query_options();
std::span<const OptionSpec> report_options();
std::span<const OptionSpec> top_options();
std::span<const OptionSpec> ctl_options();
std::span<const OptionSpec> nodes_options();
std::span<const OptionSpec> runs_options();
std::span<const OptionSpec> doctor_options();
std::span<const OptionSpec> selftest_options();
std::span<const OptionSpec> env_options();
std::span<const OptionSpec> events_options();
std::span<const OptionSpec> analyze_options();
std::span<const OptionSpec> diff_options();
std::span<const OptionSpec> timeline_options();
std::span<const OptionSpec> replay_options();
std::span<const OptionSpec> version_options();
std::span<const OptionSpec> help_options();
// Only -h: completions.
std::span<const OptionSpec> plain_options();

const OptionSpec* find_option(std::span<const OptionSpec> table, std::string_view name);
const OptionSpec* find_option(std::span<const OptionSpec> table, char short_name);

inline bool takes_value(const OptionSpec& o) {
  return !o.metavar.empty();
}
// "--hang-timeout"; for a switch that is on by default, the form that switches it off: "--no-report".
std::string flag(const OptionSpec& o);
// "XPURUN_HANG_TIMEOUT"
std::string env_name(const OptionSpec& o);

}  // namespace xpurun::launcher
