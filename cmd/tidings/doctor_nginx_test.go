package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// nginx starts one with this in its location, in front of an API, and returns
// its address.
func nginx(t *testing.T, api, location string) string {
	t.Helper()
	bin, err := exec.LookPath("nginx")
	if err != nil {
		t.Fatal("these tests need nginx: make tools installs it on Debian as root")
	}
	dir := t.TempDir()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	// nginx inherits the listener, so that nobody takes the port in between.
	file, err := listener.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	defer file.Close()
	conf := fmt.Sprintf(`daemon off;
pid nginx.pid;
error_log stderr warn;
worker_processes 1;
events { worker_connections 64; }
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {
    listen %s;
    location / {
      proxy_pass %s;
      %s
    }
  }
}
`, address, api, location)
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	said := newOutput()
	cmd := exec.Command(bin, "-p", dir, "-c", "nginx.conf", "-e", "stderr")
	cmd.Env = []string{"NGINX=3;"} // the number of the inherited listener
	cmd.ExtraFiles = []*os.File{file}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// SIGTERM, because its worker outlives a master that is killed.
		_ = cmd.Process.Signal(os.Interrupt)
		timer := time.AfterFunc(wait, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		var exit *exec.ExitError
		if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("nginx:\n%s\n%s", conf, said)
		}
	})
	return "http://" + address
}

func TestI11_TheDoctorAndARealNginx(t *testing.T) {
	for _, c := range []struct {
		name     string
		location string
		idle     time.Duration
		want     []string // the checks that fail
		says     []string
	}{
		{name: "as it comes", says: []string{"HTTP/1.0 at Tidings", "all OK"}},
		{name: "as the documents say", location: `proxy_http_version 1.1; proxy_set_header Connection ""; proxy_read_timeout 60s; gzip off;`,
			says: []string{"HTTP/1.1 at Tidings", "all OK"}},
		{name: "deaf to X-Accel-Buffering", location: "proxy_ignore_headers X-Accel-Buffering;", idle: time.Minute,
			want: []string{"buffering"}, says: []string{"until the stream ends", "no proxy_ignore_headers"}},
		{name: "compressing", location: "gzip on; gzip_types text/event-stream; gzip_proxied any; gzip_min_length 1; gzip_http_version 1.0;",
			want: []string{"compression"}, says: []string{"as gzip"}},
		{name: "impatient", location: "proxy_read_timeout 3s;", idle: time.Minute,
			want: []string{"idle"}, says: []string{"after the last byte", "proxy_read_timeout"}},
		{name: "forgetful", location: `proxy_set_header Last-Event-ID ""; proxy_set_header Authorization "";`, want: []string{"cursor", "token"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // they wait more than they work
			api := serve(t, map[string]string{"TIDINGS_HEARTBEAT": "1m"}, "dev").api
			out := newOutput()
			code := newDoctor(doctorCommand{URL: nginx(t, api, c.location), Idle: c.idle}, out).run(t.Context())
			if got := failures(out.String()); !slices.Equal(got, c.want) || (code == 0) != (len(c.want) == 0) {
				t.Errorf("exit code %d, failed %q, want %q", code, got, c.want)
			}
			for _, words := range c.says {
				if !strings.Contains(out.String(), words) {
					t.Errorf("%q is not said", words)
				}
			}
			if t.Failed() {
				t.Log("\n" + out.String())
			}
		})
	}
}

func TestTheDoctorIsACommand(t *testing.T) {
	api := serve(t, nil, "dev").api
	p := command(t, map[string]string{}, "doctor", api).start()
	if code := p.code(); code != 0 || !strings.Contains(p.out.String(), "all OK") {
		t.Errorf("exit code %d", code)
	}
	if code := command(t, nil, "doctor", api+"/elsewhere").start().code(); code != exitFailed {
		t.Errorf("without a probe: exit code %d", code)
	}
}
