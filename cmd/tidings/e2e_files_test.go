package main

import (
	"net"
	"net/http"
	"strings"
	"testing"
)

// Strangers who open connections and never speak take no files from probes and
// operators.
func TestConnectionsLeaveFilesForTheRest(t *testing.T) {
	t.Parallel()
	p := command(t, map[string]string{"TIDINGS_LISTEN": "127.0.0.1:0", "TIDINGS_OPS_LISTEN": "127.0.0.1:0"}, "dev")
	p.cmd.Args = append([]string{"sh", "-c", `ulimit -n 300 && exec "$0" "$@"`, p.cmd.Path}, p.cmd.Args[1:]...)
	p.cmd.Path = "/bin/sh"
	p.start().says("model=")
	p.addresses()
	for range 320 {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.api, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/ops"} {
		resp, err := http.Get(p.ops + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", path, resp.StatusCode)
		}
	}
	for _, want := range []string{"not all streams fit into the limit of open files", "refused a connection: too many are open"} {
		if !strings.Contains(p.err.String(), want) {
			t.Errorf("the log does not say %q", want)
		}
	}
}
