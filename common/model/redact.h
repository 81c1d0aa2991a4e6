// Masks secrets before anything is written: values of environment variables whose name looks secret, the same
// words in arguments (--api-key X, --api-key=X, KEY=X), and user info in URLs.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kMask = "****";

// *TOKEN*, *KEY*, *SECRET*, *PASSWORD*, *PASSWD*, *CREDENTIAL*, in any case, '-' and '_' alike.
bool is_secret_name(std::string_view name);
// scheme://user:password@host -> scheme://****@host
std::string redact_urls(std::string_view text);
// A line of source: the text that is given to a name that looks secret, password = "...", {"api_key": '...'},
// setenv("HF_TOKEN", "...").
std::string redact_source(std::string_view line);
std::vector<std::string> redact_argv(const std::vector<std::string>& argv);
std::map<std::string, std::string> redact_env(const std::map<std::string, std::string>& env);

}  // namespace xpurun::model
