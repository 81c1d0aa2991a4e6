"""Lets XLA's plugin for CUDA, below JAX, find the hooks of the preload library (preload/core/late_binding.h).

sitecustomize.py reads this file when JAX imports the plugin. XLA looks up each function of NCCL and cuBLAS itself, when
it first calls the function. The plugin is loaded by then, and has called none.
"""
settings = globals()["settings"]  # given by sitecustomize.py

LIBRARIES = b"xla_cuda_plugin.so", b"pjrt_c_api_gpu_plugin.so"


def hook_plugin(module):
    real = module.initialize

    def initialize(*args, **kwargs):
        result = real(*args, **kwargs)
        bind()
        return result

    settings["frames"].add(initialize.__code__)
    module.initialize = initialize


def bind():
    try:
        import ctypes  # JAX has imported it
        bind_lookups = ctypes.CDLL(None).xpurun_bind_lookups
        for library in LIBRARIES:
            bind_lookups(library)
    except Exception:
        pass  # no preload library


def watched(spec):
    """`spec` belongs to the plugin, whose loader has not run yet; None if there is none."""
    return None if spec is None else settings["part"]("xpurun_watch")["when_executed"](spec, hook_plugin)
