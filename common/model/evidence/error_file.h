// The error file of torchelastic (TORCHELASTIC_ERROR_FILE): torch's @record writes it when a rank's main
// function raises an exception. Its content comes from the job and is not trusted.
#pragma once

#include "common/model/exception.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace xpurun::model {

struct ErrorFile {
  PythonException exception;  // kind `raised`; the caller sets process, rank and time
  int64_t wall_seconds = 0;   // Unix time in whole seconds, as torch writes it; 0: missing
};

// {"message": {"message": "ValueError: x", "extraInfo": {"py_callstack": "...", "timestamp": "17..."}}}, or
// {"message": "x"} alone. Empty for any other content. Secrets are masked.
std::optional<ErrorFile> parse_error_file(std::string_view json);

}  // namespace xpurun::model
