// Masks secrets before anything is written: what is given to a name that looks secret (--api-key X, KEY=X,
// "password": "X", Authorization: X), the values of options like -p and -u of well-known programs, user info
// in URLs, and what looks like a secret by itself (secret_shape.h).
//
// The masking would rather hide a harmless word than show a secret. It cannot know everything: a short secret
// that stands in a place of its own looks like any other word.
#pragma once

#include "common/model/secrets/mask.h"
#include "common/model/secrets/secret_name.h"

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

// scheme://user:password@host -> scheme://****@host; what follows the address of a webhook.
std::string redact_urls(std::string_view text);
// A line of source: the text that is given to a name that looks secret, password = "...", {"api_key": '...'},
// setenv("HF_TOKEN", "..."), and what looks like a secret by itself.
std::string redact_source(std::string_view line);
// Any text: a shell script, a value of a variable, an error message, the title of a process.
std::string redact_text(std::string_view text);
std::vector<std::string> redact_argv(const std::vector<std::string>& argv);

}  // namespace xpurun::model
