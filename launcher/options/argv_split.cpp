#include "launcher/options/argv_split.h"

#include "common/base/error_ids.h"
#include "common/base/strings.h"
#include "common/base/suggest.h"
#include "common/base/tr.h"
#include "launcher/options/command_advice.h"
#include "launcher/options/values/systrace_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace xpurun::launcher {

namespace {

std::vector<std::string> spellings(const CommandSpec& command) {
  std::vector<std::string> out;
  for (const OptionSpec& o : command.options) {
    out.push_back(fmt::format("--{}", o.name));
    if (o.kind == ValueKind::on_off) {
      out.push_back(fmt::format("--no-{}", o.name));
    }
  }
  return out;
}

// "--kill-on-hang" has all words of --on-hang.
std::optional<std::string> with_words_of(std::string_view word, const CommandSpec& command) {
  const auto typed = base::split(word.substr(0, word.find('=')), '-');
  for (const OptionSpec& o : command.options) {
    const auto words = base::split(o.name, '-');
    const bool has_all = std::all_of(words.begin(), words.end(), [&](std::string_view one) {
      return std::find(typed.begin(), typed.end(), one) != typed.end();
    });
    if (words.size() > 1 && has_all) {
      return fmt::format("--{}", o.name);
    }
  }
  return std::nullopt;
}

std::string unknown_option(std::string_view word, const CommandSpec& command) {
  std::string what = base::cli_text("unknown option {}", word);
  if (is_torchrun_option(word)) {
    return what + base::cli_text(": it belongs to torchrun; write xpurun -- torchrun {} …", word);
  }
  if (const std::string instead = instead_of_systrace(word); !instead.empty()) {
    return what + base::cli_text(", a parameter of sysTrace: {}", instead);
  }
  if (const auto near = base::closest(word, spellings(command))) {
    return what + base::cli_text("; did you mean {}?", *near);
  }
  if (const auto near = with_words_of(word, command)) {
    return what + base::cli_text("; did you mean {}?", *near);
  }
  for (const CommandSpec& other : command_table()) {
    if (word.starts_with("--") && find_option(other.options, word.substr(2)) != nullptr) {
      return what + base::cli_text(": it belongs to xpurun {}", other.name);
    }
  }
  return what;
}

// One option word in long form: "-qo" becomes --quiet and --out, whose value is still to come.
struct OptionWord {
  std::vector<std::string> plain;          // "--quiet", "--out=dir", one word each
  std::optional<std::string> needs_value;  // "--out": the next word is its value
  std::optional<std::string> problem;
};

std::string no_value(std::string_view option) {
  return base::cli_text("option {} needs a value", option);
}

OptionWord long_option(std::string_view word, const CommandSpec& command) {
  const size_t eq = word.find('=');
  const std::string option(word.substr(0, eq));
  const std::string_view name = std::string_view(option).substr(2);
  const OptionSpec* o = find_option(command.options, name);
  if (o == nullptr && name.starts_with("no-")) {
    o = find_option(command.options, name.substr(3));
    o = o != nullptr && o->kind == ValueKind::on_off ? o : nullptr;
  }
  if (o == nullptr) {
    return {.problem = unknown_option(option, command)};
  }
  if (eq == std::string_view::npos) {
    return takes_value(*o) ? OptionWord{.needs_value = option} : OptionWord{.plain = {option}};
  }
  if (!takes_value(*o)) {
    return {.problem = base::cli_text("option {} takes no value", option)};
  }
  return eq + 1 == word.size() ? OptionWord{.problem = no_value(option)}
                               : OptionWord{.plain = {std::string(word)}};
}

OptionWord short_options(std::string_view word, const CommandSpec& command) {
  OptionWord out;
  for (size_t i = 1; i < word.size(); ++i) {
    const OptionSpec* o = find_option(command.options, word[i]);
    if (o == nullptr) {
      return {.problem = unknown_option(i == 1 ? word : base::cli_text("-{} in {}", word[i], word), command)};
    }
    const std::string option = fmt::format("--{}", o->name);
    if (!takes_value(*o)) {
      out.plain.push_back(option);
    } else if (i + 1 == word.size()) {
      out.needs_value = option;
    } else {
      out.plain.push_back(fmt::format("{}={}", option, word.substr(i + 1)));
      break;
    }
  }
  return out;
}

tl::unexpected<UsageError> wrong(const CommandSpec& command, std::string what) {
  return tl::unexpected<UsageError>(UsageError{&command, usage_error(std::move(what), command)});
}

}  // namespace

base::Error usage_error(std::string what, const CommandSpec& command) {
  return {.what = std::move(what), .id = base::kUsage, .hint = fmt::format("xpurun help {}", command.name)};
}

tl::expected<ArgvSplit, UsageError> split_argv(const std::vector<std::string>& words) {
  const CommandSpec& run = *find_command("run");
  ArgvSplit out;
  if (words.empty()) {
    return out;
  }
  enum class Named { not_yet, yes } named = Named::not_yet;
  out.command = &run;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool operand = word.size() < 2 || word[0] != '-';
    if (operand || word == "--") {
      if (operand && named == Named::not_yet) {
        if (const CommandSpec* command = find_command(word)) {
          if (command != &run && !out.own.empty()) {
            return wrong(*command, base::cli_text("{} before {} is an option of run; options of {} follow it",
                                                  out.own.front(), word, word));
          }
          out.command = command;
          named = Named::yes;
          continue;
        }
      }
      if (out.command->operands == Operands::program) {
        out.child.assign(words.begin() + static_cast<ptrdiff_t>(i + (operand ? 0 : 1)), words.end());
        return out;
      }
      if (!operand) {
        out.own.insert(out.own.end(), words.begin() + static_cast<ptrdiff_t>(i), words.end());
        return out;
      }
      out.own.push_back(word);
      continue;
    }
    const OptionWord option =
        word.starts_with("--") ? long_option(word, *out.command) : short_options(word, *out.command);
    if (option.problem) {
      return wrong(*out.command, *option.problem);
    }
    out.own.insert(out.own.end(), option.plain.begin(), option.plain.end());
    if (option.needs_value) {
      // "-o -- true": a value that begins with two hyphens is written --out=--name.
      if (i + 1 == words.size() || words[i + 1].empty() || words[i + 1].starts_with("--")) {
        return wrong(*out.command, no_value(word));
      }
      out.own.push_back(fmt::format("{}={}", *option.needs_value, words[++i]));
    }
  }
  return out;
}

}  // namespace xpurun::launcher
