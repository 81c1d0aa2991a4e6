#include "launcher/options/settings.h"

#include "common/base/os/io.h"
#include "common/base/strings.h"
#include "common/base/suggest.h"
#include "common/base/tr.h"
#include "launcher/options/argv_split.h"
#include "launcher/options/values/systrace_parameters.h"

#include <boost/program_options.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <sstream>
#include <unistd.h>

namespace xpurun::launcher {

namespace po = boost::program_options;

namespace {

bool is_list(const OptionSpec& o) {
  return o.kind == ValueKind::list || o.kind == ValueKind::processes;
}

po::options_description describe(const CommandSpec& command) {
  po::options_description out;
  for (const OptionSpec& o : command.options) {
    std::string names(o.name);
    if (o.short_name != 0) {
      names += fmt::format(",{}", o.short_name);
    }
    // Boost owns what it is given.
    const auto add = [&](const std::string& name) {
      out.add_options()(name.c_str(), new po::untyped_value(/*zero_tokens=*/!takes_value(o)), "");
    };
    add(names);
    if (o.kind == ValueKind::on_off) {
      add(fmt::format("no-{}", o.name));
    }
  }
  return out;
}

base::Error config_error(std::string what) {
  return {.what = std::move(what), .id = "E-CONFIG", .hint = "man 5 xpurun.conf"};
}

std::vector<std::string> names_in_files(const CommandSpec& command) {
  std::vector<std::string> out;
  for (const OptionSpec& o : command.options) {
    if (o.scope == Scope::everywhere) {
      out.emplace_back(o.name);
    }
  }
  return out;
}

// Boost replaces %option% in its message with the user's text until no %option% is left: an endless loop if
// the user's text contains %option%. Such text is parsed again with another character for the percent sign.
constexpr char kPercent = '\x01';

std::string without_percent(std::string text) {
  std::replace(text.begin(), text.end(), '%', kPercent);
  return text;
}

template <typename Again>
std::string message_of(const po::error& error, bool has_percent, const Again& again) {
  if (!has_percent) {
    return error.what();
  }
  try {
    again();
  } catch (const po::error& harmless) {
    std::string message = harmless.what();
    std::replace(message.begin(), message.end(), kPercent, '%');
    return message;
  }
  return base::cli_text("is not valid");
}

// Internal variables of xpurun that are not options.
bool is_internal(std::string_view name) {
  return name == "XPURUN_RUN" || name == "XPURUN_EVENT_PROGRAM" || name.starts_with("XPURUN_RUN_") ||
         name.starts_with("XPURUN_TEST_");
}

}  // namespace

const Setting* Settings::find(std::string_view name) const {
  const auto it = values_.find(name);
  return it == values_.end() ? nullptr : &it->second;
}

base::Result<ParsedWords> parse_words(const CommandSpec& command, const std::vector<std::string>& own) {
  std::map<std::string, std::string> last;
  int verbose = 0;
  ParsedWords out;
  const po::options_description description = describe(command);
  const auto parse = [&description](const std::vector<std::string>& words) {
    namespace style = po::command_line_style;
    return po::command_line_parser(words)
        .options(description)
        .style(style::unix_style ^ style::allow_guessing)
        .run();
  };
  try {
    const auto parsed = parse(own);
    for (const po::option& option : parsed.options) {
      if (option.position_key >= 0) {
        out.operands.insert(out.operands.end(), option.value.begin(), option.value.end());
        continue;
      }
      const std::string& key = option.string_key;
      const OptionSpec* spec = find_option(command.options, key);
      if (spec == nullptr) {
        last[key.substr(sizeof("no-") - 1)] = "off";
      } else if (spec->kind == ValueKind::repeated) {
        last[key] = fmt::format("{}", ++verbose);
      } else if (is_list(*spec) && last.contains(key) && !option.value.empty()) {
        last[key] += ',' + option.value.front();
      } else {
        last[key] = takes_value(*spec) && !option.value.empty() ? option.value.front() : "on";
      }
    }
  } catch (const po::error& e) {
    std::vector<std::string> harmless = own;
    std::transform(own.begin(), own.end(), harmless.begin(), without_percent);
    return base::fail(usage_error(message_of(e, harmless != own, [&] { parse(harmless); }), command));
  }
  for (auto& [name, value] : last) {
    out.settings.set(name, {.value = std::move(value), .source = "command line"});
  }
  return out;
}

void add_environment(Settings& settings, const CommandSpec& command,
                     const std::map<std::string, std::string>& env) {
  for (const OptionSpec& o : command.options) {
    const std::string name = env_name(o);
    const auto it = env.find(name);
    if (o.scope != Scope::command_line && it != env.end() && !it->second.empty()) {
      settings.set(o.name, {.value = it->second, .source = name, .precedence = 1});
    }
  }
}

namespace {

struct UnknownVariable {
  std::string name;
  std::optional<std::string> near;
};

std::vector<UnknownVariable> unknown_variables(const std::map<std::string, std::string>& env) {
  // Without the common beginning, which would make everything look alike.
  constexpr std::string_view kPrefix = "XPURUN_";
  std::vector<std::string> known;
  for (const OptionSpec& o : run_options()) {
    if (o.scope != Scope::command_line) {
      known.push_back(env_name(o).substr(kPrefix.size()));
    }
  }
  std::vector<UnknownVariable> out;
  for (const auto& [name, value] : env) {
    if (!name.starts_with(kPrefix) || is_internal(name)) {
      continue;
    }
    const std::string tail = name.substr(kPrefix.size());
    if (std::find(known.begin(), known.end(), tail) == known.end()) {
      out.push_back({name, base::closest(tail, known)});
    }
  }
  return out;
}

std::string unknown_text(const UnknownVariable& v) {
  return base::sanitize(v.near ? fmt::format("{} is not known; did you mean XPURUN_{}?", v.name, *v.near)
                               : fmt::format("{} is not known", v.name));
}

}  // namespace

std::vector<std::string> misspelt_environment(const std::map<std::string, std::string>& env) {
  std::vector<std::string> out;
  for (const UnknownVariable& v : unknown_variables(env)) {
    if (v.near) {
      out.push_back(unknown_text(v));
    }
  }
  return out;
}

std::vector<std::string> unknown_environment(const std::map<std::string, std::string>& env) {
  std::vector<std::string> out;
  for (const UnknownVariable& v : unknown_variables(env)) {
    out.push_back(unknown_text(v));
  }
  return out;
}

// The first line that is written as in YAML, "NAME: VALUE"; else empty.
std::string line_with_colon(std::string_view text) {
  for (const std::string_view line : base::split(text, '\n')) {
    const std::string_view content = base::trim(line.substr(0, line.find('#')));
    if (content.find('=') == std::string_view::npos && content.find(':') != std::string_view::npos) {
      return base::sanitize(content);
    }
  }
  return "";
}

base::Status add_config_text(Settings& settings, const CommandSpec& command, const std::string& text,
                             const std::string& path, FileLevel level) {
  po::options_description description;
  for (const std::string& name : names_in_files(command)) {
    description.add_options()(name.c_str(), po::value<std::string>(), "");
  }
  const auto parse = [&description](const std::string& lines) {
    std::istringstream in(lines);
    return po::parse_config_file(in, description, /*allow_unregistered=*/true);
  };
  if (const std::string line = line_with_colon(text); !line.empty()) {
    const size_t colon = line.find(':');
    return base::fail(
        config_error(base::cli_text("{}: a line is NAME = VALUE, not '{}'; did you mean {} = {}?", path, line,
                                    base::trim(line.substr(0, colon)), base::trim(line.substr(colon + 1)))));
  }
  try {
    const auto parsed = parse(text);
    std::map<std::string, std::string> values;
    for (const po::option& option : parsed.options) {
      const std::string& key = option.string_key;
      if (option.unregistered) {
        const OptionSpec* other = find_option(command.options, key);
        std::string what = other != nullptr
                               ? base::cli_text("{}: {} cannot be set in a configuration file", path, key)
                               : base::cli_text("{}: {} is not an option", path, key);
        if (const std::string instead = instead_of_systrace(key); !instead.empty() && other == nullptr) {
          what += base::cli_text(", but a parameter of sysTrace: {}", instead);
        } else if (const auto near = base::closest(key, names_in_files(command)); near && other == nullptr) {
          what += base::cli_text("; did you mean {}?", *near);
        }
        return base::fail(config_error(std::move(what)));
      }
      if (option.value.empty() || option.value.front().empty()) {
        return base::fail(config_error(base::cli_text("{}: {} has no value", path, key)));
      }
      if (!values.emplace(key, option.value.front()).second) {
        return base::fail(config_error(base::cli_text("{}: {} is set twice", path, key)));
      }
    }
    const int precedence = static_cast<int>(level == FileLevel::named ? FileLevel::project : level);
    for (auto& [name, value] : values) {
      settings.set(name, {.value = std::move(value), .source = path, .precedence = precedence});
    }
  } catch (const po::error& e) {
    const std::string harmless = without_percent(text);
    return base::fail(
        config_error(fmt::format("{}: {}", path, message_of(e, harmless != text, [&] { parse(harmless); }))));
  }
  return {};
}

base::Status add_config_file(Settings& settings, const CommandSpec& command, const std::string& path,
                             FileLevel level) {
  constexpr size_t kLimit = size_t{1} << 20;
  auto text = base::read_file(path, kLimit);
  if (!text) {
    const bool missing = text.error().sys_errno == ENOENT || text.error().sys_errno == ENOTDIR;
    if (missing && level != FileLevel::named) {
      return {};
    }
    return base::fail(config_error(base::to_line(text.error())));
  }
  return add_config_text(settings, command, *text, path, level);
}

std::string user_config_path(const std::map<std::string, std::string>& env) {
  const auto absolute = [&](const char* name) -> std::string {
    const auto it = env.find(name);
    return it != env.end() && it->second.starts_with('/') ? it->second : std::string();
  };
  if (const std::string config = absolute("XDG_CONFIG_HOME"); !config.empty()) {
    return config + "/xpurun/xpurun.conf";
  }
  const std::string home = absolute("HOME");
  return home.empty() ? std::string() : home + "/.config/xpurun/xpurun.conf";
}

std::map<std::string, std::string> process_environment() {
  std::map<std::string, std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const size_t eq = text.find('=');
    if (eq != std::string_view::npos) {
      out.emplace(text.substr(0, eq), text.substr(eq + 1));
    }
  }
  return out;
}

}  // namespace xpurun::launcher
