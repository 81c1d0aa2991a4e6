// What may be written to a stream: is it a terminal, how wide, may it be coloured. NO_COLOR (no-color.org),
// TERM=dumb, CLICOLOR_FORCE and FORCE_COLOR are respected.
#pragma once

#include <cstddef>

namespace xpurun::base {

bool is_terminal(int fd);
bool colour_allowed(int fd);
// Columns of the terminal behind fd; COLUMNS, then `fallback`, if it is none.
size_t terminal_columns(int fd, size_t fallback = 80);

}  // namespace xpurun::base
