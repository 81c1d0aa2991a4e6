// The MPI functions that the preload library hooks: name, what the function does, and which of its arguments
// say so. The numbers are part of the wire layout (mpi_segment.h): append, never reorder.
//
// Freestanding: shared by preload/ and launcher/.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace xpurun::wire {

enum class MpiKind : uint8_t {
  none,
  start,             // MPI_Init
  end,               // MPI_Finalize
  abort,             // MPI_Abort
  collective,        // all ranks of the communicator call the function
  async_collective,  // the same, with a request
  send,
  receive,
  async_send,
  async_receive,
  send_receive,
  probe,         // waits for a message, without receiving it
  claim,         // MPI_Mprobe: waits for a message and takes it out of the queue
  poll_probe,    // returns at once, with a flag
  poll_claim,    // the same for MPI_Improbe
  prepare_send,  // a persistent request, which begins with MPI_Start
  prepare_receive,
  prepare_collective,  // a collective that makes a persistent request
  ready,               // MPI_Pready: part of a message may go
  ready_range,
  ready_list,
  poll_part,  // MPI_Parrived
  begin,      // MPI_Start
  begin_all,  // MPI_Startall
  wait,
  wait_all,
  wait_any,
  wait_some,
  test,
  test_all,
  test_any,
  test_some,
  free_request,
  make_comm,    // a collective that makes a communicator
  join_groups,  // the same for an intercommunicator, whose leaders send each other messages
  make_window,  // a collective that makes a window, or opens a file
  end_comm,     // a collective that ends a communicator
  name_comm,
  window,      // a collective of the ranks of a window or file
  end_window,  // the same, and ends the window
  lock,        // MPI_Win_lock: may wait for the rank that holds the lock
  lock_all,
  unlock,
  unlock_all,
  flush,  // a one-sided operation, or waits for its target; both may wait for a lock
  post,   // MPI_Win_post, MPI_Win_start: begin an epoch with the ranks of a group
  access,
  complete,  // MPI_Win_complete, MPI_Win_wait, MPI_Win_test: end the epoch
  window_wait,
  window_test,
  commit_type,
  parent,  // MPI_Comm_get_parent
};

// The positions of arguments, from 0; kNoArgument: the function has none.
struct MpiArguments {
  uint8_t count;
  uint8_t type;
  uint8_t peer;  // or root, or the target of a lock
  uint8_t tag;
  uint8_t comm;    // or the window
  uint8_t handle;  // of a request (or the array of requests), or of the communicator that is made
};
inline constexpr uint8_t kNoArgument = 31;

