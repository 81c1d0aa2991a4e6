// What NCCL is asked to report: one mask of event types for the whole process, which NCCL reads when it
// queues a task. Our events are in the mask only while a collective that is a sample is being called; the
// events of the program's own plugin always are. NCCL must read the same mask for all tasks of a
// point-to-point group: it starts its kernel by the first task and its proxy's work by each, and a proxy that
// waits for a kernel which does not report waits for ever. So the mask changes only while no thread is in a
// point-to-point group. Any thread; a wait lasts no longer than writing a few words.
#pragma once

namespace xpurun::preload {

// NCCL's mask, as given to the plugin's init. A process has one a library of NCCL, rarely more than one.
void add_event_mask(int* mask);
// The last communicator is gone; the library that holds the mask may be unloaded next.
void forget_event_masks();
// The events that a sampled collective needs; 0: none.
void set_own_events(int events);
int own_events();
// The mask of the program's own plugin, which may change it at any time. nullptr: there is no plugin.
void set_users_mask(const int* mask);
int users_events();

// False: some thread is in a point-to-point group, and the mask stays as it is.
bool ask_for_own_events();
void stop_asking();

// Around a point-to-point call or the group that it is in.
void enter_point_to_point();
void leave_point_to_point();

// Writes the mask anew if it should have changed. `forget`: point-to-point groups that began before timing
// went off will not be seen to end.
enum class OpenGroups { keep, forget };
void refresh_event_masks(OpenGroups groups);
// In a forked child, where the threads that asked, or were in a group, do not exist.
void forget_asking();

}  // namespace xpurun::preload
