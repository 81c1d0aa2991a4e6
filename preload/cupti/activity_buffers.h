// The buffers that CUPTI fills. Their number is fixed: while all are full, CUPTI drops records and counts
// them. CUPTI calls back on threads of its own and of the program.
#pragma once

#include "common/wire/capture.h"
#include "preload/cupti/activity_writer.h"
#include "preload/cupti/cupti_abi.h"

namespace xpurun::preload::cupti {

// False without memory. `memory` and `cupti` must stay until close_buffers() has returned.
bool open_buffers(wire::CaptureSegment& memory, const Functions& cupti, int64_t to_host_ns, int32_t poller);
// From now on records are ignored, and CUPTI gets no buffer.
void close_buffers();
// No room for a further record.
bool are_records_full();

// For cuptiActivityRegisterCallbacks.
void buffer_requested(uint8_t** buffer, size_t* size, size_t* most_records);
void buffer_completed(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid);

}  // namespace xpurun::preload::cupti
