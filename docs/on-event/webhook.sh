#!/bin/sh
# xpurun --on-event docs/on-event/webhook.sh: sends each event, as it is, to the address in WEBHOOK_URL.
exec curl --silent --show-error --fail --max-time 8 --header 'Content-Type: application/json' --data-binary @- \
  "${WEBHOOK_URL:?is the address to send to}"
