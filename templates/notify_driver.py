"""Sends one job event to people or to a tracker of experiments. The event is a JSON document on standard input.

usage: notify_driver.py slack|feishu|dingtalk|pagerduty|webhook|opentelemetry|mlflow|wandb
"""

import hashlib
import json
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request

LIMIT = 8  # seconds


def setting(name):
    if not os.environ.get(name):
        sys.exit(f"{name} is not set")
    return os.environ[name]


def post(address, document, **headers):
    """Sends the document as JSON; returns the parsed answer, if it is JSON."""
    headers["Content-Type"] = "application/json"
    request = urllib.request.Request(address, json.dumps(document).encode(), headers)
    with urllib.request.urlopen(request, timeout=LIMIT) as answer:
        try:
            return json.loads(answer.read())
        except ValueError:
            return {}


def good(event):
    return event["event"] == "recovery" or (event["event"] == "end" and event["exit_status"] == 0)


def lines(event):
    out = [f"{event['event']} of {event['run']} on {event['host']}", event["sentence"]]
    following = event.get("verdict", {}).get("next")
    return out + ([f"next: {following}"] if following else []) + ([event["report"]] if event["report"] else [])


def slack(event):
    icon = {"hang": ":red_circle:", "crash": ":boom:", "exception": ":warning:", "recovery": ":large_green_circle:",
            "slow": ":snail:"}.get(event["event"], ":white_check_mark:" if good(event) else ":x:")
    first, *rest = lines(event)
    # Slack reads these three characters as markup.
    text = f"{icon} " + "\n".join([first, *rest]).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    post(setting("SLACK_WEBHOOK_URL"), {"text": text})


def refused(answer, *fields):
    for field in fields:
        if answer.get(field):
            sys.exit(f"refused: {answer}")


def feishu(event):
    answer = post(setting("FEISHU_WEBHOOK_URL"), {"msg_type": "text", "content": {"text": "\n".join(lines(event))}})
    refused(answer, "code", "StatusCode")


def dingtalk(event):
    # A robot with a keyword takes only messages with this keyword.
    text = "\n".join(["xpurun", *lines(event)])
    answer = post(setting("DINGTALK_WEBHOOK_URL"), {"msgtype": "text", "text": {"content": text}})
    refused(answer, "errcode")


def pagerduty(event):
    address = os.environ.get("PAGERDUTY_EVENTS_URL", "https://events.pagerduty.com/v2/enqueue")
    document = {"routing_key": setting("PAGERDUTY_ROUTING_KEY"), "dedup_key": event["run"],
                "event_action": "resolve" if good(event) else "trigger"}
    if not good(event):
        document["payload"] = {"summary": event["sentence"][:1024], "source": event["host"], "component": event["run"],
                               "severity": "warning" if event["event"] in ("slow", "stall") else "critical",
                               "custom_details": event}
    post(address, document)


def webhook(event):
    post(setting("WEBHOOK_URL"), event)


def pairs(text):
    """Of OTEL_EXPORTER_OTLP_HEADERS and OTEL_RESOURCE_ATTRIBUTES: "name=value,name=value", percent-encoded."""
    return {key.strip(): urllib.parse.unquote(value.strip())
            for key, _, value in (part.partition("=") for part in text.split(",")) if key.strip()}


def attributes(values):
    """In OTLP's JSON; integers are text there."""
    kinds = {bool: "boolValue", int: "intValue", float: "doubleValue", str: "stringValue"}
    return [{"key": key, "value": {kinds[type(value)]: str(value) if type(value) is int else value}}
            for key, value in values.items() if type(value) in kinds]


