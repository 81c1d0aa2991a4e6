#include "common/model/evidence/evidence_manifest.h"

#include "common/model/json_visitors.h"

namespace xpurun::model {

template <typename V, Self<EvidencePart> P>
void fields(V& visit, P& p) {
  visit("source", p.source);
  visit("status", p.status);
  visit("reason", p.reason, WhenEmpty::omit);
  visit("seconds", p.seconds);
}

template <typename V, Self<EvidenceManifest> M>
void fields(V& visit, M& m) {
  visit("parts", m.parts);
}

nlohmann::ordered_json to_json(const EvidenceManifest& m) {
  return write_object(kEvidenceSchema, m);
}

base::Result<EvidenceManifest> evidence_manifest_from_json(const nlohmann::json& j) {
  return read_object<EvidenceManifest>(kEvidenceSchema, "evidence manifest", j);
}

base::Result<EvidenceManifest> load_evidence_manifest(const std::string& path) {
  return load_object(path, evidence_manifest_from_json);
}

}  // namespace xpurun::model
