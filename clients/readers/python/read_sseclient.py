"""sseclient comes back by itself, and knows no end: leave its loop at the last event.

It reads the connection and not the body. So it sees an end only by that of the
connection, hence the `Connection: close`, and takes the end of the chunks for an empty
message, which is passed over.
"""

import json
import sys

from sseclient import SSEClient

out, sys.stdout = sys.stdout, sys.stderr  # it prints, too

for message in SSEClient(sys.argv[1], headers={"Connection": "close"}):
    print(json.dumps({"id": message.id or "", "event": message.event, "data": message.data}), file=out, flush=True)
    if message.event in ("completed", "error"):
        break
