"""--on-event, its receivers by name, and exit plug-ins, with real programs and a local HTTP server."""

import contextlib
import http.server
import json
import os
import shutil
import signal
import threading
import time

import xpurun_test
from xpurun_test import PYTHON

RAISE = "def collate():\n    raise KeyError('label')\ncollate()"
# Replaces a library that Debian lacks; its messages go to the HTTP server.
WANDB = """
import json, os, urllib.request
class AlertLevel:
    INFO, ERROR = "INFO", "ERROR"
class Run:
    def __init__(self, **settings):
        self.settings = settings
    def __enter__(self):
        return self
    def __exit__(self, *error):
        pass
    def alert(self, title, text, level):
        body = json.dumps({**self.settings, "title": title, "text": text, "level": level}).encode()
        urllib.request.urlopen(urllib.request.Request(os.environ["WANDB_BASE_URL"], body)).close()
def init(**settings):
    return Run(**settings)
"""


@contextlib.contextmanager
def http_server(status=200, heads=None):
    """Returns (address, list of received bodies); `heads` gets the path and the headers of each request."""
    bodies = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            if heads is not None:
                heads.append((self.path, self.headers))
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", bodies
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Events(xpurun_test.Case):
    def setUp(self):
        super().setUp()
        self.told = self.dir / "told"
        self.told.mkdir()
        # One file per event; a rename makes it appear complete.
        self.on_event = f"f={self.told}/$$; cat > $f.part; mv $f.part $f.json"

    def events(self):
        told = [json.loads(f.read_text()) for f in self.told.glob("*.json")]
        return sorted(told, key=lambda event: event["at_s"])

    def kinds(self):
        return [event["event"] for event in self.events()]

    def python(self, *options, code, **kwargs):
        return self.run_xpurun("--on-event", self.on_event, *options, "--", PYTHON, "-c", code, **kwargs)

    def test_a_good_end(self):
        result = self.python(code="pass")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        (event,) = self.events()
        self.assertEqual((event["schema"], event["event"]), ("xpurun.job_event/1", "end"))
        self.assertEqual((event["exit_status"], event["outcome"], event["hangs"]), (0, "exit", 0))
        self.assertEqual(event["directory"], str(self.out))
        self.assertEqual(event["run"], self.manifest()["id"])
        self.assertEqual(event["verdict"], self.verdict())
        (recorded,) = self.manifest()["event_commands"]
        self.assertEqual((recorded["event"], recorded["status"]), ("end", "ok"))

    def test_an_exception(self):
        result = self.python(code=RAISE)
        self.assertEqual(result.returncode, 1)
        exception, end = self.events()
        self.assertEqual((exception["event"], exception["ranks"]), ("exception", [0]))
        self.assertEqual(exception["sentence"], "exception: rank 0 raised KeyError: 'label'")
        self.assertEqual(exception["exception"]["chain"][0]["frames"][-1]["function"], "collate")
        self.assertEqual((end["event"], end["exit_status"]), ("end", 1))
        self.assertEqual(end["sentence"], self.verdict()["sentence"])
        self.assertTrue(os.path.exists(end["report"]))

    def test_a_crash(self):
        result = self.python(code="import os; os.abort()")
        self.assertEqual(result.returncode, 128 + signal.SIGABRT)
        crash, end = self.events()
        self.assertEqual((crash["event"], crash["signal"], crash["ranks"]), ("crash", signal.SIGABRT, [0]))
        self.assertEqual((end["event"], end["exit_status"]), ("end", 128 + signal.SIGABRT))

    def test_a_hang_that_is_ended(self):
        result = self.python("--hang-timeout", 1, "--on-hang", "kill", code="import time; time.sleep(1000)")
        self.assertEqual(result.returncode, 124, result.stderr)
        hang, end = self.events()
        self.assertEqual((hang["event"], hang["hangs"], hang["outcome"]), ("hang", 1, "running"))
        self.assertEqual(hang["verdict"]["level"], "confirmed")
        self.assertEqual((end["event"], end["outcome"], end["exit_status"]), ("end", "hang", 124))

    def test_a_hang_that_passes(self):
        p = self.start_xpurun("--on-event", self.on_event, "--on-event-kinds", "hang,recovery",
                              "--hang-timeout", 1, "--",
                              PYTHON, "-c", "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n"
                              f"while len(os.listdir({str(self.told)!r})) < 2:\n    sum(range(10000))\n")
        self.wait_for(lambda: self.kinds() == ["hang"], "event")
        os.kill(self.rank_pids()[0], signal.SIGCONT)
        _, stderr = p.communicate(timeout=60)
        self.assertEqual(p.returncode, 0, stderr)
        self.assertEqual(self.kinds(), ["hang", "recovery"])

    def test_a_command_that_hangs_delays_neither_the_verdict_nor_the_end_beyond_its_limit(self):
        self.on_event = "sleep 1000"
        started = time.monotonic()
        result = self.python("--on-event-timeout", 2, "--on-event-kinds", "exception,end", code=RAISE)
        self.assertLess(time.monotonic() - started, 30)
        self.assertEqual(result.returncode, 1)
        self.assertIn(self.verdict()["sentence"].split(":")[0], "exit exception")
        commands = self.manifest()["event_commands"]
        self.assertEqual([(c["event"], c["status"]) for c in commands], [("exception", "timeout"), ("end", "timeout")])
        self.wait_for(lambda: not list(self.strays()), "end of the commands")

    def test_failures_and_output_go_into_the_log_only(self):
        self.on_event = "echo to standard output; echo to standard error >&2; exit 3"
        result = self.python(code="pass")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
        log = (self.out / "xpurun.log").read_text()
        for line in ("to standard output", "to standard error", "failed: exited with status 3"):
            self.assertIn(f"--on-event (end): {line}", log)
        self.assertIn("status 3", self.manifest()["event_commands"][0]["reason"])

    def test_secrets_of_the_command_line_are_masked(self):
        self.on_event = "true; exit 0; curl https://user:hunter2secret@example.org/"
        self.python(code="pass")
        self.assertNotIn("hunter2secret", (self.out / "run.json").read_text())

    def test_receiver_webhook(self):
        with http_server() as (url, bodies):
            self.on_event = "webhook"
            result = self.python(code="pass", env=self.env(WEBHOOK_URL=url))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual([b["event"] for b in bodies], ["end"])
        self.assertEqual(self.manifest()["event_commands"][0]["status"], "ok")

    def test_receiver_webhook_that_refuses(self):
        with http_server(status=500) as (url, _):
            self.on_event = "webhook"
            self.python(code="pass", env=self.env(WEBHOOK_URL=url))
        self.assertEqual(self.manifest()["event_commands"][0]["status"], "failed")
        self.assertIn("500", (self.out / "xpurun.log").read_text())

    def test_receiver_slack(self):
        with http_server() as (url, bodies):
            self.on_event = "slack"
            self.python("--on-event-kinds", "exception", code=RAISE.replace("label", "<a&b>"),
                        env=self.env(SLACK_WEBHOOK_URL=url))
        (body,) = bodies
        first, second, last = body["text"].split("\n")
        self.assertIn("exception of run on ", first)
        self.assertEqual(second, "exception: rank 0 raised KeyError: '&lt;a&amp;b&gt;'")
        self.assertEqual(last, str(self.out / "report.html"))

    def test_receivers_of_chats_and_pagers(self):
        """What each service documents: feishu's and dingtalk's robots, PagerDuty's events v2."""
        with http_server() as (url, bodies):
            for name, variables in (("feishu", {"FEISHU_WEBHOOK_URL": url}),
                                    ("dingtalk", {"DINGTALK_WEBHOOK_URL": url}),
                                    ("pagerduty", {"PAGERDUTY_EVENTS_URL": url, "PAGERDUTY_ROUTING_KEY": "key"})):
                self.on_event = name
                self.python("--on-event-kinds", "exception", code=RAISE, env=self.env(**variables))
                shutil.rmtree(self.out)
        feishu, dingtalk, pagerduty = bodies
        self.assertEqual(feishu["msg_type"], "text")
        self.assertIn("exception: rank 0 raised KeyError: 'label'", feishu["content"]["text"])
        self.assertIn("exception: rank 0 raised KeyError: 'label'", dingtalk["text"]["content"])
        self.assertEqual((pagerduty["event_action"], pagerduty["routing_key"], pagerduty["dedup_key"]),
                         ("trigger", "key", "run"))
        self.assertEqual(pagerduty["payload"]["severity"], "critical")

    def test_receiver_opentelemetry(self):
        """Event, stall and end of a job that another trace has started."""
        trace, parent, heads = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", []
        with http_server(heads=heads) as (url, bodies):
            self.on_event = "opentelemetry"
            result = self.python("--hang-timeout", 1, "--on-event-kinds", "exception,end",
                                 code="import time\ntime.sleep(4)\n" + RAISE, env=self.env(
                                     OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_EXPORTER_OTLP_HEADERS="x-key=a%20b",
                                     OTEL_SERVICE_NAME="pretrain", TRACEPARENT=f"00-{trace}-{parent}-01"))
        self.assertEqual(result.returncode, 1)
        self.assertEqual({command["status"] for command in self.manifest()["event_commands"]}, {"ok"})
        self.assertEqual(sorted(path for path, _ in heads), ["/v1/logs", "/v1/logs", "/v1/traces"])
        self.assertEqual({headers["x-key"] for _, headers in heads}, {"a b"})

        def values(of):
            return {a["key"]: next(iter(a["value"].values())) for a in of["attributes"]}

        logs = [b["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0] for b in bodies if "resourceLogs" in b]
        exception = next(log for log in logs if values(log)["event.name"] == "xpurun.exception")
        self.assertEqual(exception["body"], {"stringValue": "exception: rank 0 raised KeyError: 'label'"})
        self.assertEqual((values(exception)["exception.type"], values(exception)["code.function.name"]),
                         ("KeyError", "collate"))
        (spans,) = [b["resourceSpans"][0] for b in bodies if "resourceSpans" in b]
        self.assertEqual(values(spans["resource"])["service.name"], "pretrain")
        job, stall = spans["scopeSpans"][0]["spans"]
        self.assertEqual((job["name"], job["parentSpanId"], job["status"]["code"]), ("job", parent, 2))
        self.assertEqual((stall["name"], stall["parentSpanId"]), ("stall", job["spanId"]))
        self.assertEqual({trace}, {thing["traceId"] for thing in [*logs, job, stall]})
        self.assertEqual({log["spanId"] for log in logs}, {job["spanId"]})
        self.assertEqual(values(job)["process.exit.code"], "1")
        seconds = (int(stall["endTimeUnixNano"]) - int(stall["startTimeUnixNano"])) / 1e9
        self.assertTrue(0 < seconds < 60, stall)

    def test_a_receiver_without_its_address(self):
        self.on_event = "slack"
        self.python(code="pass")
        self.assertEqual(self.manifest()["event_commands"][0]["status"], "failed")
        self.assertIn("SLACK_WEBHOOK_URL is not set", (self.out / "xpurun.log").read_text())

    def test_receiver_wandb(self):
        (self.dir / "wandb.py").write_text(WANDB)
        with http_server() as (url, bodies):
            self.on_event = "wandb"
            env = self.env(WANDB_BASE_URL=url, PYTHONPATH=str(self.dir))
            self.python(code=RAISE, env=env)
            shutil.rmtree(self.out)
            self.python(code="pass", env=env)
        # Two commands run at once.
        told = {b["config"]["event"]["event"]: b for b in bodies}
        self.assertEqual({kind: b["level"] for kind, b in told.items()}, {"exception": "ERROR", "end": "ERROR"})
        self.assertEqual(told["exception"]["text"], "exception: rank 0 raised KeyError: 'label'")


class GitHubActions(xpurun_test.Case):
    def test_annotation_and_summary(self):
        job = self.dir / "train.py"
        job.write_text("def collate():\n    raise KeyError('label')\ncollate()\n")
        summary = self.dir / "summary.md"
        summary.write_text("before\n")
        result = self.run_xpurun("--", PYTHON, job, env=self.env(
            GITHUB_ACTIONS="true", GITHUB_WORKSPACE=str(self.dir), GITHUB_STEP_SUMMARY=str(summary)))
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"(?m)^::error file=train\.py,line=2,title=xpurun%3A exception::exception: "
                                        r"rank 0 raised KeyError: 'label' at train\.py:2")
        text = summary.read_text()
        self.assertTrue(text.startswith("before\n**exception: rank 0"), text)

    def test_outside_of_a_workflow(self):
        result = self.run_xpurun("--", PYTHON, "-c", RAISE)
        self.assertNotIn("::error", result.stderr)


class Plugins(xpurun_test.Case):
    def write(self, name, text):
        path = self.dir / name
        path.write_text(text)
        return path

    def test_an_exception(self):
        """xpu_timer's variable, and the arguments of xpu_timer's function."""
        plugin = self.write("mine.py", "import traceback\n"
                            "def xpu_timer_parse_python_exception(exc_type, exc_value, exc_traceback, infos):\n"
                            "    print(exc_type.__name__, exc_value, infos['rank'], infos['job_name'],\n"
                            "          traceback.extract_tb(exc_traceback)[-1].name)\n")
        result = self.run_xpurun("--", PYTHON, "-c", RAISE,
                                 env=self.env(XPU_TIMER_EXIT_HOOK_PLUGIN=str(plugin), ENV_ARGO_WORKFLOW_NAME="argo"))
        self.assertEqual(result.returncode, 1)
        self.assertIn("xpurun: plug-in mine.py: KeyError 'label' 0 argo collate\n", result.stderr)
        (entry,) = self.manifest()["plugins"]
        self.assertEqual((entry["function"], entry["rank"], entry["status"], entry["text"]),
                         ("xpu_timer_parse_python_exception", 0, "ok", "KeyError 'label' 0 argo collate"))

    def test_a_crash(self):
        plugin = self.write("mine.py", "import ctypes\n"
                            "abort = ctypes.cast(ctypes.CDLL(None).abort, ctypes.c_void_p).value\n"
                            "def xpu_timer_parse_cpp_exception(infos):\n"
                            "    begin, = (f['module_offset'] - f['offset'] for f in infos['frame_infos']\n"
                            "              if f['function_name'] == 'abort' and f['offset'] > 0)\n"
                            "    libc = next(line for line in open('/proc/self/maps') if '/libc.so' in line)\n"
                            "    assert begin == abort - int(libc.split('-')[0], 16)\n"
                            "    names = [f['function_name'] for f in infos['frame_infos']]\n"
                            "    assert all(f['address'] > 0 for f in infos['frame_infos'])\n"
                            "    return f\"{infos['signal']} {infos['rank']} {'abort' in ' '.join(names)}\"\n")
        result = self.run_xpurun("--plugin", plugin, "--", PYTHON, "-c", "import os; os.abort()")
        self.assertEqual(result.returncode, 128 + signal.SIGABRT)
        self.assertIn("xpurun: plug-in mine.py: 6 0 True\n", result.stderr)

    def test_failures_change_nothing(self):
        missing = self.dir / "missing.py"
        hangs = self.write("hangs.py", "import time\ntime.sleep(1000)\n")
        result = self.run_xpurun("--on-event-timeout", 1, "--plugin", f"{missing},{hangs}", "--", PYTHON, "-c", RAISE)
        self.assertEqual(result.returncode, 1)
        states = {(os.path.basename(p["file"]), p["status"]) for p in self.manifest()["plugins"]}
        self.assertEqual(states, {("missing.py", "failed"), ("hangs.py", "timeout")})
        self.assertIn("xpurun: plug-in missing.py: failed: cannot load it: FileNotFoundError", result.stderr)

    def test_not_after_a_good_run(self):
        plugin = self.write("mine.py", "raise SystemExit('never')")
        result = self.run_xpurun("--plugin", plugin, "--", PYTHON, "-c", "pass")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertNotIn("plugins", self.manifest())


if __name__ == "__main__":
    xpurun_test.main()
