#include "common/model/speed/gpu_capture.h"
#include "common/model/speed/gpu_capture_fields.h"

namespace xpurun::model {

template <typename V, Self<ClockSamples> S>
void fields(V& visit, S& s) {
  visit("interval_s", s.interval_s);
  visit("reason", s.reason);
  visit("gpus", s.gpus);
}

nlohmann::ordered_json to_json(const ClockSamples& samples) {
  return write_object(kGpuClocksSchema, samples);
}

base::Result<ClockSamples> clock_samples_from_json(const nlohmann::json& j) {
  return read_object<ClockSamples>(kGpuClocksSchema, "GPU clocks", j);
}

base::Result<ClockSamples> load_clock_samples(const std::string& path) {
  return load_object(path, clock_samples_from_json);
}

nlohmann::ordered_json to_json(const GpuCapture& capture) {
  return write_object(kGpuCaptureSchema, capture);
}

base::Result<GpuCapture> gpu_capture_from_json(const nlohmann::json& j) {
  return read_object<GpuCapture>(kGpuCaptureSchema, "GPU capture", j);
}

base::Result<GpuCapture> load_gpu_capture(const std::string& path) {
  return load_object(path, gpu_capture_from_json);
}

}  // namespace xpurun::model
