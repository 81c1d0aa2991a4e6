// What may be written to a stream: is it a terminal, how wide, may it be coloured. NO_COLOR (no-color.org),
// TERM=dumb, CLICOLOR_FORCE and FORCE_COLOR are respected.
#pragma once

#include "common/base/result.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace xpurun::base {

bool is_terminal(int fd);
bool colour_allowed(int fd);
// Columns of the terminal behind fd; COLUMNS, then `fallback`, if it is none.
size_t terminal_columns(int fd, size_t fallback = 80);

// Everything that is said to people goes through these two, so that no name of a file, a process or a
// function can drive the terminal (tests/lint/check_output.py).
//
// A message to standard error. A failure has nobody to be told to.
void tell(std::string_view text);
// Output of a command to standard output: as it is into files and pipes, made safe on a terminal.
Status put_out(std::string_view text);

// Like sanitize_lines(), but the colours that we put in ourselves stay (ESC [ numbers m).
std::string sanitize_coloured(std::string_view text);

}  // namespace xpurun::base
