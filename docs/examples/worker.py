"""A worker for Tidings in another language, with the standard library alone. See docs/outside-workers.md."""
import http.client, json, os, socket, threading, time, urllib.error, urllib.request

API = os.environ.get("TIDINGS_URL", "http://127.0.0.1:8080") + "/api/v1/worker"
HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer " + os.environ.get("TIDINGS_WORKER_TOKEN", "")}
WORKER = os.environ.get("WORKER_ID", "%s-%d" % (socket.gethostname(), os.getpid()))


def post(path, body, timeout=20):
    """Status and answer. What was not answered is sent again: the same report twice counts once."""
    while True:
        try:
            with urllib.request.urlopen(urllib.request.Request(API + path, json.dumps(body).encode(), HEADERS), timeout=timeout) as r:
                return r.status, json.loads(r.read() or "null")
        except urllib.error.HTTPError as e:
            if e.code < 500 and e.code != 429:
                return e.code, json.loads(e.read())
            time.sleep(float(e.headers.get("Retry-After", 1)))
        except (OSError, http.client.HTTPException):  # nobody there, or gone in the middle
            time.sleep(1)


def summarize(job):
    """Your model comes here: give it job["system"], job["prompt"] and job["schema"], or make what you like of job["input"]."""
    time.sleep(float(os.environ.get("WORKER_SECONDS", 0)))  # models take their time
    text = job["input"].get("text") or " ".join(m["content"] for m in job["input"]["messages"])
    sentences = [s.strip()[:1000] + "." for s in text.split(".") if s.strip()]
    return {"title": sentences[0][:80], "summary": " ".join(sentences[:3]), "key_points": sentences[:6]}


def work(job):
    path, me = "/jobs/%s/attempts/%d" % (job["job_id"], job["attempt"]), {"worker_id": WORKER, "claim_token": job["claim_token"]}
    over = threading.Event()

    def heartbeats():  # until the work is over, or the claim lost: then what comes of it counts no more
        while not over.wait(job["heartbeat_ms"] / 1000) and post(path + "/heartbeat", me)[0] == 200:
            pass

    threading.Thread(target=heartbeats, daemon=True).start()
    try:
        status, answer = post(path + "/complete", me | {"content": summarize(job), "model": "first-sentences"})
        failed = "model_output_invalid" if status == 400 else None
    except TimeoutError:
        failed, answer = "model_timeout", None
    except Exception as e:  # say what happened; whether to try again is the server's to decide
        failed, answer = "worker_internal_error", type(e).__name__
    if failed:
        status, answer = post(path + "/fail", me | {"failure_type": failed, "error_message": str(answer)[:500]})
    over.set()
    print(job["job_id"], job["attempt"], status, answer.get("decision") or answer.get("code") or answer.get("status"), flush=True)


while True:
    status, job = post("/claims", {"worker_id": WORKER, "workloads": ["summary"], "wait_seconds": 30}, timeout=45)
    if status == 200:
        work(job)
    elif status != 204:
        raise SystemExit("refused: %s" % job)
