// The events that NCCL is asked to report: one mask of event types for the whole process, which NCCL reads
// when it queues a task. This library's events are in the mask only during the call of a sampled collective;
// the events of the program's own plugin always are. NCCL must read the same mask for all tasks of a
// point-to-point group: the first task decides for its kernel, each task for its proxy's work, and a proxy
// that waits for a kernel without reports waits forever. So the mask changes only while no thread is in a
// point-to-point group. Any thread; waits only for the writing of a few words.
#pragma once

namespace xpurun::preload {

// NCCL's mask, as passed to the plugin's init. There is one per loaded NCCL library, rarely more than one.
void add_event_mask(int* mask);
// The last communicator is gone; the library with the mask may be unloaded next.
void forget_event_masks();
// The events that a sampled collective needs; 0: none.
void set_own_events(int events);
int own_events();
// The mask of the program's own plugin, which may change it at any time. nullptr: no plugin.
void set_users_mask(const int* mask);
int users_events();

// False: some thread is in a point-to-point group, and the mask stays unchanged.
bool ask_for_own_events();
void stop_asking();

// Around a point-to-point call, or around the group that contains it.
void enter_point_to_point();
void leave_point_to_point();

// Rewrites the mask if it should have changed. `forget`: the ends of point-to-point groups that began before
// timing was switched off will not be seen.
enum class OpenGroups { keep, forget };
void refresh_event_masks(OpenGroups groups);
// In a forked child, which lacks the threads that asked or were in a group.
void forget_asking();

}  // namespace xpurun::preload
