#include "common/model/secrets/kept_environment.h"

#include "common/model/secrets/redact.h"

#include <algorithm>
#include <array>

namespace xpurun::model {

namespace {

constexpr auto kKeptNames = std::to_array<std::string_view>({
    // ranks
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "ROLE_NAME",
    "NODE_RANK",
    "NNODES",
    "NPROC_PER_NODE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
    "LSB_JOBID",
    "PBS_JOBID",
    "ENV_ARGO_WORKFLOW_NAME",
    "POD_NAME",
    "POD_IP",
    "POD_NAMESPACE",
    "NODE_NAME",
    "HOSTNAME",
    // programs and libraries
    "PATH",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LD_BIND_NOW",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "TOKENIZERS_PARALLELISM",
    "TRANSFORMERS_OFFLINE",
    "HF_HOME",
    "HF_HUB_OFFLINE",
    "HF_DATASETS_OFFLINE",
    "GLIBC_TUNABLES",
    "ASAN_OPTIONS",
    "UBSAN_OPTIONS",
    "LSAN_OPTIONS",
    "TSAN_OPTIONS",
    // host and user
    "HOME",
    "PWD",
    "SHELL",
    "USER",
    "TERM",
    "COLUMNS",
    "NO_COLOR",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "LANG",
    "LANGUAGE",
    "TZ",
    "CI",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
});

constexpr auto kBeginnings = std::to_array<std::string_view>({
    "SLURM_",    "OMPI_",    "PMI_",      "PMIX_",       "PALS_",          "MV2_",
    "HYDRA_",    "FLUX_",    "JSM_",      "PET_",        "TORCHELASTIC_",  //
    "CUDA_",     "NCCL_",    "RCCL_",     "TORCH_",      "TORCHINDUCTOR_", "TORCHDYNAMO_",
    "PYTORCH_",  "CUBLAS_",  "CUBLASLT_", "CUDNN_",      "NVIDIA_",        "NVTE_",
    "NVSHMEM_",  "GLOO_",    "TP_",       "UCX_",        "UCC_",           "FI_",
    "IBV_",      "MLX5_",    "HIP_",      "HSA_",        "ROCR_",          "MIOPEN_",
    "TRITON_",   "XLA_",     "OMP_",      "KMP_",        "GOMP_",          "MKL_",
    "OPENBLAS_", "NUMEXPR_", "BLIS_",     "ACCELERATE_", "FSDP_",          "DEEPSPEED_",
    "DS_",       "PYTHON",   "MALLOC_",   "LC_",         "XPU_TIMER_",     "XPURUN_",
});

}  // namespace

bool is_kept_variable(std::string_view name) {
  return std::find(kKeptNames.begin(), kKeptNames.end(), name) != kKeptNames.end() ||
         std::any_of(kBeginnings.begin(), kBeginnings.end(),
                     [name](std::string_view beginning) { return name.starts_with(beginning); });
}

KeptEnvironment keep_environment(const std::map<std::string, std::string>& env) {
  KeptEnvironment out;
  for (const auto& [name, value] : env) {
    if (!is_kept_variable(name)) {
      out.names.push_back(name);
    } else if (is_secret_name(name)) {
      out.values[name] = std::string(kMask);
    } else {
      out.values[name] = redact_text(value);
    }
  }
  return out;
}

}  // namespace xpurun::model
