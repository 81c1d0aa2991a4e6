// On which stack the functions of a capture were seen most often. Pure.
#pragma once

#include "common/model/speed/capture_report.h"
#include "report/profile/profile.h"

#include <string>
#include <vector>

namespace xpurun::report {

// Whether the frame is code of the program itself, not of a library.
bool is_own_code(const ProfileFrame& frame);

// "torch.nn.modules.linear.Linear.forward": the module by the file, and the function with its class where
// Python says so (from 3.11 on).
std::string full_name(const ProfileFrame& frame);

// Sets CapturedFunction::stack of each row: the stack from the outermost function of the program to the row's
// function that has most samples of the ranks that stand out, or of all ranks.
void set_stacks(std::vector<model::CapturedFunction>& rows, const Profile& profile);

}  // namespace xpurun::report
