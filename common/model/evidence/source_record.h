// SourceRecord: source.json, schema "xpurun.source/1": the lines of source files that a report shows, as they
// were at the run, so that the report can be made again elsewhere. Secrets are masked. Written by the report
// (report/run/source_text.h).
#pragma once

#include "common/base/result.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kSourceSchema = "xpurun.source/1";

struct SourceLine {
  int number = 0;    // from 1
  std::string text;  // with its indentation
};

struct SourceFile {
  std::string file;      // as the interpreter knows it
  bool changed = false;  // after the run began: the lines may not be those that ran
  std::vector<SourceLine> lines;
};

struct SourceRecord {
  std::vector<SourceFile> files;
};

nlohmann::ordered_json to_json(const SourceRecord& r);
base::Result<SourceRecord> source_record_from_json(const nlohmann::json& j);
base::Result<SourceRecord> load_source_record(const std::string& path);

}  // namespace xpurun::model
