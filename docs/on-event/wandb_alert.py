#!/usr/bin/env python3
"""xpurun --on-event docs/on-event/wandb_alert.py: an alert of Weights & Biases for each event but a good end.

The alert belongs to a small run of its own (job type xpurun) in the project WANDB_PROJECT: a second process must not
write into the run of the training. Give it time: --on-event-timeout 60.
"""
import json
import sys

import wandb

event = json.load(sys.stdin)
if event["event"] == "end" and event["exit_status"] == 0:
    sys.exit()
good = event["event"] == "recovery"
with wandb.init(job_type="xpurun", name=f"{event['run']} {event['event']}", config={"event": event}) as run:
    run.alert(title=f"{event['event']} on {event['host']}", text=event["sentence"],
              level=wandb.AlertLevel.INFO if good else wandb.AlertLevel.ERROR)
