package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

//go:embed cases
var builtIn embed.FS

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := mainWith(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "contract:", err)
		os.Exit(1)
	}
}

func mainWith(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	if len(args) == 0 {
		return errors.New("serve, list, expect or texts?")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	dir := flags.String("cases", "", "directory of case files instead of the built-in ones")
	listen := flags.String("listen", "127.0.0.1:0", "address to serve on")
	watch := flags.Bool("watch-stdin", false, "end when standard input does")
	locales := flags.String("locales", "", "the server's language files")
	clients := flags.String("clients", "", "the directory of the clients")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if args[0] == "texts" {
		return writeTexts(*locales, *clients)
	}
	files, err := fs.Sub(builtIn, "cases")
	if err != nil {
		return err
	}
	if *dir != "" {
		files = os.DirFS(*dir)
	}
	cases, err := LoadCases(files)
	if err != nil {
		return err
	}
	switch args[0] {
	case "list":
		for _, name := range slices.Sorted(maps.Keys(cases)) {
			fmt.Fprintf(stdout, "%-28s %s\n", name, cases[name].Note)
		}
		return nil
	case "expect":
		c := cases[flags.Arg(0)]
		if c == nil {
			return fmt.Errorf("no case %q", flags.Arg(0))
		}
		for _, l := range slices.Concat(c.States, c.Results) {
			fmt.Fprintln(stdout, line(l))
		}
		return nil
	case "serve":
		if *watch {
			var cancel context.CancelFunc
			ctx, cancel = context.WithCancel(ctx)
			go func() {
				defer cancel()
				_, _ = io.Copy(io.Discard, stdin)
			}()
		}
		return serve(ctx, cases, *listen, stdout)
	}
	return fmt.Errorf("%q is none of serve, list, expect, texts", args[0])
}

// serve prints the address and plays cases until ctx ends.
func serve(ctx context.Context, cases map[string]*Case, address string, stdout io.Writer) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	url := "http://" + l.Addr().String()
	fmt.Fprintln(stdout, "listen="+url)
	srv := &http.Server{Handler: newPlayer(cases, url), ConnContext: withConn, Protocols: new(http.Protocols)}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(holes{l}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// player hands out runs and leads each request to its run.
type player struct {
	cases map[string]*Case
	url   string

	mu   sync.Mutex
	runs map[string]*run
}

func newPlayer(cases map[string]*Case, url string) http.Handler {
	p := &player{cases: cases, url: url, runs: map[string]*run{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /cases", func(w http.ResponseWriter, req *http.Request) {
		names := slices.Sorted(maps.Keys(cases))
		if !req.URL.Query().Has("http2") {
			names = slices.DeleteFunc(names, func(name string) bool { return cases[name].Client.HTTP2 })
		}
		answer(w, names)
	})
	mux.HandleFunc("POST /runs", p.begin)
	mux.HandleFunc("/run/{id}/", func(w http.ResponseWriter, req *http.Request) {
		id := req.PathValue("id")
		p.mu.Lock()
		r := p.runs[id]
		p.mu.Unlock()
		if r == nil {
			http.NotFound(w, req)
			return
		}
		http.StripPrefix("/run/"+id, r).ServeHTTP(w, req)
	})
	return mux
}

func (p *player) begin(w http.ResponseWriter, req *http.Request) {
	var want struct{ Case string }
	if err := json.NewDecoder(req.Body).Decode(&want); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c := p.cases[want.Case]
	if c == nil {
		http.Error(w, "no case "+strconv.Quote(want.Case), http.StatusNotFound)
		return
	}
	p.mu.Lock()
	id := strings.ReplaceAll(c.Name, "/", "-") + "-" + strconv.Itoa(len(p.runs)+1)
	p.runs[id] = newRun(c)
	p.mu.Unlock()
	answer(w, struct {
		BaseURL string         `json:"base_url"`
		Client  Settings       `json:"client"`
		Actions []Action       `json:"actions"`
		Until   map[string]any `json:"until"`
	}{p.url + "/run/" + id, c.Client, append([]Action{}, c.Actions...), c.Until})
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
