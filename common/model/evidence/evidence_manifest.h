// EvidenceManifest: dumps/<n>-<why>/evidence.json, schema "xpurun.evidence/1": the evidence collected for a
// dump in addition to the stacks, and why the rest is missing. Written by the evidence helper
// (launcher/evidence).
#pragma once

#include "common/base/result.h"
#include "common/model/names.h"

#include <nlohmann/json_fwd.hpp>

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace xpurun::model {

inline constexpr std::string_view kEvidenceSchema = "xpurun.evidence/1";

enum class EvidenceSource {
  flight_recorder,  // PyTorch's, requested through its pipe
  gpu,              // NVML
  kernel_log,
};
template <>
inline constexpr std::array<std::string_view, 3> kNames<EvidenceSource> = {"flight_recorder", "gpu",
                                                                           "kernel_log"};

enum class EvidenceStatus {
  ok,
  partial,  // some ranks or values are missing
  absent,   // this host or job does not have the source
  denied,   // the source exists but is not readable
  failed,
  timeout,  // the time limit passed first
};
template <>
inline constexpr std::array<std::string_view, 6> kNames<EvidenceStatus> = {"ok",     "partial", "absent",
                                                                           "denied", "failed",  "timeout"};

struct EvidencePart {
  EvidenceSource source = EvidenceSource::gpu;
  EvidenceStatus status = EvidenceStatus::ok;
  std::string reason;  // empty: ok
  double seconds = 0;  // from the start of the helper
};

struct EvidenceManifest {
  std::vector<EvidencePart> parts;
};

nlohmann::ordered_json to_json(const EvidenceManifest& m);
// An error means that the content does not match the schema; load_*() errors also name the path.
base::Result<EvidenceManifest> evidence_manifest_from_json(const nlohmann::json& j);
base::Result<EvidenceManifest> load_evidence_manifest(const std::string& path);

}  // namespace xpurun::model
