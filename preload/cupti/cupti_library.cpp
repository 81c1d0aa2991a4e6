#include "preload/cupti/cupti_library.h"

#include "preload/core/resolve.h"

#include <dlfcn.h>
#include <string.h>

namespace xpurun::preload::cupti {

namespace {

constexpr char kName[] = "libcupti.so";

// Places beside libcudart.so: in CUDA 13's wheels, in CUDA 12's, in a toolkit.
constexpr const char* kBeside[] = {"", "../../cuda_cupti/lib/", "../extras/CUPTI/lib64/"};
constexpr const char* kToolkit = "/usr/local/cuda/extras/CUPTI/lib64/";

// Opens libcupti.so.12 or libcupti.so.13 in the directory: the file name ends with CUDA's major version.
void* open_at(const char* directory, size_t length, const char* between, char digit) {
  char path[4096];
  const size_t middle = strlen(between);
  if (length + middle + sizeof(kName) + 3 > sizeof(path)) {
    return nullptr;
  }
  memcpy(path, directory, length);
  memcpy(path + length, between, middle);
  memcpy(path + length + middle, kName, sizeof(kName));
  const char ending[] = {'.', '1', digit, 0};
  memcpy(path + length + middle + sizeof(kName) - 1, ending, sizeof(ending));
  return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

// The last digit of the CUDA version, 12 or 13, because CUPTI must match the runtime; 0 if no runtime is
// loaded.
char runtime_digit(Dl_info& runtime) {
  void* function = find_in_library("libcudart.so", "cudaRuntimeGetVersion");
  using GetVersion = int(int*);
  int version = 0;
  if (function == nullptr || dladdr(function, &runtime) == 0 ||
      reinterpret_cast<GetVersion*>(function)(&version) != 0) {
    return 0;
  }
  return version >= 13000 ? '3' : '2';
}

void* open_library() {
  Dl_info runtime{};
  const char digit = runtime_digit(runtime);
  if (digit == 0) {
    return nullptr;
  }
  const char* slash = runtime.dli_fname == nullptr ? nullptr : strrchr(runtime.dli_fname, '/');
  // Beside the runtime first: the loader does not search the directories of CUDA's Python wheels.
  if (slash != nullptr) {
    for (const char* between : kBeside) {
      const auto length = static_cast<size_t>(slash - runtime.dli_fname) + 1;
      if (void* found = open_at(runtime.dli_fname, length, between, digit)) {
        return found;
      }
    }
  }
  void* found = open_at("", 0, "", digit);
  return found != nullptr ? found : open_at(kToolkit, strlen(kToolkit), "", digit);
}

// The reference is never dropped, so that the functions stay mapped.
class Library {
 public:
  // Whether the library is loaded, by the program or now.
  bool open() {
    loaded_ = find_in_library(kName, "cuptiGetVersion") != nullptr;
    own_ = loaded_ ? nullptr : open_library();
    return loaded_ || own_ != nullptr;
  }
  template <typename F>
  bool find(F& function, const char* name) const {
    void* found = loaded_ ? find_in_library(kName, name) : dlsym(own_, name);
    function = reinterpret_cast<F>(found);
    return found != nullptr;
  }

 private:
  bool loaded_ = false;
  void* own_ = nullptr;
};

}  // namespace

bool load_functions(Functions& out) {
  Library library;
  if (!library.open()) {
    dlerror();  // the program's next dlerror() must not report this failed search
    return false;
  }
  const bool complete =
      library.find(out.get_version, "cuptiGetVersion") &&
      library.find(out.get_timestamp, "cuptiGetTimestamp") && library.find(out.subscribe, "cuptiSubscribe") &&
      library.find(out.unsubscribe, "cuptiUnsubscribe") &&
      library.find(out.register_callbacks, "cuptiActivityRegisterCallbacks") &&
      library.find(out.enable, "cuptiActivityEnable") && library.find(out.disable, "cuptiActivityDisable") &&
      library.find(out.flush_all, "cuptiActivityFlushAll") &&
      library.find(out.next_record, "cuptiActivityGetNextRecord") &&
      library.find(out.dropped_records, "cuptiActivityGetNumDroppedRecords") &&
      library.find(out.callback_name, "cuptiGetCallbackName");
  // The recording works without the following functions.
  library.find(out.get_thread_id_type, "cuptiGetThreadIdType");
  library.find(out.set_thread_id_type, "cuptiSetThreadIdType");
  dlerror();
  return complete;
}

bool load_sampling_functions(SamplingFunctions& out) {
  Library library;
  const bool complete = library.open() && library.find(out.initialize, "cuptiProfilerInitialize") &&
                        library.find(out.deinitialize, "cuptiProfilerDeInitialize") &&
                        library.find(out.chip_name, "cuptiDeviceGetChipName") &&
                        library.find(out.availability, "cuptiPmSamplingGetCounterAvailability") &&
                        library.find(out.host_initialize, "cuptiProfilerHostInitialize") &&
                        library.find(out.host_deinitialize, "cuptiProfilerHostDeinitialize") &&
                        library.find(out.add_metrics, "cuptiProfilerHostConfigAddMetrics") &&
                        library.find(out.config_size, "cuptiProfilerHostGetConfigImageSize") &&
                        library.find(out.config_image, "cuptiProfilerHostGetConfigImage") &&
                        library.find(out.passes, "cuptiProfilerHostGetNumOfPasses") &&
                        library.find(out.evaluate, "cuptiProfilerHostEvaluateToGpuValues") &&
                        library.find(out.enable, "cuptiPmSamplingEnable") &&
                        library.find(out.disable, "cuptiPmSamplingDisable") &&
                        library.find(out.set_config, "cuptiPmSamplingSetConfig") &&
                        library.find(out.start, "cuptiPmSamplingStart") &&
                        library.find(out.stop, "cuptiPmSamplingStop") &&
                        library.find(out.image_size, "cuptiPmSamplingGetCounterDataSize") &&
                        library.find(out.image_initialize, "cuptiPmSamplingCounterDataImageInitialize") &&
                        library.find(out.decode, "cuptiPmSamplingDecodeData") &&
                        library.find(out.image_info, "cuptiPmSamplingGetCounterDataInfo") &&
                        library.find(out.sample_info, "cuptiPmSamplingCounterDataGetSampleInfo");
  dlerror();
  return complete;
}

}  // namespace xpurun::preload::cupti
