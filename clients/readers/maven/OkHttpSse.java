import java.time.Duration;
import java.util.concurrent.SynchronousQueue;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.Response;
import okhttp3.sse.EventSource;
import okhttp3.sse.EventSourceListener;
import okhttp3.sse.EventSources;

/** okhttp-sse reads one stream; to come back with Last-Event-ID is the app's part. */
class OkHttpSse {
    private static String last = "";
    private static boolean over;

    public static void main(String[] args) throws Exception {
        // Its limit on reading is 10 s, which a heartbeat of 15 s does not keep.
        var client = new OkHttpClient.Builder().readTimeout(Duration.ofSeconds(45)).pingInterval(Duration.ofSeconds(12)).build();
        while (!over) {
            var request = new Request.Builder().url(args[0]).header("Accept", "text/event-stream");
            if (!last.isEmpty()) request.header("Last-Event-ID", last);
            var ended = new SynchronousQueue<Boolean>();
            EventSources.createFactory(client).newEventSource(request.build(), new EventSourceListener() {
                @Override public void onEvent(EventSource source, String id, String event, String data) {
                    System.out.printf("{\"id\":%s,\"event\":%s,\"data\":%s}%n", quoted(id), quoted(event), quoted(data));
                    if (id != null) last = id;
                    over = "completed".equals(event) || "error".equals(event);
                }

                @Override public void onClosed(EventSource source) {
                    end();
                }

                @Override public void onFailure(EventSource source, Throwable t, Response response) {
                    over |= response != null && response.code() == 204;
                    end();
                }

                private void end() {
                    try {
                        ended.put(true);
                    } catch (InterruptedException e) {
                        throw new IllegalStateException(e);
                    }
                }
            });
            ended.take();
            if (!over) Thread.sleep(500);
        }
        client.dispatcher().executorService().shutdown();
        client.connectionPool().evictAll();
    }

    private static String quoted(String text) {
        if (text == null) return "\"\"";
        return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + '"';
    }
}
