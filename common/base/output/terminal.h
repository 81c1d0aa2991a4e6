// Properties of an output stream: terminal or not, width, colours allowed or not. NO_COLOR (no-color.org),
// TERM=dumb, CLICOLOR_FORCE and FORCE_COLOR are respected.
#pragma once

#include "common/base/result.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace xpurun::base {

bool is_terminal(int fd);
bool colour_allowed(int fd);
// Columns of the terminal behind fd. If fd is not a terminal: COLUMNS, then `fallback`.
size_t terminal_columns(int fd, size_t fallback = 80);

// All output for people goes through these two functions, so that no name of a file, a process or a function
// can control the terminal (tests/lint/check_output.py).
//
// Writes a message to standard error. Failures are ignored, because they cannot be reported.
void write_stderr(std::string_view text);
// Writes a command's output to standard output: unchanged to files and pipes, sanitized on a terminal.
Status put_out(std::string_view text);

// Like sanitize_lines(), but keeps xpurun's own colours (ESC [ numbers m).
std::string sanitize_coloured(std::string_view text);

}  // namespace xpurun::base
