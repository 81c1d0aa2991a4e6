// Readings of GPUs' hardware counters, in words. Pure.
#pragma once

#include "common/model/speed/gpu_capture.h"

#include <string>
#include <vector>

namespace xpurun::report {

// "96.8 %", "12.3 GB/s"; "" if negative.
std::string resource_amount(wire::Resource resource, double value);
// "tensor 96.8 % (spread 1.2 %)": the resource that fits the work; empty without samples.
std::string fitting_words(const model::CapturedWork& work);

// How many samples there are and their cost, mean and spread of each rank, the ranks without samples and why.
std::vector<std::string> resource_sentences(const model::GpuCapture& capture);

}  // namespace xpurun::report
