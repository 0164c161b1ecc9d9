"""httpx-sse reads one stream; to come back with Last-Event-ID is the app's part."""

import json
import sys
import time

import httpx
from httpx_sse import connect_sse

last, pause, over = "", 1.0, False
with httpx.Client(timeout=httpx.Timeout(10, read=45)) as client:
    while not over:
        headers = {"Last-Event-ID": last} if last else {}
        with connect_sse(client, "GET", sys.argv[1], headers=headers) as source:
            if source.response.status_code == 204:
                break
            source.response.raise_for_status()
            for message in source.iter_sse():
                print(json.dumps({"id": message.id, "event": message.event, "data": message.data}), flush=True)
                last = message.id or last
                pause = (message.retry or pause * 1000) / 1000
                over = message.event in ("completed", "error")
        if not over:
            time.sleep(pause)
