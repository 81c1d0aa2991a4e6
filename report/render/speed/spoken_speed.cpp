#include "report/render/speed/spoken_speed.h"

#include "report/pipeline/view/wording.h"
#include "report/profile/captured_functions.h"
#include "report/speed/wording.h"

namespace xpurun::report {

void translate_speed(model::SpeedReport& speed) {
  for (model::SpeedFinding& finding : speed.findings) {
    finding.sentence = finding.spoken;
    finding.next = next_step(finding);
  }
  for (model::StagePause& pause : speed.stage_pauses) {
    pause.sentence = pause_sentence(pause);
  }
  for (model::CaptureReport& capture : speed.captures) {
    capture.sentence = capture_sentence(capture);
  }
  speed.sentence = summary_sentence(speed);
}

void translate_speed(RunReport& report) {
  if (report.speed) {
    translate_speed(*report.speed);
  }
  if (report.pipeline) {
    for (model::Pipeline& pipeline : report.pipeline->pipelines) {
      pipeline.sentence = pipeline_sentence(pipeline);
    }
    report.pipeline->sentence = pipelines_sentence(*report.pipeline);
  }
}

}  // namespace xpurun::report
