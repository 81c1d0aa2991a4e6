// The three ways text gets into a page, and the only ones. All of them replace control characters and bytes
// that are not UTF-8, which XML 1.0 cannot hold.
#pragma once

#include <string>
#include <string_view>

namespace xpurun::report {

// Between tags, in HTML and XML: & < >
std::string escape_text(std::string_view text);
// Between quotes of either kind as well.
std::string escape_attribute(std::string_view text);
// JSON that stands inside <script>: < > & DEL and U+2028, U+2029 as \uXXXX. `json` must be valid JSON, where
// those characters occur in strings only.
std::string escape_script_json(std::string_view json);

}  // namespace xpurun::report