class Telemetry:
    """Where the variables of OpenTelemetry's exporters send to."""

    def __init__(self, event):
        base = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318").rstrip("/")
        self.address = {kind: os.environ.get(f"OTEL_EXPORTER_OTLP_{kind.upper()}_ENDPOINT", f"{base}/v1/{kind}")
                        for kind in ("logs", "traces")}
        self.headers = pairs(os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", ""))
        self.resource = {"attributes": attributes({
            "service.name": "xpurun", **pairs(os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")),
            **({"service.name": os.environ["OTEL_SERVICE_NAME"]} if os.environ.get("OTEL_SERVICE_NAME") else {}),
            "host.name": event["host"], "xpurun.run": event["run"]})}
        # The job is a part of the trace that has started it, if there is one.
        parent = re.fullmatch(
            r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}", os.environ.get("TRACEPARENT", ""))
        self.key = f"{event['host']} {event['directory']} {event['run']}"
        self.trace, self.parent = parent.groups() if parent else (self.id(32, "trace"), None)

    def id(self, digits, *what):
        return hashlib.sha256(repr((self.key, *what)).encode()).hexdigest()[:digits]

    def logs(self, records):
        post(self.address["logs"], {"resourceLogs": [{"resource": self.resource, "scopeLogs": [
            {"scope": {"name": "xpurun"}, "logRecords": records}]}]}, **self.headers)

    def traces(self, spans):
        post(self.address["traces"], {"resourceSpans": [{"resource": self.resource, "scopeSpans": [
            {"scope": {"name": "xpurun"}, "spans": spans}]}]}, **self.headers)

    def span(self, which, parent, began_ns, ended_ns, values):
        """`which`: its name, and what tells it from others of this name."""
        return {"traceId": self.trace, "spanId": self.id(16, *which), "name": which[0], "kind": 1,
                "startTimeUnixNano": str(began_ns), "endTimeUnixNano": str(ended_ns),
                "attributes": attributes(values), **({"parentSpanId": parent} if parent else {})}


def rows(event, statement):
    """What xpurun query answers about the run: dictionaries."""
    program = f"/proc/{os.getppid()}/exe"
    done = subprocess.run([program, "query", "--format", "json", statement, event["directory"]], stdout=subprocess.PIPE,
                          timeout=LIMIT, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


MOST_STEPS = 2000


def spans(event, telemetry):
    """The job, and below it its stalls and its newest steps."""
    began = event["wall_ns"] - int(event["at_s"] * 1e9)
    verdict = event.get("verdict", {})
    job = telemetry.span(("job",), telemetry.parent, began, event["wall_ns"], {
        "xpurun.outcome": event["outcome"], "process.exit.code": event["exit_status"], "xpurun.hangs": event["hangs"],
        "xpurun.verdict": event["sentence"], "xpurun.verdict.kind": verdict.get("kind"),
        "xpurun.report": event["report"]})
    job["status"] = {"code": 1} if good(event) else {"code": 2, "message": event["sentence"]}
    out = [job]
    for stall in rows(event, "SELECT number, at_s, cleared_s, sentence FROM stalls"):
        until = event["at_s"] if stall["cleared_s"] is None else stall["cleared_s"]
        out.append(telemetry.span(("stall", stall["number"]), job["spanId"], began + int(stall["at_s"] * 1e9),
                                  began + int(until * 1e9), {"xpurun.verdict": stall["sentence"]}))
    for step in rows(event, "SELECT rank, step, begin_s, seconds, wait_s FROM steps WHERE seconds IS NOT NULL"
                            f" ORDER BY begin_s DESC LIMIT {MOST_STEPS}"):
        begins = began + int(step["begin_s"] * 1e9)
        out.append(telemetry.span(("step", step["rank"], step["step"], begins), job["spanId"], begins,
                                  begins + int(step["seconds"] * 1e9),
                                  {"xpurun.rank": step["rank"], "xpurun.step": step["step"],
                                   "xpurun.step.wait_s": step["wait_s"]}))
    return out


def opentelemetry(event):
    """A log record for each event, in the span of the job; the spans at its end. OTLP over HTTP, as JSON."""
    telemetry = Telemetry(event)
    verdict, cause = event.get("verdict", {}), (event.get("exception", {}).get("chain") or [{}])[0]
    severity, word = (9, "INFO") if good(event) else (17, "ERROR")
    if event["event"] in ("slow", "stall", "memory"):
        severity, word = 13, "WARN"
    where = verdict.get("where") or [{}, *cause.get("frames", [])][-1]
    telemetry.logs([{
        "timeUnixNano": str(event["wall_ns"]), "severityNumber": severity, "severityText": word,
        "body": {"stringValue": event["sentence"]}, "traceId": telemetry.trace, "spanId": telemetry.id(16, "job"),
        "attributes": attributes({
            "event.name": f"xpurun.{event['event']}", "xpurun.ranks": ",".join(map(str, event.get("ranks", []))),
            "xpurun.verdict.id": verdict.get("id"), "xpurun.verdict.level": verdict.get("level"),
            "xpurun.report": event["report"], "exception.type": cause.get("type"),
            "exception.message": cause.get("message"), "code.function.name": where.get("function"),
            "code.file.path": where.get("file"), "code.line.number": where.get("line")})}])
    if event["event"] == "end":
        telemetry.traces(spans(event, telemetry))


def mlflow(event):
    """Tags of the run MLFLOW_RUN_ID, or of a run of its own."""
    import mlflow as library

    with library.start_run(run_id=os.environ.get("MLFLOW_RUN_ID"), run_name=None):
        library.set_tags({"xpurun.event": event["event"], "xpurun.verdict": event["sentence"][:5000],
                          "xpurun.report": event["report"]})
        if event["event"] == "end" and os.path.exists(event["report"]):
            library.log_artifact(event["report"], "xpurun")


def wandb(event):
    """An alert of a small run of its own: a second process must not write into the run of the training."""
    import wandb as library

    if event["event"] == "end" and good(event):
        return
    with library.init(job_type="xpurun", name=f"{event['run']} {event['event']}", config={"event": event}) as run:
        run.alert(title=f"{event['event']} on {event['host']}", text=event["sentence"],
                  level=library.AlertLevel.INFO if good(event) else library.AlertLevel.ERROR)


RECEIVERS = {f.__name__: f for f in (slack, feishu, dingtalk, pagerduty, webhook, opentelemetry, mlflow, wandb)}
RECEIVERS[sys.argv[1]](json.load(sys.stdin))
