#include "stackdump/options.h"

#include "common/base/strings.h"
#include "stackdump/native/symbol_cache.h"

#include <fmt/format.h>

#include <limits>

namespace xpurun::stackdump {

namespace {

base::Result<int64_t> number(std::string_view option, std::string_view text, int64_t least) {
  const auto v = base::parse_int(text);
  if (!v || *v < least || *v > std::numeric_limits<int32_t>::max()) {
    return base::fail(fmt::format("{}: '{}' is not a valid number", option, text));
  }
  return *v;
}

base::Result<Addr> address(std::string_view option, std::string_view text) {
  const auto found = text.starts_with("0x") ? base::parse_hex(text.substr(2)) : std::nullopt;
  if (!found) {
    return base::fail(fmt::format("{}: '{}' is not an address such as 0x7f00", option, text));
  }
  return *found;
}

base::Result<UnwinderKind> unwinder_kind(const std::string& value) {
  if (value == "own" || value == "libunwind") {
    return UnwinderKind::own;
  }
  if (value == "libdw") {
    return UnwinderKind::libdw;
  }
  if (value == "gdb") {
    return UnwinderKind::gdb;
  }
  return base::fail(fmt::format("--unwinder: '{}' is not own, libdw or gdb", value));
}

base::Result<GpuStacks> gpu_stacks(const std::string& value) {
  if (const auto gpu = model::from_name<GpuStacks>(value)) {
    return *gpu;
  }
  return base::fail(fmt::format("--gpu-stacks: '{}' is not auto, always or never", value));
}

base::Status set(Options& o, std::string_view name, const std::string& value) {
  if (name == "--out") {
    o.out = value;
  } else if (name == "--role") {
    const auto role = model::from_name<model::ProcessRole>(value);
    if (!role) {
      return base::fail(fmt::format("--role: '{}' is not a role", value));
    }
    o.role = *role;
  } else if (name == "--host") {
    o.host = value;
  } else if (name == "--pid") {
    XPURUN_TRY_ASSIGN(o.target.pid, number(name, value, 1));
  } else if (name == "--rank") {
    XPURUN_TRY_ASSIGN(o.rank, number(name, value, -1));
  } else if (name == "--local-rank") {
    XPURUN_TRY_ASSIGN(o.local_rank, number(name, value, -1));
  } else if (name == "--crash-tid") {
    XPURUN_TRY_ASSIGN(o.target.crash_tid, number(name, value, 1));
  } else if (name == "--deadline-ms") {
    XPURUN_TRY_ASSIGN(const int64_t ms, number(name, value, 1));
    o.target.deadline_ns = ms * 1'000'000;
  } else if (name == "--snapshot") {
    o.snapshot = value;
  } else if (name == "--from-snapshot") {
    o.from_snapshot = value;
  } else if (name == "--from-core") {
    o.from_core = value;
  } else if (name == "--program") {
    o.files.program = value;
  } else if (name == "--sysroot") {
    o.files.sysroot = value == "/" ? "" : value;
  } else if (name == "--symbols") {
    o.files.symbols = value;
  } else if (name == "--unwinder") {
    XPURUN_TRY_ASSIGN(o.resolve.unwinder, unwinder_kind(value));
  } else if (name == "--gdb") {
    o.debuggers.gdb = value;
  } else if (name == "--gdb-limit-ms") {
    XPURUN_TRY_ASSIGN(const int64_t ms, number(name, value, 1));
    o.debuggers.gdb_limit_ns = ms * 1'000'000;
  } else if (name == "--loop-limit-ms") {
    XPURUN_TRY_ASSIGN(const int64_t ms, number(name, value, 1));
    o.loop_limit_ns = ms * 1'000'000;
  } else if (name == "--gpu-stacks") {
    XPURUN_TRY_ASSIGN(o.debuggers.gpu, gpu_stacks(value));
  } else if (name == "--cuda-gdb") {
    o.debuggers.cuda_gdb = value;
  } else if (name == "--gpu-limit-ms") {
    XPURUN_TRY_ASSIGN(const int64_t ms, number(name, value, 1));
    o.debuggers.gpu_limit_ns = ms * 1'000'000;
  } else if (name == "--symbol-cache") {
    o.resolve.cache_directory = value == "none" ? "" : value;
  } else if (name == "--lines-ms") {
    XPURUN_TRY_ASSIGN(const int64_t ms, number(name, value, 0));
    o.resolve.line_budget_ns = ms * 1'000'000;
  } else if (name == "--crash-ucontext") {
    XPURUN_TRY_ASSIGN(o.target.crash_ucontext, address(name, value));
  } else if (name == "--place") {
    XPURUN_TRY_ASSIGN(const Addr place, address(name, value));
    o.places.push_back(place);
  } else if (name == "--mapping") {
    o.mappings += value + '\n';
  } else {
    return base::fail(fmt::format("unknown option '{}'", name));
  }
  return {};
}

}  // namespace

base::Result<Options> parse_options(const std::vector<std::string>& args) {
  Options o;
  o.resolve.cache_directory = SymbolCache::default_directory();
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--barrier") {
      o.barrier = true;
      continue;
    }
    if (args[i] == "--loops" || args[i] == "--look" || args[i] == "--look-at-stack") {
      o.loops |= args[i] != "--look-at-stack";
      o.look |= args[i] != "--loops";
      continue;
    }
    if (args[i] == "--no-stop") {
      o.target.stop = StopMode::never;
      continue;
    }
    if (args[i] == "--module-calls") {
      o.target.module_calls = true;
      continue;
    }
    if (args[i] == "--locals") {
      o.target.locals = LocalVariables::read;
      continue;
    }
    const size_t eq = args[i].find('=');
    const std::string name = args[i].substr(0, eq);
    if (eq == std::string::npos && i + 1 == args.size()) {
      return base::fail(fmt::format("{} needs a value", name));
    }
    XPURUN_TRY(set(o, name, eq == std::string::npos ? args[++i] : args[i].substr(eq + 1)));
  }
  const int sources =
      (o.target.pid != 0 ? 1 : 0) + (o.from_snapshot.empty() ? 0 : 1) + (o.from_core.empty() ? 0 : 1);
  if ((o.out.empty() && o.places.empty() && !o.look) || sources != 1) {
    return base::fail("--out and one of --pid, --from-snapshot and --from-core are required");
  }
  if ((o.target.crash_tid == 0) != (o.target.crash_ucontext == 0)) {
    return base::fail("--crash-tid and --crash-ucontext must be given together");
  }
  return o;
}

}  // namespace xpurun::stackdump
