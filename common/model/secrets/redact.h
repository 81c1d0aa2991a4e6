// Masks secrets before anything is written: values assigned to a name that looks secret (--api-key X, KEY=X,
// "password": "X", Authorization: X), the values of options like -p and -u of well-known programs, user info
// in URLs, and texts that look like a secret by themselves (secret_shape.h).
//
// When in doubt, a harmless word is hidden rather than a secret shown. The masking is not complete: a short
// secret without a revealing context looks like any other word.
#pragma once

#include "common/model/secrets/mask.h"
#include "common/model/secrets/secret_name.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

// scheme://user:password@host -> scheme://****@host; also masks the path of a webhook's address.
std::string redact_urls(std::string_view text);
// A line of source code: literals assigned to a name that looks secret, password = "...", {"api_key": '...'},
// setenv("HF_TOKEN", "..."), and texts that look like a secret by themselves.
std::string redact_source(std::string_view line);
// Any other text: a shell script, a variable's value, an error message, a process title.
std::string redact_text(std::string_view text);
std::vector<std::string> redact_argv(const std::vector<std::string>& argv);

}  // namespace xpurun::model
