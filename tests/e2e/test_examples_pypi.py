"""examples/ that need packages of PyPI, in virtual environments made here: accelerate, Kubernetes' schema.

torch is Debian's (1.13), so accelerate is a release that works with it. Skipped where PyPI is out of reach. DeepSpeed
compiles an extension with torch's headers when it runs without GPUs, and Debian's torch has no headers.
"""

import shutil
import subprocess
import sys

import examples_test
import xpurun_test
from examples_test import EXAMPLES, needs_torch
from xpurun_test import PYTHON

KUBERNETES = "1.31"


class Pypi(examples_test.Case):
    hang_timeout = "6"

    def env(self, **more):
        return super().env(**{"ACCELERATE_USE_CPU": "true", "HF_HUB_OFFLINE": "1", **more})

    def install(self, *packages, options=("--system-site-packages",)):
        """Returns the bin directory of a new virtual environment, by default one with Debian's torch."""
        place = self.dir / "venv"
        subprocess.run([PYTHON, "-m", "venv", *options, place], check=True, capture_output=True)
        done = subprocess.run([place / "bin" / "pip", "install", "--quiet", "--no-build-isolation", *packages],
                              capture_output=True, text=True, timeout=300, env=self.env())
        if done.returncode != 0:
            reached = subprocess.run([place / "bin" / "pip", "download", "--no-deps", "--quiet", "--dest",
                                      self.dir / "try", "packaging"], capture_output=True, timeout=120)
            if reached.returncode != 0:
                self.skipTest("PyPI cannot be reached")
            self.fail(f"pip install {packages}: {done.stderr}")
        self.add_program("python3", place / "bin" / "python3")
        return place / "bin"

    def check_example(self, script):
        """A healthy run, then a hang."""
        healthy = self.run_here(script, timeout=250)
        self.assertEqual(healthy.returncode, 0, healthy.stderr + healthy.stdout)
        self.assertIn("2 ranks, 50 steps", healthy.stdout)
        shutil.rmtree(self.dir / "xpurun-runs")
        hung = self.run_here(script, "--hang", "1", timeout=250)
        self.assertEqual(hung.returncode, 124, hung.stderr)
        self.check_hang(1)

    @needs_torch
    def test_accelerate(self):
        programs = self.install("accelerate==0.27.2", "huggingface_hub==0.20.3")
        # torch 1.13 under Python 3.11 starts only with teed output, and accelerate hides torchrun's own variable.
        (self.programs / "accelerate").write_text(
            f'#!/bin/sh\nshift\nexec {programs}/accelerate launch --tee 1 "$@"\n')
        (self.programs / "accelerate").chmod(0o755)
        self.check_example(EXAMPLES / "accelerate" / "run.sh")

    def test_kubernetes(self):
        """Every document of the manifest fits Kubernetes' schema; a wrong field does not."""
        programs = self.install(f"kubernetes-validate=={KUBERNETES}.0", options=())  # Debian's jsonschema is too old

        def validate(text):
            path = self.dir / "job.yaml"
            path.write_text(text)
            return subprocess.run([programs / "kubernetes-validate", "--strict", "-k", KUBERNETES, path],
                                  capture_output=True, text=True, timeout=120)

        text = (EXAMPLES / "kubernetes" / "job.yaml").read_text()
        done = validate(text)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertNotEqual(validate(text.replace("completionMode:", "completeMode:")).returncode, 0)


if __name__ == "__main__":
    sys.exit(xpurun_test.main())
