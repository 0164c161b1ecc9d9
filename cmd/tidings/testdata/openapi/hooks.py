import schemathesis

WORKLOADS = {"summary", "guidance", "classification"}


@schemathesis.hook
def before_call(context, case, kwargs):
    """Makes a valid claim answer at once, and ask for the workload that is left to outside workers."""
    body = case.body
    if not isinstance(body, dict):
        return
    wait, workloads = body.get("wait_seconds"), body.get("workloads")
    if type(wait) in (int, float) and 0 <= wait <= 60 and wait == int(wait):
        body["wait_seconds"] = 0
    if isinstance(workloads, list) and workloads and all(isinstance(w, str) and w in WORKLOADS for w in workloads):
        body["workloads"] = ["guidance"] * len(workloads)
