#!/usr/bin/env python3
"""xpurun --on-event docs/on-event/slack.py: a message for each event to the Slack channel of SLACK_WEBHOOK_URL."""
import json
import os
import sys
import urllib.request

ICONS = {"hang": ":red_circle:", "crash": ":boom:", "exception": ":warning:", "recovery": ":large_green_circle:",
         "slow": ":snail:"}

event = json.load(sys.stdin)
icon = ICONS.get(event["event"], ":white_check_mark:" if event["exit_status"] == 0 else ":x:")
lines = [f"{icon} *{event['event']}* of `{event['run']}` on {event['host']}", event["sentence"]]
if event.get("verdict", {}).get("next"):
    lines.append(f"next: {event['verdict']['next']}")
if event["report"]:
    lines.append(f"`{event['report']}`")
# Slack reads these three characters as markup.
text = "\n".join(lines).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
request = urllib.request.Request(os.environ["SLACK_WEBHOOK_URL"], json.dumps({"text": text}).encode(),
                                 {"Content-Type": "application/json"})
urllib.request.urlopen(request, timeout=8).close()
