"""Case 47: no secret of the command, its children, the environment or local variables is found in a run directory."""

import json
import subprocess
import zlib

import attack
from attack import PROGRAM, PYTHON

# Each secret is hidden in another way; the numbers identify them.
ARGUMENTS = [
    "-p",
    "s3cr3t01",
    "--password",
    "s3cr3t02",
    "--token=s3cr3t03",
    "MY_PASS=s3cr3t04",
    "--github-pat",
    "s3cr3t05",
    "https://me:s3cr3t06@host/x",
    "-u",
    "me:s3cr3t07",
    "--header",
    "Authorization: Bearer s3cr3t08",
    '{"password": "s3cr3t09"}',
    "https://hooks.slack.com/services/T0/B0/s3cr3t10",
    "me:s3cr3t11@host",
    "ghp_" + "s3cr3t12" + "AbCdEf0123456789",
    "hf_" + "s3cr3t13" + "AbCdEf0123456789",
    "https://host/x?access_token=s3cr3t14&y=1",
    "X-Api-Key: s3cr3t15",
]
VARIABLES = {
    "MY_PASS": "s3cr3t21",
    "SLACK_WEBHOOK": "https://hooks.slack.com/services/T0/B0/s3cr3t22",
    "GITHUB_PAT": "s3cr3t23",
    "KUBE_CREDS": '{"a": "s3cr3t24"}',
    "HARMLESS": "s3cr3t25",
    "NCCL_TOKEN": "s3cr3t26",
    "HTTPS_PROXY": "http://me:s3cr3t27@host",
    "OMP_X": "Bearer s3cr3t28",
    "PYTHONX": "password=s3cr3t29",
}
JOB = """
import subprocess, sys, threading
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
def stuck(password, settings):
    url = "https://me:" + settings + "31@host/x"
    header = "Authorization: Bearer " + settings + "32"
    assigned = "api_key=" + settings + "33"
    api_key = settings + "34"
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)", "--password", settings + "35"],
                             **QUIET)
    shell = subprocess.Popen(["sh", "-c",
                              "sleep 100; : curl -u me:" + settings + "36 host; export DB_PASS=" + settings + "37"],
                             **QUIET)
    settings = None
    print("up", flush=True)
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=100)
stuck("s3cr" + "3t30", "s3cr" + "3t")
"""


class Secrets(attack.Case):
    def test_case_47_no_secret_reaches_the_disk_or_the_screen(self):
        job = self.dir / "job.py"
        job.write_text(JOB)
        process = self.start_xpurun("--hang-timeout", "1", "--", PYTHON, job, *ARGUMENTS,
                                    env=self.rank_env(**VARIABLES))
        self.assertEqual(process.stdout.readline(), "up\n")
        self.wait_for(lambda: self.manifest()["stalls"], "stall", 60)
        rank = self.rank_pids()[0]
        shown = [
            self.stacks("--pid", rank, "--children", *more).stdout
            for more in (
                [],
                ["--locals"],
                ["--format", "json", "--locals"],
                ["--format", "pyspy"],
                ["--locals", "--format", "text"],
            )
        ]
        status = subprocess.run(
            [PROGRAM, "ctl", "--run", self.out, "status"], capture_output=True, text=True, timeout=30
        ).stdout
        process.terminate()
        out, err = process.communicate(timeout=60)
        subprocess.run([PROGRAM, "report", self.out, "--source"], capture_output=True, timeout=60)
        texts = {"stdout": out, "stderr": err, "ctl status": status}
        texts |= {f"stacks {i}": text for i, text in enumerate(shown)}
        for path in self.out.rglob("*"):
            # Snapshots are memory: documented, not masked.
            if path.is_file() and path.suffix != ".snapshot":
                texts[str(path.relative_to(self.out))] = self.readable(path.read_bytes())
        self.assertIn("run.json", texts)
        self.assertTrue(any(name.endswith(".stacks.json") for name in texts), list(texts))
        self.assertIn("****", shown[1])
        found = {name: text[at:at + 8] for name, text in texts.items() if (at := text.find("s3cr3t")) >= 0}
        self.assertEqual(found, {})
        manifest = json.loads(texts["run.json"])
        self.assertLessEqual(
            {"MY_PASS", "SLACK_WEBHOOK", "GITHUB_PAT", "KUBE_CREDS", "HARMLESS"}, set(manifest["env_names"])
        )
        self.assertEqual(manifest["env"]["RANK"], "0")

    def readable(self, data):
        for wbits in (31, 15):
            try:
                return zlib.decompress(data, wbits).decode(errors="replace")
            except zlib.error:
                pass
        return data.decode(errors="replace")

    def test_case_47_a_foreign_run_directory_is_masked_by_the_report(self):
        result = self.run_xpurun("--", "true")
        self.assertEqual(result.returncode, 0, result.stderr)
        document = self.manifest()
        document["env"] = {"MY_PASS": "s3cr3t", "NCCL_TOKEN": "s3cr3t", "NCCL_DEBUG": "INFO"}
        document["command"] = ["train.py", "-p", "s3cr3t"]
        (self.out / "run.json").write_text(json.dumps(document))
        subprocess.run([PROGRAM, "report", self.out], capture_output=True, timeout=60, check=True)
        for name in ("report.html", "report.json"):
            text = (self.out / name).read_text()
            self.assertNotIn("s3cr3t", text)
            self.assertIn("MY_PASS", text)


if __name__ == "__main__":
    attack.main()
