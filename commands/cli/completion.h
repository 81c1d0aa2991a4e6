// What may follow the words of a command line, and the scripts with which bash, zsh and fish ask for it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::launcher {

// The first word of the command line of a completion script: xpurun __complete SHELL WORD... It is no command
// for people.
inline constexpr std::string_view kCompleteRole = "__complete";

enum class Shell { bash, zsh, fish };
std::optional<Shell> shell_named(std::string_view name);

// What fits besides Offer::words.
enum class Offered {
  nothing,
  files,
  directories,
  runs,       // finished run directories, and directories
  processes,  // Python processes of this user
  command,    // the command that xpurun starts begins at word `begin`: the shell knows how to complete it
};

struct Suggestion {
  std::string word;
  std::string about;  // one line; may be empty
};

struct Offer {
  Offered also = Offered::nothing;
  size_t begin = 0;
  std::vector<Suggestion> words;
};

// `words` is the command line without its program; the last word is the one to complete, maybe empty. The
// words of "--out=" fit behind the "=". bash gives "=" as a word of its own. Pure.
Offer offer_for(std::span<const std::string> words);

std::string_view completion_script(Shell shell);

}  // namespace xpurun::launcher
