"""Case 46: escape sequences, HTML and direction marks in every name that a job can choose."""

import re
import subprocess

import attack
from attack import PROGRAM, PYTHON

HOSTILE = [
    "\x1b[31m\x1b]0;owned\x07",
    "</script><script>document.title='owned'</script>",
    "<img src=x onerror=alert(1)>",
    "a\nb\rc",
    "x‮evil",
    "\x9b31m",
    "'\"`$(touch owned)",
    "z" * 5000,
    "‏؜⁦",
]
JOB = """
import ctypes, sys, threading
names = sys.argv[1:]
libc = ctypes.CDLL(None)
def chain(at):
    if at == len(names):
        if threading.current_thread() is threading.main_thread():
            print("up", flush=True)
        lock = threading.Lock()
        lock.acquire()
        lock.acquire(timeout=100)
        return
    libc.prctl(15, names[at].encode()[:15], 0, 0, 0)
    scope = {"next_one": chain}
    code = compile("def f(at):\\n    next_one(at + 1)\\n", "/x/" + names[at].replace("\\0", ""), "exec")
    exec(code, scope)
    f = scope["f"]
    f.__code__ = f.__code__.replace(co_name=names[at])
    f(at)
threading.Thread(target=chain, args=(len(names) // 2,), name=names[0], daemon=True).start()
chain(0)
"""
# All control characters except newline and tab, C1, and characters that change the direction of text.
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f؜‎‏‪-‮⁦-⁩]")


class HostileNames(attack.Case):
    def test_case_46_nothing_hostile_reaches_a_terminal_or_a_page(self):
        job = self.dir / "job.py"
        job.write_text(JOB)
        process = self.start_xpurun(
            "--hang-timeout", "1", "--", PYTHON, job, *HOSTILE, env=self.rank_env(), errors="replace", encoding="utf-8"
        )
        self.assertEqual(process.stdout.readline(), "up\n")
        self.wait_for(lambda: self.manifest()["stalls"], "stall", 60)
        dumped = self.stacks("--pid", self.rank_pids()[0], "--locals")
        process.terminate()
        _, err = process.communicate(timeout=60)
        told = subprocess.run([PROGRAM, "report", self.out], capture_output=True, text=True, timeout=60)
        for name, text in (("stderr", err), ("stacks", dumped.stdout), ("report", told.stdout + told.stderr)):
            with self.subTest(output=name):
                self.assertTrue(text)
                self.assertIsNone(UNSAFE.search(text), repr(UNSAFE.findall(text)[:5]))
        for page in [self.out / "report.html", *self.out.glob("stacks/*.svg")]:
            with self.subTest(page=page.name):
                text = page.read_text(encoding="utf-8", errors="replace")
                self.assertNotIn("<script>document.title", text)
                self.assertNotIn("<img src=x", text)
        self.assertIn("Content-Security-Policy", (self.out / "report.html").read_text())


if __name__ == "__main__":
    attack.main()
