"""What the samples of the host memory cost (xpurun --memory light), beside memray, on the same program, in one run.

usage: bench/heap_samples.py [--build DIR] [--memray PYTHON] [--rounds N]

PYTHON: the interpreter of an environment that has memray and numpy; without it, memray is left out. The program runs in
turn bare, with --memory off, with light, and below memray, N times (5); medians of the CPU time of its loops, with the
smallest and the largest. Then what a pair of malloc and free takes (tests/preload/heap_victim).
"""

import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

import bench_support

# Each part allocates and frees with malloc, and keeps some; the count is of calls of the allocator.
PROGRAM = """
import json, time
def small(n):  # beyond pymalloc's 512 bytes
    kept = []
    for i in range(n):
        text = bytes(600 + i % 2000)
        if i % 100 == 0:
            kept.append(text)
    return n
def large(n):
    import numpy
    kept = []
    for i in range(n):
        block = numpy.empty(1 << 15)
        block[:512] = 1
        if i % 200 == 0:
            kept.append(block)
    return n
def objects(n):
    kept = [[str(i), i * 1.5] for i in range(n)]
    return 0  # arenas, and lists that grow
def compute(n):
    return sum(i * i for i in range(n)) * 0
counts, times = {}, {}
for name, n in (("small", 1500000), ("large", 200000), ("objects", 300000), ("compute", 4000000)):
    begin = time.process_time()
    counts[name] = globals()[name](n)
    times[name] = time.process_time() - begin
print("RESULT " + json.dumps({"calls": counts, "seconds": times}))
"""


def run(words, directory):
    env = dict(os.environ, RANK="0", LOCAL_RANK="0", WORLD_SIZE="1")
    out = subprocess.run(words, capture_output=True, text=True, cwd=directory, env=env)
    lines = [line for line in out.stdout.splitlines() if line.startswith("RESULT ")]
    if not lines:
        raise SystemExit(f"{words}: {out.stdout[-500:]}{out.stderr[-500:]}")
    return json.loads(lines[-1][7:])


def pairs(args, directory, xpurun, rounds):
    victim = os.path.abspath(os.path.join(args.build, "tests/preload/heap_victim"))
    library = os.path.abspath(os.path.join(args.build, "preload/libxpurun_preload.so"))
    bare = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    rank = {**bare, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}
    ways = {"bare": ([], bare), "one jump (no rank)": ([], {**bare, "LD_PRELOAD": library}),
            "xpurun --memory light": ([*xpurun, "--"], rank)}
    found = {way: [] for way in ways}
    for _ in range(rounds):
        for way, (words, env) in ways.items():
            out = subprocess.run([*words, victim, "pairs"], capture_output=True, text=True, cwd=directory, env=env)
            found[way].append(float(out.stdout.split()[0]))
            shutil.rmtree(directory / "run", ignore_errors=True)
    print("a pair of malloc and free of 64 bytes")
    for way, times in found.items():
        print(f"  {way:22} {bench_support.spread(times, 'ns')}")


def main():
    parser = bench_support.arguments(__doc__)
    parser.add_argument("--memray")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    python = args.memray or bench_support.PYTHON
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        program = directory / "program.py"
        program.write_text(PROGRAM)
        xpurun = [bench_support.program_of(args), "run", "--no-report", "--out", str(directory / "run")]
        ways = {"bare": [python, program],
                "xpurun --memory off": [*xpurun, "--memory", "off", "--", python, program],
                "xpurun --memory light": [*xpurun, "--memory", "light", "--", python, program]}
        if args.memray:
            ways["memray run"] = [python, "-m", "memray", "run", "-q", "-f", "-o", directory / "out.bin", program]
        found = {way: [] for way in ways}
        for _ in range(args.rounds):
            for way, words in ways.items():
                found[way].append(run([str(word) for word in words], directory))
                shutil.rmtree(directory / "run", ignore_errors=True)
        bare = {part: statistics.median(one["seconds"][part] for one in found["bare"])
                for part in found["bare"][0]["seconds"]}
        for part, seconds in bare.items():
            calls = found["bare"][0]["calls"][part]
            print(f"{part}: {calls} calls")
            for way, results in found.items():
                times = sorted(one["seconds"][part] for one in results)
                middle = statistics.median(times)
                rate = f", {calls / middle / 1e6:.2f} million calls/s" if calls else ""
                print(f"  {way:22} {middle:.3f} s ({times[0]:.3f} to {times[-1]:.3f}), {middle / seconds:.3f} times "
                      f"bare{rate}")
        pairs(args, directory, xpurun, args.rounds)


main()
