// Converts settings (text and its source) to RunOptions (values). Every value is checked here. An error names
// the option, the value and the source.
#pragma once

#include "common/base/result.h"
#include "launcher/options/run_options.h"
#include "launcher/options/settings.h"

#include <string>

namespace xpurun::launcher {

base::Result<RunOptions> to_run_options(const Settings& settings);

// "hang,end": the events of a list with commas. The error names the word that is none.
base::Result<JobEventKinds> parse_event_kinds(std::string_view list);

// The options of a run for which nothing was set.
RunOptions default_run_options();

// Checks one value of the table against its kind: a duration, a number, one of the words.
base::Status check_value(const OptionSpec& option, const std::string& value);

// A table of every option, its value and its source, for --print-config.
std::string print_config(const Settings& settings);

}  // namespace xpurun::launcher
