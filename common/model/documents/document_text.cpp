#include "common/model/documents/document_text.h"

#include "common/model/collectives.h"
#include "common/model/dump_manifest.h"
#include "common/model/evidence/gpu_health.h"
#include "common/model/evidence/machine.h"
#include "common/model/evidence/source_record.h"
#include "common/model/job/nodes.h"
#include "common/model/json/json_text.h"
#include "common/model/notify/job_event.h"
#include "common/model/run_manifest.h"
#include "common/model/speed/comparison.h"
#include "common/model/speed/gpu_capture.h"
#include "common/model/speed/pipeline.h"
#include "common/model/speed/replay.h"
#include "common/model/verdict.h"

#include <nlohmann/json.hpp>

namespace xpurun::model {

template <typename T>
std::string document_text(const T& document, int indent) {
  return json_text(to_json(document), indent);
}

template std::string document_text(const CollectiveFacts&, int);
template std::string document_text(const Comparison&, int);
template std::string document_text(const DumpManifest&, int);
template std::string document_text(const GpuCapture&, int);
template std::string document_text(const GpuHealth&, int);
template std::string document_text(const JobEvent&, int);
template std::string document_text(const MachineHistory&, int);
template std::string document_text(const Nodes&, int);
template std::string document_text(const PipelineReport&, int);
template std::string document_text(const Replay&, int);
template std::string document_text(const RunManifest&, int);
template std::string document_text(const SourceRecord&, int);
template std::string document_text(const Verdict&, int);

}  // namespace xpurun::model
