// The error file of torchelastic (TORCHELASTIC_ERROR_FILE): what torch's @record wrote when a rank's main
// function raised an exception. Everything in it comes from the job and is not to be believed.
#pragma once

#include "common/model/exception.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace xpurun::model {

struct ErrorFile {
  PythonException exception;  // kind raised; the caller knows process, rank and time
  int64_t wall_seconds = 0;   // since the epoch, in whole seconds as torch writes it; 0: not said
};

// {"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "...", "timestamp": "17..."}}}, or
// {"message": "x"} alone. Nothing for any other content. Secrets are masked.
std::optional<ErrorFile> parse_error_file(std::string_view json);

}  // namespace xpurun::model
