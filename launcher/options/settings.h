// Settings: every option that was set, as text, with its source. Sources are added in the order of
// precedence: command line, environment, ./xpurun.conf, the user's xpurun.conf. The first value stays. Values
// are not interpreted here, except that -v is counted.
#pragma once

#include "common/base/result.h"
#include "launcher/options/command_table.h"

#include <map>
#include <string>
#include <vector>

namespace xpurun::launcher {

struct Setting {
  std::string value;   // as written; "on" or "off" for --x and --no-x; a count for -v
  std::string source;  // "command line", "XPURUN_GRACE", or the path of a configuration file
  int precedence = 0;  // 0 command line, 1 environment, 2 project file, 3 user file
};

class Settings {
 public:
  // Does not replace a value that is already set.
  void set(std::string_view name, Setting setting) { values_.emplace(name, std::move(setting)); }
  // Null if the option is at its default.
  const Setting* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  const std::map<std::string, Setting, std::less<>>& all() const { return values_; }

 private:
  std::map<std::string, Setting, std::less<>> values_;
};

struct ParsedWords {
  Settings settings;
  std::vector<std::string> operands;
};

// xpurun's own arguments, as split_argv returns them, read by Boost.Program_options. No abbreviations. If an
// option is given twice, the last value counts.
base::Result<ParsedWords> parse_words(const CommandSpec& command, const std::vector<std::string>& own);

// A message for every unknown XPURUN_* variable: "XPURUN_GRAZE is not known", with "; did you mean
// XPURUN_GRACE?" where a known name is close. Internal names that are not options cause no message.
std::vector<std::string> unknown_environment(const std::map<std::string, std::string>& env);

// XPURUN_<FLAG>. An empty value counts as not set.
void add_environment(Settings& settings, const CommandSpec& command,
                     const std::map<std::string, std::string>& env);
// Of them, those that look like a misspelt option.
std::vector<std::string> misspelt_environment(const std::map<std::string, std::string>& env);

// named: by --config, in place of the project's.
enum class FileLevel { named, project = 2, user = 3 };
// Text of a configuration file: `key = value` lines, # comments. E-CONFIG for unknown keys and bad lines.
base::Status add_config_text(Settings& settings, const CommandSpec& command, const std::string& text,
                             const std::string& path, FileLevel level);
// The same for a file. A file that xpurun looks for by itself may be missing.
base::Status add_config_file(Settings& settings, const CommandSpec& command, const std::string& path,
                             FileLevel level);
// $XDG_CONFIG_HOME/xpurun/xpurun.conf or ~/.config/xpurun/xpurun.conf; empty without a home.
std::string user_config_path(const std::map<std::string, std::string>& env);

std::map<std::string, std::string> process_environment();

}  // namespace xpurun::launcher
