// What the option tables share.
#pragma once

#include "launcher/options/option_table.h"

namespace xpurun::launcher {

inline constexpr std::string_view kOutput = "Output";
inline constexpr std::string_view kGeneral = "General";

inline constexpr OptionSpec kHelp{.name = "help", .short_name = 'h', .group = kGeneral, .help = "print this help"};

}  // namespace xpurun::launcher
