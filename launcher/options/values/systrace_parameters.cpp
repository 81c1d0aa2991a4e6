#include "launcher/options/values/systrace_parameters.h"

#include "common/base/tr.h"

#include <algorithm>

namespace xpurun::launcher {

namespace {

using base::later;

constexpr std::string_view kStepLevels = later(
    "xpurun analyze finds changes of the step time with their certainty, and needs no window and no limit");
constexpr std::string_view kRanks =
    later("xpurun compares the steps of ranks with the same role, and needs no training set and no limit");
constexpr std::string_view kWholeRun = later("xpurun analyze judges the whole run, and says since when");
constexpr std::string_view kResult = later("xpurun analyze --format systrace prints the result");
constexpr std::string_view kRunDirectory = later("xpurun analyze takes the run directory");
constexpr std::string_view kCauses = later("all causes are compared, and the largest is named");
constexpr std::string_view kChart = later("report.html has the chart of the steps");
constexpr std::string_view kGroups =
    later("--groups FILE.json of xpurun timeline and pipeline takes the groups");

struct Parameter {
  std::string_view name;
  std::string_view instead;
};
constexpr Parameter kParameters[] = {
    {"training_log", kRunDirectory},
    {"fail_slow_perception_path", kResult},
    {"slow_node_detection_path", kResult},
    {"max_data_queue_steps", kWholeRun},
    {"fail_slow_span_mins", kWholeRun},
    {"with_fail_slow", kWholeRun},
    {"slow_node_detection_range_times", kWholeRun},
    {"slow_node_detection_time_span_hours", kWholeRun},
    {"min_startup_detection_steps", kStepLevels},
    {"task_stable_step", kStepLevels},
    {"steps_window_size", kStepLevels},
    {"k_sigma", kStepLevels},
    {"anomaly_degree_thr", later("--slow-threshold says by how much a running job must become slower")},
    {"hang_times_mins_thr", later("--hang-timeout takes the limit, in seconds")},
    {"enable_detect_type", kCauses},
    {"enable_cal", kCauses},
    {"enable_op_launch", kCauses},
    {"enable_comm", kCauses},
    {"enable_dataloader", kCauses},
    {"enable_ckpt", kCauses},
    {"fail_slow_ops", kCauses},
    {"save_image", kChart},
    {"use_plot", kChart},
    {"record_kpi", kResult},
    {"max_num_normal_results", later("the result has all ranks")},
    {"look_back", later("a slowdown is reported once, and captured at most three times a run")},
    {"hccl_domain", kGroups},
    {"rank_table_json", kGroups},
    {"alarm_filter_window_size", kRanks},
    {"space_detector", kRanks},
    {"time_detector", kRanks},
    {"dist_metric", kRanks},
    {"eps", kRanks},
    {"cv_threshold", kRanks},
    {"preprocess_eps", kRanks},
    {"preprocess_min_samples", kRanks},
    {"n_sigma_method", kRanks},
    {"training_window_size", kRanks},
    {"min_update_window_size", kRanks},
    {"nsigma_coefficient", kRanks},
};

}  // namespace

std::string instead_of_systrace(std::string_view parameter) {
  std::string name(parameter.substr(std::min(parameter.find_first_not_of('-'), parameter.size())));
  std::replace(name.begin(), name.end(), '-', '_');
  const auto* found = std::find_if(std::begin(kParameters), std::end(kParameters),
                                   [&](const Parameter& p) { return p.name == name; });
  return found == std::end(kParameters) ? std::string() : base::cli_text(found->instead);
}

}  // namespace xpurun::launcher
