// Wrapped and indented text for terminals. Pure.
#pragma once

#include <string>
#include <string_view>

namespace xpurun::launcher {

// `text` wrapped so that no line is longer than `columns`, every line indented; ends with a newline.
std::string text_block(std::string_view text, size_t columns, size_t indent);

// A term and its explanation in two columns: the explanation begins at `column`, or on the next line if the
// term is too long for that or the terminal too narrow for two columns.
std::string definition(std::string_view term, std::string_view text, size_t columns, size_t column);

// The beginning of `text`, at most `columns` wide, with dots if the text was cut.
// Blanks up to this number of columns, behind or before the text; wide characters count twice.
std::string pad_end(std::string_view text, size_t columns);
std::string pad_start(std::string_view text, size_t columns);
std::string cut_end(std::string_view text, size_t columns);

// Width for help texts: that of the terminal behind fd, at least 40, at most 100.
size_t help_columns(int fd);

}  // namespace xpurun::launcher
