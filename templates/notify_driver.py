"""Sends one job event to people or to a tracker of experiments. The event is a JSON document on standard input.

usage: notify_driver.py slack|feishu|dingtalk|pagerduty|webhook|mlflow|wandb
"""

import json
import os
import sys
import urllib.request

LIMIT = 8  # seconds


def setting(name):
    if not os.environ.get(name):
        sys.exit(f"{name} is not set")
    return os.environ[name]


def post(address, document):
    """Sends the document as JSON; returns the parsed answer, if it is JSON."""
    request = urllib.request.Request(address, json.dumps(document).encode(), {"Content-Type": "application/json"})
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


RECEIVERS = {f.__name__: f for f in (slack, feishu, dingtalk, pagerduty, webhook, mlflow, wandb)}
RECEIVERS[sys.argv[1]](json.load(sys.stdin))