// X(name, number of arguments, kind, operation, count, type, peer, tag, comm, handle); 31 is kNoArgument.
// The operation is the word that all sources of recorded calls share (common/model/collectives.h).
#define XPURUN_MPI_FUNCTIONS(X)                                                                        \
  X(MPI_Init, 2, start, "init", 31, 31, 31, 31, 31, 31)                                                \
  X(MPI_Init_thread, 4, start, "init", 31, 31, 31, 31, 31, 31)                                         \
  X(MPI_Finalize, 0, end, "finalize", 31, 31, 31, 31, 31, 31)                                          \
  X(MPI_Abort, 2, abort, "abort", 31, 31, 31, 31, 0, 31)                                               \
  X(MPI_Send, 6, send, "send", 1, 2, 3, 4, 5, 31)                                                      \
  X(MPI_Ssend, 6, send, "send", 1, 2, 3, 4, 5, 31)                                                     \
  X(MPI_Bsend, 6, send, "send", 1, 2, 3, 4, 5, 31)                                                     \
  X(MPI_Rsend, 6, send, "send", 1, 2, 3, 4, 5, 31)                                                     \
  X(MPI_Recv, 7, receive, "recv", 1, 2, 3, 4, 5, 31)                                                   \
  X(MPI_Isend, 7, async_send, "send", 1, 2, 3, 4, 5, 6)                                                \
  X(MPI_Issend, 7, async_send, "send", 1, 2, 3, 4, 5, 6)                                               \
  X(MPI_Ibsend, 7, async_send, "send", 1, 2, 3, 4, 5, 6)                                               \
  X(MPI_Irsend, 7, async_send, "send", 1, 2, 3, 4, 5, 6)                                               \
  X(MPI_Irecv, 7, async_receive, "recv", 1, 2, 3, 4, 5, 6)                                             \
  X(MPI_Sendrecv, 12, send_receive, "send", 1, 2, 3, 4, 10, 31)                                        \
  X(MPI_Sendrecv_replace, 9, send_receive, "send", 1, 2, 3, 4, 7, 31)                                  \
  X(MPI_Probe, 4, probe, "recv", 31, 31, 0, 1, 2, 31)                                                  \
  X(MPI_Mprobe, 5, claim, "recv", 31, 31, 0, 1, 2, 31)                                                 \
  X(MPI_Iprobe, 5, poll_probe, "recv", 31, 31, 0, 1, 2, 31)                                            \
  X(MPI_Improbe, 6, poll_claim, "recv", 31, 31, 0, 1, 2, 31)                                           \
  X(MPI_Send_init, 7, prepare_send, "send", 1, 2, 3, 4, 5, 6)                                          \
  X(MPI_Ssend_init, 7, prepare_send, "send", 1, 2, 3, 4, 5, 6)                                         \
  X(MPI_Bsend_init, 7, prepare_send, "send", 1, 2, 3, 4, 5, 6)                                         \
  X(MPI_Rsend_init, 7, prepare_send, "send", 1, 2, 3, 4, 5, 6)                                         \
  X(MPI_Recv_init, 7, prepare_receive, "recv", 1, 2, 3, 4, 5, 6)                                       \
  X(MPI_Start, 1, begin, "start", 31, 31, 31, 31, 31, 0)                                               \
  X(MPI_Startall, 2, begin_all, "start", 0, 31, 31, 31, 31, 1)                                         \
  X(MPI_Wait, 2, wait, "wait", 31, 31, 31, 31, 31, 0)                                                  \
  X(MPI_Waitall, 3, wait_all, "wait", 0, 31, 31, 31, 31, 1)                                            \
  X(MPI_Waitany, 4, wait_any, "wait", 0, 31, 31, 31, 31, 1)                                            \
  X(MPI_Waitsome, 5, wait_some, "wait", 0, 31, 31, 31, 31, 1)                                          \
  X(MPI_Test, 3, test, "test", 31, 31, 31, 31, 31, 0)                                                  \
  X(MPI_Testall, 4, test_all, "test", 0, 31, 31, 31, 31, 1)                                            \
  X(MPI_Testany, 5, test_any, "test", 0, 31, 31, 31, 31, 1)                                            \
  X(MPI_Testsome, 5, test_some, "test", 0, 31, 31, 31, 31, 1)                                          \
  X(MPI_Request_free, 1, free_request, "request_free", 31, 31, 31, 31, 31, 0)                          \
  X(MPI_Barrier, 1, collective, "barrier", 31, 31, 31, 31, 0, 31)                                      \
  X(MPI_Bcast, 5, collective, "broadcast", 1, 2, 3, 31, 4, 31)                                         \
  X(MPI_Reduce, 7, collective, "reduce", 2, 3, 5, 31, 6, 31)                                           \
  X(MPI_Allreduce, 6, collective, "all_reduce", 2, 3, 31, 31, 5, 31)                                   \
  X(MPI_Gather, 8, collective, "gather", 1, 2, 6, 31, 7, 31)                                           \
  X(MPI_Gatherv, 9, collective, "gatherv", 31, 31, 7, 31, 8, 31)                                       \
  X(MPI_Scatter, 8, collective, "scatter", 4, 5, 6, 31, 7, 31)                                         \
  X(MPI_Scatterv, 9, collective, "scatterv", 31, 31, 7, 31, 8, 31)                                     \
  X(MPI_Allgather, 7, collective, "all_gather", 4, 5, 31, 31, 6, 31)                                   \
  X(MPI_Allgatherv, 8, collective, "allgatherv", 31, 31, 31, 31, 7, 31)                                \
  X(MPI_Alltoall, 7, collective, "all_to_all", 4, 5, 31, 31, 6, 31)                                    \
  X(MPI_Alltoallv, 9, collective, "alltoallv", 31, 31, 31, 31, 8, 31)                                  \
  X(MPI_Alltoallw, 9, collective, "alltoallw", 31, 31, 31, 31, 8, 31)                                  \
  X(MPI_Reduce_scatter, 6, collective, "reduce_scatter", 31, 31, 31, 31, 5, 31)                        \
  X(MPI_Reduce_scatter_block, 6, collective, "reduce_scatter_block", 2, 3, 31, 31, 5, 31)              \
  X(MPI_Scan, 6, collective, "scan", 2, 3, 31, 31, 5, 31)                                              \
  X(MPI_Exscan, 6, collective, "exscan", 2, 3, 31, 31, 5, 31)                                          \
  X(MPI_Neighbor_allgather, 7, collective, "neighbor_allgather", 31, 31, 31, 31, 6, 31)                \
  X(MPI_Neighbor_allgatherv, 8, collective, "neighbor_allgatherv", 31, 31, 31, 31, 7, 31)              \
  X(MPI_Neighbor_alltoall, 7, collective, "neighbor_alltoall", 31, 31, 31, 31, 6, 31)                  \
  X(MPI_Neighbor_alltoallv, 9, collective, "neighbor_alltoallv", 31, 31, 31, 31, 8, 31)                \
  X(MPI_Ibarrier, 2, async_collective, "ibarrier", 31, 31, 31, 31, 0, 1)                               \
  X(MPI_Ibcast, 6, async_collective, "ibcast", 1, 2, 3, 31, 4, 5)                                      \
  X(MPI_Ireduce, 8, async_collective, "ireduce", 2, 3, 5, 31, 6, 7)                                    \
  X(MPI_Iallreduce, 7, async_collective, "iallreduce", 2, 3, 31, 31, 5, 6)                             \
  X(MPI_Igather, 9, async_collective, "igather", 31, 31, 6, 31, 7, 8)                                  \
  X(MPI_Igatherv, 10, async_collective, "igatherv", 31, 31, 7, 31, 8, 9)                               \
  X(MPI_Iscatter, 9, async_collective, "iscatter", 31, 31, 6, 31, 7, 8)                                \
  X(MPI_Iscatterv, 10, async_collective, "iscatterv", 31, 31, 7, 31, 8, 9)                             \
  X(MPI_Iallgather, 8, async_collective, "iallgather", 4, 5, 31, 31, 6, 7)                             \
  X(MPI_Iallgatherv, 9, async_collective, "iallgatherv", 31, 31, 31, 31, 7, 8)                         \
  X(MPI_Ialltoall, 8, async_collective, "ialltoall", 4, 5, 31, 31, 6, 7)                               \
  X(MPI_Ialltoallv, 10, async_collective, "ialltoallv", 31, 31, 31, 31, 8, 9)                          \
  X(MPI_Ialltoallw, 10, async_collective, "ialltoallw", 31, 31, 31, 31, 8, 9)                          \
  X(MPI_Ireduce_scatter, 7, async_collective, "ireduce_scatter", 31, 31, 31, 31, 5, 6)                 \
  X(MPI_Ireduce_scatter_block, 7, async_collective, "ireduce_scatter_block", 2, 3, 31, 31, 5, 6)       \
  X(MPI_Iscan, 7, async_collective, "iscan", 2, 3, 31, 31, 5, 6)                                       \
  X(MPI_Iexscan, 7, async_collective, "iexscan", 2, 3, 31, 31, 5, 6)                                   \
  X(MPI_Comm_dup, 2, make_comm, "comm_dup", 31, 31, 31, 31, 0, 1)                                      \
  X(MPI_Comm_dup_with_info, 3, make_comm, "comm_dup", 31, 31, 31, 31, 0, 2)                            \
  X(MPI_Comm_split, 4, make_comm, "comm_split", 31, 31, 31, 31, 0, 3)                                  \
  X(MPI_Comm_split_type, 5, make_comm, "comm_split_type", 31, 31, 31, 31, 0, 4)                        \
  X(MPI_Comm_create, 3, make_comm, "comm_create", 31, 31, 31, 31, 0, 2)                                \
  X(MPI_Comm_create_group, 4, make_comm, "comm_create_group", 31, 31, 31, 31, 31, 3)                   \
  X(MPI_Cart_create, 6, make_comm, "cart_create", 31, 31, 31, 31, 0, 5)                                \
  X(MPI_Cart_sub, 3, make_comm, "cart_sub", 31, 31, 31, 31, 0, 2)                                      \
  X(MPI_Graph_create, 6, make_comm, "graph_create", 31, 31, 31, 31, 0, 5)                              \
  X(MPI_Dist_graph_create, 9, make_comm, "dist_graph_create", 31, 31, 31, 31, 0, 8)                    \
  X(MPI_Dist_graph_create_adjacent, 10, make_comm, "dist_graph_create_adjacent", 31, 31, 31, 31, 0, 9) \
  X(MPI_Intercomm_create, 6, join_groups, "intercomm_create", 31, 31, 31, 31, 0, 5)                    \
  X(MPI_Intercomm_merge, 3, make_comm, "intercomm_merge", 31, 31, 31, 31, 0, 2)                        \
  X(MPI_Comm_free, 1, end_comm, "comm_free", 31, 31, 31, 31, 31, 0)                                    \
  X(MPI_Comm_disconnect, 1, end_comm, "comm_disconnect", 31, 31, 31, 31, 31, 0)                        \
  X(MPI_Comm_set_name, 2, name_comm, "comm_set_name", 31, 31, 31, 31, 0, 31)                           \
  X(MPI_Win_create, 6, make_window, "win_create", 31, 31, 31, 31, 4, 5)                                \
  X(MPI_Win_allocate, 6, make_window, "win_allocate", 31, 31, 31, 31, 3, 5)                            \
  X(MPI_Win_allocate_shared, 6, make_window, "win_allocate_shared", 31, 31, 31, 31, 3, 5)              \
  X(MPI_Win_create_dynamic, 3, make_window, "win_create_dynamic", 31, 31, 31, 31, 1, 2)                \
  X(MPI_Win_fence, 2, window, "win_fence", 31, 31, 31, 31, 1, 31)                                      \
  X(MPI_Win_free, 1, end_window, "win_free", 31, 31, 31, 31, 31, 0)                                    \
  X(MPI_Win_lock, 4, lock, "win_lock", 31, 31, 1, 0, 3, 31)                                            \
  X(MPI_Win_lock_all, 2, lock_all, "win_lock_all", 31, 31, 31, 31, 1, 31)                              \
  X(MPI_Win_unlock, 2, unlock, "win_unlock", 31, 31, 0, 31, 1, 31)                                     \
  X(MPI_Win_unlock_all, 1, unlock_all, "win_unlock_all", 31, 31, 31, 31, 0, 31)                        \
  X(MPI_Win_flush, 2, flush, "win_flush", 31, 31, 0, 31, 1, 31)                                        \
  X(MPI_Win_flush_all, 1, flush, "win_flush_all", 31, 31, 31, 31, 0, 31)                               \
  X(MPI_Win_flush_local, 2, flush, "win_flush_local", 31, 31, 0, 31, 1, 31)                            \
  X(MPI_Win_start, 3, access, "recv", 31, 31, 31, 31, 2, 0)                                            \
  X(MPI_Win_complete, 1, complete, "send", 31, 31, 31, 31, 0, 31)                                      \
  X(MPI_Win_wait, 1, window_wait, "recv", 31, 31, 31, 31, 0, 31)                                       \
  X(MPI_File_open, 5, make_window, "file_open", 31, 31, 31, 31, 0, 4)                                  \
  X(MPI_File_close, 1, end_window, "file_close", 31, 31, 31, 31, 31, 0)                                \
  X(MPI_File_set_view, 6, window, "file_set_view", 31, 31, 31, 31, 0, 31)                              \
  X(MPI_File_set_size, 2, window, "file_set_size", 31, 31, 31, 31, 0, 31)                              \
  X(MPI_File_sync, 1, window, "file_sync", 31, 31, 31, 31, 0, 31)                                      \
  X(MPI_File_read_all, 5, window, "file_read_all", 31, 31, 31, 31, 0, 31)                              \
  X(MPI_File_write_all, 5, window, "file_write_all", 31, 31, 31, 31, 0, 31)                            \
  X(MPI_File_read_at_all, 6, window, "file_read_at_all", 31, 31, 31, 31, 0, 31)                        \
  X(MPI_File_write_at_all, 6, window, "file_write_at_all", 31, 31, 31, 31, 0, 31)                      \
  X(MPI_Get, 8, flush, "win_flush", 1, 2, 3, 31, 7, 31)                                                \
  X(MPI_Put, 8, flush, "win_flush", 1, 2, 3, 31, 7, 31)                                                \
  X(MPI_Accumulate, 9, flush, "win_flush", 1, 2, 3, 31, 8, 31)                                         \
  X(MPI_Get_accumulate, 12, flush, "win_flush", 1, 2, 6, 31, 11, 31)                                   \
  X(MPI_Fetch_and_op, 7, flush, "win_flush", 31, 31, 3, 31, 6, 31)                                     \
  X(MPI_Compare_and_swap, 7, flush, "win_flush", 31, 31, 4, 31, 6, 31)                                 \
  X(MPI_Type_commit, 1, commit_type, "type_commit", 31, 31, 31, 31, 31, 0)                             \
  X(MPI_Win_post, 3, post, "recv", 31, 31, 31, 31, 2, 0)                                               \
  X(MPI_Win_test, 2, window_test, "recv", 31, 31, 31, 31, 0, 31)                                       \
  X(MPI_Win_flush_local_all, 1, flush, "win_flush", 31, 31, 31, 31, 0, 31)                             \
  X(MPI_Comm_spawn, 8, make_comm, "comm_spawn", 31, 31, 4, 31, 5, 6)                                   \
  X(MPI_Comm_spawn_multiple, 9, make_comm, "comm_spawn_multiple", 31, 31, 5, 31, 6, 7)                 \
  X(MPI_Comm_accept, 5, make_comm, "comm_accept", 31, 31, 2, 31, 3, 4)                                 \
  X(MPI_Comm_connect, 5, make_comm, "comm_connect", 31, 31, 2, 31, 3, 4)                               \
  X(MPI_Comm_get_parent, 1, parent, "comm_get_parent", 31, 31, 31, 31, 31, 0)                          \
  X(MPI_Psend_init, 9, prepare_send, "send", 2, 3, 4, 5, 6, 8)                                         \
  X(MPI_Precv_init, 9, prepare_receive, "recv", 2, 3, 4, 5, 6, 8)                                      \
  X(MPI_Pready, 2, ready, "pready", 31, 31, 31, 31, 31, 1)                                             \
  X(MPI_Pready_range, 3, ready_range, "pready", 31, 31, 31, 31, 31, 2)                                 \
  X(MPI_Pready_list, 3, ready_list, "pready", 0, 31, 31, 31, 31, 2)                                    \
  X(MPI_Parrived, 3, poll_part, "parrived", 31, 31, 31, 31, 31, 0)                                     \
  X(MPI_Barrier_init, 3, prepare_collective, "barrier_init", 31, 31, 31, 31, 0, 2)                     \
  X(MPI_Bcast_init, 7, prepare_collective, "broadcast_init", 1, 2, 3, 31, 4, 6)                        \
  X(MPI_Reduce_init, 9, prepare_collective, "reduce_init", 2, 3, 5, 31, 6, 8)                          \
  X(MPI_Allreduce_init, 8, prepare_collective, "all_reduce_init", 2, 3, 31, 31, 5, 7)                  \
  X(MPI_Gather_init, 10, prepare_collective, "gather_init", 31, 31, 6, 31, 7, 9)                       \
  X(MPI_Scatter_init, 10, prepare_collective, "scatter_init", 31, 31, 6, 31, 7, 9)                     \
  X(MPI_Allgather_init, 9, prepare_collective, "all_gather_init", 4, 5, 31, 31, 6, 8)                  \
  X(MPI_Alltoall_init, 9, prepare_collective, "all_to_all_init", 4, 5, 31, 31, 6, 8)                   \
  X(MPI_Alltoallv_init, 11, prepare_collective, "alltoallv_init", 31, 31, 31, 31, 8, 10)               \
  X(MPI_Scan_init, 8, prepare_collective, "scan_init", 2, 3, 31, 31, 5, 7)                             \
  X(MPI_Reduce_scatter_block_init, 8, prepare_collective, "reduce_scatter_block_init", 2, 3, 31, 31, 5, 7)

