#include "launcher/cli/argv_split.h"

#include "common/base/suggest.h"

#include <fmt/format.h>

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

std::string unknown_option(std::string_view word, const CommandSpec& command) {
  std::string what = fmt::format("unknown option {}", word);
  if (const auto near = base::closest(word, spellings(command))) {
    return what + fmt::format("; did you mean {}?", *near);
  }
  for (const CommandSpec& other : command_table()) {
    if (word.starts_with("--") && find_option(other.options, word.substr(2)) != nullptr) {
      return what + fmt::format(": it belongs to xpurun {}", other.name);
    }
  }
  return what;
}

// What one option word means for the words after it, or why it is wrong.
struct OptionWord {
  enum class Next { nothing, is_value } next = Next::nothing;
  std::optional<std::string> problem;
};

OptionWord long_option(std::string_view word, const CommandSpec& command) {
  const size_t eq = word.find('=');
  const std::string_view name = word.substr(2, eq == std::string_view::npos ? eq : eq - 2);
  const OptionSpec* o = find_option(command.options, name);
  if (o == nullptr && name.starts_with("no-")) {
    o = find_option(command.options, name.substr(3));
    o = o != nullptr && o->kind == ValueKind::on_off ? o : nullptr;
  }
  if (o == nullptr) {
    return {.problem = unknown_option(word.substr(0, eq), command)};
  }
  if (!takes_value(*o)) {
    if (eq != std::string_view::npos) {
      return {.problem = fmt::format("option --{} takes no value", name)};
    }
    return {};
  }
  return {.next = eq == std::string_view::npos ? OptionWord::Next::is_value : OptionWord::Next::nothing};
}

OptionWord short_options(std::string_view word, const CommandSpec& command) {
  for (size_t i = 1; i < word.size(); ++i) {
    const OptionSpec* o = find_option(command.options, word[i]);
    if (o == nullptr) {
      return {.problem = unknown_option(i == 1 ? word : fmt::format("-{} in {}", word[i], word), command)};
    }
    if (takes_value(*o)) {
      return {.next = i + 1 == word.size() ? OptionWord::Next::is_value : OptionWord::Next::nothing};
    }
  }
  return {};
}

tl::unexpected<UsageError> wrong(const CommandSpec& command, std::string what) {
  return tl::unexpected<UsageError>(UsageError{&command, usage_error(std::move(what), command)});
}

}  // namespace

base::Error usage_error(std::string what, const CommandSpec& command) {
  return {.what = std::move(what), .id = "E-USAGE", .hint = fmt::format("xpurun help {}", command.name)};
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
        if (is_reserved_command(word)) {
          return wrong(run, fmt::format("{} is not part of this version; for a program of that name: "
                                        "xpurun -- {}",
                                        word, word));
        }
        if (const CommandSpec* command = find_command(word)) {
          if (command != &run && !out.own.empty()) {
            return wrong(*command, fmt::format("{} before {} is an option of run; options of {} follow it",
                                               out.own.front(), word, word));
          }
          out.command = command;
          named = Named::yes;
          continue;
        }
      }
      if (out.command == &run) {
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
    out.own.push_back(word);
    if (option.next == OptionWord::Next::is_value) {
      if (i + 1 == words.size()) {
        return wrong(*out.command, fmt::format("option {} needs a value", word));
      }
      out.own.push_back(words[++i]);
    }
  }
  return out;
}

}  // namespace xpurun::launcher
