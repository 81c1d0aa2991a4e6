"""The page's JavaScript and the static picture's C++ make the same trees of the same stacks, node for node.

usage: forest_test.py REPORT_TOOL MAKE_RUN.py NODE FOREST.js STACKMODEL.js
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

TOOL, MAKE_RUN, NODE, FOREST, STACKMODEL = sys.argv[1:6]
LAYERS = ["merged", "python", "native"]


def python_frame(n):
    return {"kind": "python", "func": f"f{n}", "file": f"/home/u/project/m{n % 3}.py", "line": 1 + n % 7}


def native_frame(n):
    frame = {"kind": "native", "func": f"n{n}", "module": f"lib{n % 4}.so", "pc": f"0x7f{n:04x}", "offset": f"0x{n:x}"}
    return {**frame, "func": "_PyEval_EvalFrameDefault", "eval": True} if n % 9 == 8 else frame


def thread(source, tid, main, deepest=12):
    kinds = source.choice([(python_frame,), (native_frame,), (python_frame, native_frame)])
    frames = [source.choice(kinds)(source.randrange(6)) for _ in range(source.randrange(deepest))]
    if source.random() < 0.1:
        frames.insert(0, {"kind": source.choice(["kernel", "gpu", "marker"]), "func": "why"})
    return {"tid": tid, "comm": source.choice(["python3", "pt_autograd_3", "gloo_1", "näme"]), "main": main,
            "state": source.choice("RSD"), "gil": source.choice(["", "holder", "waiting", "dropping"]),
            "frames": frames}


def process(source, pid, role, rank, threads, host="a"):
    out = {"schema": "xpurun.stacks/1", "host": host, "pid": pid, "rank": rank, "role": role, "comm": "python3",
           "status": "ok", "threads": [thread(source, pid + i, i == 0) for i in range(threads)]}
    if not threads:
        out.update(status="failed", reason="it ended")
    return out


def random_job(seed, ranks):
    """Processes of every role; ranks have gaps, and a few ranks stand elsewhere than the majority."""
    source = random.Random(seed)
    numbers = sorted(source.sample(range(2 * ranks), ranks))
    common = thread(source, 1, True)
    out = []
    for pid, rank in enumerate(numbers, 100):
        p = process(source, pid * 100, "rank", rank, source.choice([0, 1, 2, 5]))
        if p["threads"] and source.random() < 0.9:
            p["threads"][0] = common
        out.append(p)
        if source.random() < 0.3:
            out.append(process(source, pid * 100 + 50, "worker", rank, 2))
    for i, role in enumerate(["agent", "other", "other"]):
        out.append(process(source, 10 + i, role, None, 2, f"host{i % 2}"))
    return out


class ForestTest(unittest.TestCase):

    def compare(self, directory):
        printed = subprocess.run([TOOL, "forest", directory], stdout=subprocess.PIPE, check=True).stdout
        page = json.loads(
            subprocess.run([NODE, FOREST, STACKMODEL], input=printed, stdout=subprocess.PIPE, check=True).stdout
        )
        picture = json.loads(printed)["layers"]
        self.assertEqual(sorted(picture), sorted(LAYERS))
        compared = 0
        for layer in LAYERS:
            self.assertEqual(len(picture[layer]), len(page[layer]), layer)
            for number, (ours, theirs) in enumerate(zip(picture[layer], page[layer])):
                self.assertEqual(len(ours), len(theirs), (layer, number))
                for a, b in zip(ours, theirs):
                    where = (layer, number, a, b)
                    for key in ("depth", "label", "ranks", "n", "threads", "diverges"):
                        self.assertEqual(a[key], b[key], where)
                    self.assertAlmostEqual(a["x"], b["x"], 9, where)
                    self.assertAlmostEqual(a["width"], b["width"], 9, where)
                    compared += 1
        return compared

    def compare_processes(self, processes):
        with tempfile.TemporaryDirectory() as folder:
            for p in processes:
                key = p["pid"] if p["role"] != "rank" else f"rank-{p['rank']}"
                pathlib.Path(folder, f"{key}.stacks.json").write_text(json.dumps(p))
            return self.compare(folder)

    def test_jobs_as_they_look(self):
        for options in (["--ranks", "1"], ["--ranks", "4", "--hostile"], ["--ranks", "96", "--threads", "7"]):
            with self.subTest(options), tempfile.TemporaryDirectory() as folder:
                subprocess.run([sys.executable, MAKE_RUN, folder, *options], check=True)
                self.assertGreater(self.compare(folder + "/dumps/1-hang"), 20)

    def test_random_jobs(self):
        for seed, ranks in ((1, 1), (2, 3), (3, 17), (4, 40), (5, 130), (6, 200)):
            with self.subTest(seed):
                self.assertGreater(self.compare_processes(random_job(seed, ranks)), 20)

    def test_deep_stacks(self):
        source = random.Random(1)
        p = process(source, 7, "rank", 0, 1)
        p["threads"][0]["frames"] = [python_frame(n) for n in range(700)]
        self.assertGreater(self.compare_processes([p]), 400)

    def test_one_rank_of_many_is_wide_enough_to_see(self):
        source = random.Random(2)
        calm, culprit = python_frame(1), python_frame(2)
        processes = []
        for rank in range(500):
            p = process(source, 1000 + rank, "rank", rank, 1)
            p["threads"][0]["frames"] = [culprit if rank == 77 else calm]
            processes.append(p)
        self.assertGreaterEqual(self.compare_processes(processes), 4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
