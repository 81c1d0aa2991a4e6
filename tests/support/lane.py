"""The long lane: tests that ./bootstrap test leaves to ./bootstrap check. XPURUN_TESTS=long (meson test --setup long)
runs everything; without the variable, long tests are skipped and loops are short."""

import os
import unittest

LONG = os.environ.get("XPURUN_TESTS") == "long"
long = unittest.skipUnless(LONG, "long lane: XPURUN_TESTS=long")
