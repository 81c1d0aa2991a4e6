"""What a part of the bootstrap does to a module when the program has imported it. sitecustomize.py reads this file."""


def when_executed(spec, then):
    """The spec, whose loader has not run yet. Calls `then` with the module when the loader has run."""
    loader = spec.loader
    execute = loader.exec_module

    def exec_module(module):
        loader.__dict__.pop("exec_module", None)
        execute(module)
        try:
            if module.__name__ == spec.name:  # a zip file has one loader for all of its modules
                then(module)
        except Exception:
            pass

    # Python removes the frames of this name and file from the traceback of a failed import.
    exec_module.__code__ = exec_module.__code__.replace(co_filename="<frozen importlib._bootstrap_external>",
                                                        co_name="_call_with_frames_removed")
    loader.exec_module = exec_module
    return spec
