// The environment variables through which launchers give processes their ranks. The supervisor names ranks by
// them; the preload library recognises ranks and names log files by them. One table keeps both consistent.
//
// Freestanding: shared by preload/ and launcher/.
#pragma once

#include <stdint.h>

namespace xpurun::wire {

// In order of precedence: if a job has several kinds, only the first counts. A torchrun agent started by srun
// has Slurm's variables too, but is not a rank.
// `group`: no variables; the process has said which rank of torch's default process group it is.
enum class IdentityKind : uint8_t { torchrun, plain, slurm, openmpi, pmi, group, single };

struct IdentityVariables {
  IdentityKind kind;
  const char* rank;
  const char* local_rank;  // empty: this launcher sets none
  const char* world_size;  // empty: this launcher sets none
  const char* local_size;  // ranks on this node; empty: this launcher sets none
  bool needs_local_rank;   // without it the rank may belong to a pod instead of a process
  bool needs_world_size;   // RANK alone is too common a name to number a job's processes
  bool is_per_process;     // false: a launcher below (torchrun in a pod or in a Slurm task) may pass the same
                           // value to several processes
};

inline constexpr IdentityVariables kIdentityVariables[] = {
    {IdentityKind::torchrun, "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", true, false, true},
    {IdentityKind::plain, "RANK", "", "WORLD_SIZE", "", false, true, false},
    {IdentityKind::slurm, "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "", false, false, false},
    {IdentityKind::openmpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_SIZE", false, false, true},
    {IdentityKind::pmi, "PMIX_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS", false, false, true},
    {IdentityKind::pmi, "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS", false, false, true},
    {IdentityKind::pmi, "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_SIZE",
     "MV2_COMM_WORLD_LOCAL_SIZE", false, false, true},
    {IdentityKind::pmi, "PALS_RANKID", "PALS_LOCAL_RANKID", "", "", false, false, true},
};

// Programs that run between a launcher and the rank, with the environment of the rank already set.
inline constexpr const char* kWrapperPrograms[] = {
    "ash",  "bash",    "busybox", "csh",     "dash",  "env",    "fish",    "gdb",      "ksh",
    "mksh", "nice",    "nohup",   "nsys",    "sh",    "stdbuf", "strace",  "setsid",   "sudo",
    "tcsh", "taskset", "time",    "timeout", "xargs", "zsh",    "numactl", "valgrind",
};

}  // namespace xpurun::wire
