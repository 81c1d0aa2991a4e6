// JSON as text, for files and for other programs.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace xpurun::model {

// Without a line break at the end. Text of a traced process may hold any bytes: what is not UTF-8 is
// replaced. An indent of -1 writes one line.
std::string json_text(const nlohmann::json& value, int indent = -1);
std::string json_text(const nlohmann::ordered_json& value, int indent = -1);

}  // namespace xpurun::model
