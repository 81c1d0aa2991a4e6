// The language of the text for people, chosen once at the start of the program.
#pragma once

#include "common/base/language.h"
#include "launcher/options/settings.h"

#include <map>
#include <string>

namespace xpurun::launcher {

// --lang, else XPURUN_LANG, else the locale.
// The setting of --lang among the words of a whole command line, which may be wrong otherwise. Does not look
// at the words of the user's command.
Settings typed_language(const std::vector<std::string>& words);

// Every command understands --lang, before its name or after it: the words without it, where the command does
// not read it itself. A value that names no language stays, for the error message.
std::vector<std::string> without_language(const std::vector<std::string>& words);

base::Language chosen_language(const Settings& settings, const std::map<std::string, std::string>& env);

}  // namespace xpurun::launcher
