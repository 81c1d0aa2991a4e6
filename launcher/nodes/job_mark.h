// JobMark: what the launcher and the scheduler have told one node of its job. Two jobs may have one name and
// one server; their marks differ. Plain data; pure functions.
#pragma once

#include <string>

namespace xpurun::launcher {

// Empty or 0: not known.
struct JobMark {
  std::string run_id;     // TORCHELASTIC_RUN_ID
  std::string scheduler;  // id of the scheduler's or of MPI's job
  std::string address;    // MASTER_ADDR
  std::string port;       // MASTER_PORT
  int world_size = 0;
};

// False if the nodes belong to different jobs for certain: a fact that both know, and that all nodes of a job
// share, differs.
bool may_be_one_job(const JobMark& a, const JobMark& b);

}  // namespace xpurun::launcher