// Classes of errors, by number in MPICH and its relatives; other libraries' are translated by name.
inline constexpr const char* kMpiErrors[] = {
    "MPI_SUCCESS",      "MPI_ERR_BUFFER", "MPI_ERR_COUNT",     "MPI_ERR_TYPE",    "MPI_ERR_TAG",
    "MPI_ERR_COMM",     "MPI_ERR_RANK",   "MPI_ERR_ROOT",      "MPI_ERR_GROUP",   "MPI_ERR_OP",
    "MPI_ERR_TOPOLOGY", "MPI_ERR_DIMS",   "MPI_ERR_ARG",       "MPI_ERR_UNKNOWN", "MPI_ERR_TRUNCATE",
    "MPI_ERR_OTHER",    "MPI_ERR_INTERN", "MPI_ERR_IN_STATUS", "MPI_ERR_PENDING", "MPI_ERR_REQUEST",
};
inline constexpr size_t kMpiErrorCount = sizeof(kMpiErrors) / sizeof(kMpiErrors[0]);

enum class MpiFunction : uint16_t {
  none,
#define XPURUN_MPI_ENUM(name, n, kind, op, count, type, peer, tag, comm, handle) name,
  XPURUN_MPI_FUNCTIONS(XPURUN_MPI_ENUM)
#undef XPURUN_MPI_ENUM
};

struct MpiFunctionInfo {
  const char* name;
  const char* op;
  MpiKind kind;
  MpiArguments at;
};

inline constexpr MpiFunctionInfo kMpiFunctions[] = {{"", "", MpiKind::none, {31, 31, 31, 31, 31, 31}},
#define XPURUN_MPI_INFO(name, n, kind, op, count, type, peer, tag, comm, handle) \
  {#name, op, MpiKind::kind, {count, type, peer, tag, comm, handle}},
                                                    XPURUN_MPI_FUNCTIONS(XPURUN_MPI_INFO)
#undef XPURUN_MPI_INFO
};
inline constexpr size_t kMpiFunctionCount = sizeof(kMpiFunctions) / sizeof(kMpiFunctions[0]);

}  // namespace xpurun::wire
