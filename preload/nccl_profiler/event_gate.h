// What NCCL is asked to report: one number for the whole process, which NCCL reads when a task is queued.
// Ours is set only while a collective is being called that is to be timed; the program's own plugin's always.
// NCCL must find the same number in all tasks of a point-to-point exchange: it changes only while no thread
// is in one. Any thread; nobody waits longer than it takes to write a few words.
#pragma once

namespace xpurun::preload {

// NCCL's number, from init. At most a few libraries of NCCL in a process.
void add_event_mask(int* mask);
// The last communicator is gone, and perhaps the library with it.
void forget_event_masks();
// What we ask for when we do; 0: nothing.
void set_own_events(int events);
int own_events();
// The program's own plugin's number, which it may change. nullptr: none.
void set_users_mask(const int* mask);
int users_events();

// False: a point-to-point exchange is going on, and nothing has changed.
bool ask_for_own_events();
void stop_asking();

void enter_exchange();
void leave_exchange();

// Lets NCCL's number follow what is wanted. `forget`: exchanges that began before timing went off will not be
// seen to end.
enum class Exchanges { keep, forget };
void refresh_event_masks(Exchanges exchanges);
// In a forked child: the threads that asked, or were in an exchange, are not there.
void forget_asking();

}  // namespace xpurun::preload
