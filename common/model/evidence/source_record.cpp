#include "common/model/evidence/source_record.h"

#include "common/model/json_visitors.h"

namespace xpurun::model {

template <typename V, Self<SourceLine> L>
void fields(V& visit, L& l) {
  visit("number", l.number);
  visit("text", l.text);
}

template <typename V, Self<SourceFile> F>
void fields(V& visit, F& f) {
  visit("file", f.file);
  visit("changed", f.changed);
  visit("lines", f.lines);
}

template <typename V, Self<SourceRecord> R>
void fields(V& visit, R& r) {
  visit("files", r.files);
}

nlohmann::ordered_json to_json(const SourceRecord& r) {
  return write_object(kSourceSchema, r);
}

base::Result<SourceRecord> source_record_from_json(const nlohmann::json& j) {
  return read_object<SourceRecord>(kSourceSchema, "source record", j);
}

base::Result<SourceRecord> load_source_record(const std::string& path) {
  return load_object(path, source_record_from_json);
}

}  // namespace xpurun::model
