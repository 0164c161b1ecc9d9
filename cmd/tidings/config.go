package main

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/tidings/tidings/cmd/tidings/drill"
	"github.com/tidings/tidings/jobs"
	"github.com/tidings/tidings/jobs/gate"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/local"
	"github.com/tidings/tidings/jobs/model/provider"
	"github.com/tidings/tidings/jobs/retry"
	"github.com/tidings/tidings/server"
)

// This file is the only one that reads the environment. The struct tags below,
// and those of the structs embedded there, are the only place where a setting's
// names, default and bounds stand.
// --help prints them and docs/operations.md is checked against them.

// commandLine is everything that can be said on it.
type commandLine struct {
	Dev    settings      `cmd:"" help:"Try it: API, workers and Redis in one process, nothing to install. Nothing survives a restart."`
	Serve  settings      `cmd:"" help:"Serve the API. Needs TIDINGS_REDIS_URL."`
	Work   settings      `cmd:"" help:"Work on jobs. Needs TIDINGS_REDIS_URL."`
	All    settings      `cmd:"" help:"Serve the API and work on jobs in one process. Needs TIDINGS_REDIS_URL."`
	Watch  watchCommand  `cmd:"" help:"Show a session's live status in the terminal. Exits with 0 at completed and 1 at error."`
	Doctor doctorCommand `cmd:"" help:"Send a stream through the proxies in front of Tidings and report what they do to it. Exits with 1 if streams suffer."`
	Check  checkCommand  `cmd:"" help:"Show the worst case of the settings, and refuse contradictory ones."`
	Drill  drillCommand  `cmd:"" help:"Break what the service depends on, and measure how it copes. Exits with 1 when a gate fails."`

	Retries retriesCommand `cmd:"" help:"Switch the fleet's retries off for a time or on again, or show what is off and who did it."`
	Pause   pauseCommand   `cmd:"" help:"Let all calls to a model wait for a time. Jobs wait with them."`
	Resume  resumeCommand  `cmd:"" help:"End such a pause, and a wait that the model's provider asked all for."`
	Probe   probeCommand   `cmd:"" help:"Let the next calls test a model whose breaker is open, instead of waiting for its time."`

	Version struct{} `cmd:"" help:"Say what was built: the commit, the toolchain and each library with its version."`
}

// settings are those of every mode that runs parts of the service.
type settings struct {
	Listen    string `group:"Addresses" env:"TIDINGS_LISTEN" default:"127.0.0.1:8080" help:"The address the API listens on. Port 0 picks a free one."`
	OpsListen string `group:"Addresses" env:"TIDINGS_OPS_LISTEN" default:"127.0.0.1:8081" help:"The address of health, metrics and the operators' pages. Never make it public."`
	H2C       bool   `name:"h2c" group:"Addresses" env:"TIDINGS_H2C" help:"Also speak HTTP/2 without TLS, for a proxy that does."`
	RedisURL  string `group:"Addresses" env:"TIDINGS_REDIS_URL" placeholder:"URL" help:"redis://, redis-sentinel:// or redis-cluster://, or their rediss forms for TLS. Empty: an embedded Redis, in dev only."`

	Auth         string        `group:"Who may call" env:"TIDINGS_AUTH" enum:"off,jwt" default:"off" help:"off: all callers are the same owner. jwt: a bearer token's sub is the owner."`
	Insecure     bool          `group:"Who may call" env:"TIDINGS_INSECURE" help:"Serve other machines than this one while TIDINGS_AUTH is off."`
	JWTPublicKey string        `name:"jwt-public-key" group:"Who may call" env:"TIDINGS_JWT_PUBLIC_KEY" placeholder:"FILE" help:"PEM file with the keys to check tokens with, one or several: RS256, ES256 or EdDSA. TIDINGS_JWT_SECRET instead: HS256."`
	JWTIssuer    string        `name:"jwt-issuer" group:"Who may call" env:"TIDINGS_JWT_ISSUER" placeholder:"ISS" help:"What a token's iss must be. Needed with jwt."`
	JWTAudience  string        `name:"jwt-audience" group:"Who may call" env:"TIDINGS_JWT_AUDIENCE" placeholder:"AUD" help:"What a token's aud must contain. Needed with jwt."`
	JWTLifetime  time.Duration `name:"jwt-lifetime" group:"Who may call" env:"TIDINGS_JWT_LIFETIME" type:"span" from:"1m" to:"365d" default:"24h" help:"How long a token may be valid from its iat, or from now. One that is valid for longer is refused."`
	Origins      []string      `group:"Who may call" env:"TIDINGS_ORIGINS" placeholder:"ORIGIN" help:"Web origins that may call the API from a browser, with commas between them. *: all."`
	Hosts        []string      `group:"Who may call" env:"TIDINGS_HOSTS" placeholder:"NAME" help:"Host names under which the API may be called while TIDINGS_AUTH is off, with commas between them. IP addresses and localhost always may."`
	QueuesWrite  bool          `group:"Who may call" env:"TIDINGS_QUEUES_WRITE" help:"Let operators change tasks on the queues' web page; otherwise it is read-only."`

	Model          string        `group:"Model" env:"TIDINGS_MODEL" placeholder:"MODEL" help:"anthropic/NAME, openai/NAME, gemini/NAME, or local, which needs no key and only quotes. Without it dev takes local; serve, work and all do not start."`
	ModelName      string        `group:"Model" env:"ANTHROPIC_MODEL" placeholder:"NAME" help:"The model's name when TIDINGS_MODEL gives only the provider, anthropic."`
	ModelBaseURL   string        `group:"Model" env:"TIDINGS_MODEL_BASE_URL" placeholder:"URL" help:"An address other than the provider's own: a proxy, or a server with an OpenAI-compatible API."`
	ModelClearText bool          `group:"Model" env:"TIDINGS_MODEL_CLEAR_TEXT" help:"Send the key to an http:// address on another machine too. Without it that is refused."`
	ModelOutput    string        `group:"Model" env:"TIDINGS_MODEL_OUTPUT" enum:"json_schema,json_object,text" default:"json_schema" help:"How the model is asked for JSON. Choose a weaker form for servers that do not support json_schema."`
	PriceFile      string        `name:"prices" group:"Model" env:"TIDINGS_PRICES" placeholder:"FILE" help:"A file of your own prices, which override the built-in list: see providers.md."`
	JobCost        string        `group:"Model" env:"TIDINGS_JOB_COST" default:"0" bounds:"0 to 10000" help:"The most that one job's calls may cost, in US dollars. 0: no limit. It applies where the model's price is known."`
	LocalLatency   time.Duration `group:"Model" env:"TIDINGS_LOCAL_LATENCY" type:"span" from:"0s" to:"30s" default:"1s" help:"How long the local model takes in dev, so that there is something to watch."`

	gateSettings

	Calls         int           `group:"Retries in the call" env:"TIDINGS_CALLS,AI_MODEL_RETRY_ATTEMPTS" type:"whole" from:"1" to:"5" default:"3" help:"Calls in one attempt, the first included."`
	FirstPause    time.Duration `name:"call-first-pause" group:"Retries in the call" env:"TIDINGS_CALL_FIRST_PAUSE,AI_MODEL_RETRY_INITIAL_DELAY_SECONDS" type:"span" from:"1ms" to:"5s" default:"1s" help:"Longest first pause between two calls. Further ones double, up to 8s."`
	CallBudget    time.Duration `group:"Retries in the call" env:"TIDINGS_CALL_BUDGET,AI_MODEL_TIMEOUT_SECONDS" type:"span" from:"100ms" to:"5m" default:"45s" help:"Time for all calls and pauses of one attempt. Twice that for long workloads."`
	CallJitter    string        `group:"Retries in the call" env:"TIDINGS_CALL_JITTER" default:"full" bounds:"full, or 0 to 1" help:"The random share of a pause."`
	CallAllowance int           `group:"Retries in the call" env:"TIDINGS_CALL_ALLOWANCE" type:"whole" from:"1" to:"100" default:"12" help:"Calls that one job may make in all its attempts, stored with the job."`

	QueueAttempts int           `group:"Retries by the queue" env:"TIDINGS_QUEUE_ATTEMPTS" type:"whole" from:"1" to:"10" default:"4" help:"Attempts at one job, the first included."`
	QueueDelays   string        `group:"Retries by the queue" env:"TIDINGS_QUEUE_DELAYS" default:"30s,60s,120s" bounds:"each 10ms to 1h" help:"Waits between attempts: a list whose last one repeats, or exp:10s..5m for 10, 20, 40 s and so on."`
	QueueJitter   string        `group:"Retries by the queue" env:"TIDINGS_QUEUE_JITTER" default:"0" bounds:"0 to 0.1" help:"The fraction by which those waits may grow."`
	Deadline      time.Duration `group:"Retries by the queue" env:"TIDINGS_DEADLINE" type:"span" from:"1s" to:"16h" default:"10m" help:"How long a job may take from its acceptance. Half as much again for long workloads."`

	Heartbeat    time.Duration `group:"Streams" env:"TIDINGS_HEARTBEAT" type:"span" from:"10ms" to:"1m" default:"15s" help:"How often an idle stream sends a comment."`
	StreamLimit  int           `group:"Streams" env:"TIDINGS_STREAM_LIMIT" type:"whole" from:"1" to:"1000000" default:"50000" help:"Open streams of this process."`
	OwnerStreams int           `name:"owner-stream-limit" group:"Streams" env:"TIDINGS_OWNER_STREAM_LIMIT" type:"whole" from:"1" to:"1000000" default:"200" help:"Open streams of one owner in this process, unless TIDINGS_AUTH is off."`
	StreamMaxAge time.Duration `group:"Streams" env:"TIDINGS_STREAM_MAX_AGE" type:"span" from:"1s" to:"24h" default:"10m" help:"When a stream is closed for the client to resume."`

	Concurrency int           `group:"Workers" env:"TIDINGS_CONCURRENCY" type:"whole" from:"1" to:"10000" default:"20" help:"Jobs that this process works on at the same time."`
	QueuePoll   time.Duration `group:"Workers" env:"TIDINGS_QUEUE_POLL" type:"span" from:"1ms" to:"10s" default:"5ms" help:"How often an idle process looks for jobs. From ten processes up take 20ms. dev takes 50ms unless it is set."`
	QueueLimit  int           `group:"Workers" env:"TIDINGS_QUEUE_LIMIT" type:"whole" from:"1" to:"10000000" default:"1000" help:"Open jobs of all processes together. Further submits are refused."`
	OwnerJobs   int           `group:"Workers" env:"TIDINGS_OWNER_JOBS" type:"whole" from:"1" to:"10000000" default:"100" help:"Open jobs of one owner in all processes together, unless TIDINGS_AUTH is off. Further submits are refused."`
	OwnerStarts int           `group:"Workers" env:"TIDINGS_OWNER_STARTS" type:"whole" from:"1" to:"60000" default:"60" help:"Jobs that one owner may start in a minute, replaced and cancelled ones too, after as many as may be open at once. Not with TIDINGS_AUTH off."`
	InputBytes  int           `group:"Workers" env:"TIDINGS_INPUT_BYTES" type:"whole" from:"1048576" to:"1099511627776" default:"268435456" help:"Bytes that the inputs of open and failed jobs may take together. The oldest of failed jobs make way; what does not fit beside those of open jobs is refused."`
	Lease       time.Duration `group:"Workers" env:"TIDINGS_LEASE" type:"span" from:"100ms" to:"1m" default:"15s" help:"How long a silent worker keeps its job. The lease is renewed every third of that."`
	Outside     []string      `group:"Workers" env:"TIDINGS_OUTSIDE" placeholder:"WORKLOAD" help:"Workloads done by workers in other programs, separated by commas. The same in every process."`

	WaitReplicas int           `group:"Fail-over" env:"TIDINGS_WAIT_REPLICAS" type:"whole" from:"0" to:"10" default:"0" help:"Redis replicas that must confirm a submit, claim or result before it counts as done. 0: wait for none."`
	WaitTimeout  time.Duration `group:"Fail-over" env:"TIDINGS_WAIT_TIMEOUT" type:"span" from:"10ms" to:"2s" default:"500ms" help:"How long they may take. Then work goes on and the answer to a submit says so."`

	Drain time.Duration `group:"Shutdown" env:"TIDINGS_DRAIN" type:"span" from:"0s" to:"10m" default:"10s" help:"The time over which the streams are closed at shutdown."`
	Grace time.Duration `group:"Shutdown" env:"TIDINGS_GRACE" type:"span" from:"1s" to:"15m" default:"40s" help:"How long the orchestrator waits before it kills the process. Only checked: set it there too."`

	Retention         time.Duration `group:"Keeping" env:"TIDINGS_RETENTION" type:"span" from:"1m" to:"3650d" default:"7d" help:"How long jobs and their logs are kept."`
	InputRetention    time.Duration `group:"Keeping" env:"TIDINGS_INPUT_RETENTION" type:"span" from:"1m" to:"3650d" default:"24h" help:"How long the input of a job that failed is kept, for a manual retry."`
	DocumentRetention time.Duration `group:"Keeping" env:"TIDINGS_DOCUMENT_RETENTION" type:"span" from:"1m" to:"3650d" default:"90d" help:"How long documents are kept."`

	LogFormat string `group:"Log" env:"TIDINGS_LOG_FORMAT" enum:"auto,json,text" default:"auto" help:"json or text. auto is text in dev and json elsewhere."`
	LogLevel  string `group:"Log" env:"TIDINGS_LOG_LEVEL" enum:"debug,info,warn,error" default:"info" help:"debug, info, warn or error."`

	// Secrets have no flag: a command line is seen by everybody on the machine.
	AdminPassword string `kong:"-"`
	JWTSecret     string `kong:"-"`
	WorkerToken   string `kong:"-"`
	OwnerSalt     string `kong:"-"`
	ModelKey      string `kong:"-"`
	// Unknown are variables that are named as settings are and are none.
	Unknown []string `kong:"-"`

	retry retry.Settings
	gate  gate.Settings
	price *model.Prices
	redis *redisTarget // nil: embedded
}

type watchCommand struct {
	Session  string `arg:"" help:"The session's id."`
	Workload string `default:"summary" help:"summary, guidance or classification."`
	URL      string `name:"url" env:"TIDINGS_URL" default:"http://127.0.0.1:8080" placeholder:"URL" help:"The API's address."`
	Lang     string `placeholder:"TAG" help:"The language of the texts, such as nb or ar."`
}

type doctorCommand struct {
	URL  string        `arg:"" name:"url" help:"The address that clients use, such as https://tidings.example.com."`
	Idle time.Duration `type:"span" from:"0s" to:"5m" default:"0s" help:"Also keep a stream silent but for comments for this long, and see whether it is cut. 70s finds most limits."`

	// Token goes along where something in front of Tidings asks for one.
	Token string `kong:"-"`
}

type checkCommand struct {
	DryRun bool `help:"Play retries, cost lines and summaries on the built-in model, without key, network or Redis."`
	settings
}

func providers() []string { return []string{"anthropic", "openai", "gemini"} }

// readCommandLine parses flags and environment and checks every value. mode is
// the command's name. Its error is fit to print.
func readCommandLine(args []string, stdout, stderr io.Writer) (line *commandLine, mode string, err error) {
	line = &commandLine{}
	parser, err := newParser(line, kong.Writers(stdout, stderr))
	if err != nil {
		return nil, "", err
	}
	if slices.Equal(args, []string{"--version"}) {
		args = []string{"version"}
	}
	parsed, err := parser.Parse(args)
	if err != nil {
		return nil, "", err
	}
	var variables []string
	for _, command := range parser.Model.Leaves(false) {
		for _, flags := range command.AllFlags(false) {
			for _, flag := range flags {
				variables = append(variables, flag.Envs...)
			}
		}
	}
	unknown, err := unknownSettings(variables)
	if err != nil {
		return nil, "", err
	}
	mode, _, _ = strings.Cut(parsed.Command(), " ")
	read := map[string]*string{"TIDINGS_TOKEN": &line.Doctor.Token}
	password := ""
	s := line.settings(mode)
	if s != nil {
		read["TIDINGS_JWT_SECRET"], read["TIDINGS_WORKER_TOKEN"], read["TIDINGS_OWNER_SALT"] = &s.JWTSecret, &s.WorkerToken, &s.OwnerSalt
		if !slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "--redis-url") }) {
			read["TIDINGS_REDIS_URL"] = &s.RedisURL
		} else if hasPassword(s.RedisURL) {
			return nil, "", errors.New("--redis-url shows its password to everybody on this machine: set TIDINGS_REDIS_URL or TIDINGS_REDIS_URL_FILE")
		}
	}
	read["TIDINGS_ADMIN_PASSWORD"] = &password
	for name, into := range read {
		if *into, err = secret(name); err != nil {
			return nil, "", err
		}
	}
	for _, a := range []*opsAccess{&line.Retries.opsAccess, &line.Pause.opsAccess, &line.Resume.opsAccess, &line.Probe.opsAccess} {
		a.password = password
	}
	if s != nil {
		s.AdminPassword, s.Unknown = password, unknown
		err = s.complete(mode)
	}
	return line, mode, err
}

// settings are the chosen mode's, nil if it runs no part of the service.
func (c *commandLine) settings(mode string) *settings {
	switch mode {
	case "dev":
		return &c.Dev
	case "serve":
		return &c.Serve
	case "work":
		return &c.Work
	case "all":
		return &c.All
	case "check":
		return &c.Check.settings
	}
	return nil
}

// Help is the end of doctor's --help.
func (*doctorCommand) Help() string {
	return "A token for what stands in front of Tidings is read from the environment alone: TIDINGS_TOKEN. The probe itself needs none."
}

// Help is the end of each mode's --help.
func (*settings) Help() string {
	return "Secrets are read from the environment, or from the file that the same name with _FILE gives: TIDINGS_REDIS_URL, " +
		strings.Join(secretNames(), ", ") + "."
}

func newParser(line *commandLine, more ...kong.Option) (*kong.Kong, error) {
	return kong.New(line, append([]kong.Option{
		kong.Name("tidings"),
		kong.Description("Makes summaries with a language model and tells their status live, over two layers of retries."),
		kong.NamedMapper("whole", kong.MapperFunc(whole)),
		kong.NamedMapper("span", kong.MapperFunc(span)),
		kong.NamedMapper("part", kong.MapperFunc(part)),
		kong.ValueFormatter(describe),
		kong.Vars{"drill_rows": strings.Join(drill.Names(), ", ")},
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 120}),
	}, more...)...)
}

// whole reads a number within the bounds of the tags from and to.
func whole(c *kong.DecodeContext, target reflect.Value) error {
	text, err := word(c)
	if err != nil {
		return err
	}
	from, to := c.Value.Tag.Get("from"), c.Value.Tag.Get("to")
	low, err1 := strconv.Atoi(from)
	high, err2 := strconv.Atoi(to)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < low || n > high {
		return fmt.Errorf("want a whole number from %s to %s, got %q", from, to, text)
	}
	target.SetInt(int64(n))
	return nil
}

// span reads a duration within the bounds of the tags from and to. Beside what
// Go reads it takes days ("7d") and bare seconds ("45"), which the names that
// end in SECONDS are set to.
func span(c *kong.DecodeContext, target reflect.Value) error {
	text, err := word(c)
	if err != nil {
		return err
	}
	from, to := c.Value.Tag.Get("from"), c.Value.Tag.Get("to")
	low, err1 := parseSpan(from)
	high, err2 := parseSpan(to)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	d, err := parseSpan(text)
	if err != nil || d < low || d > high {
		return fmt.Errorf("want a time from %s to %s, such as %s, got %q", from, to, c.Value.Default, text)
	}
	target.SetInt(int64(d))
	return nil
}

// part reads a number that need not be whole, within the bounds of the tags from
// and to.
func part(c *kong.DecodeContext, target reflect.Value) error {
	text, err := word(c)
	if err != nil {
		return err
	}
	from, to := c.Value.Tag.Get("from"), c.Value.Tag.Get("to")
	low, err := strconv.ParseFloat(from, 64)
	if err != nil {
		return err
	}
	high, err := strconv.ParseFloat(to, 64)
	if err != nil {
		return err
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= low && f <= high) { // not a number is within nothing
		return fmt.Errorf("want a number from %s to %s, got %q", from, to, text)
	}
	target.SetFloat(f)
	return nil
}

func parseSpan(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * 24 * time.Hour, err
	}
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		text = strconv.FormatFloat(seconds, 'f', -1, 64) + "s"
	}
	return time.ParseDuration(text)
}

func word(c *kong.DecodeContext) (string, error) {
	var text string
	err := c.Scan.PopValueInto("value", &text)
	return strings.TrimSpace(text), err
}

// bounds says what a setting may be, where its help does not.
func bounds(v *kong.Value) string {
	if from := v.Tag.Get("from"); from != "" {
		return from + " to " + v.Tag.Get("to")
	}
	return v.Tag.Get("bounds")
}

// describe adds bounds and names in the environment to a flag's help.
func describe(v *kong.Value) string {
	help, notes := v.Help, []string{}
	if b := bounds(v); b != "" {
		notes = append(notes, b)
	}
	for _, env := range v.Tag.Envs {
		notes = append(notes, "$"+env)
	}
	if len(notes) > 0 {
		help += " (" + strings.Join(notes, ", ") + ")"
	}
	return help
}

// busyPoll is the default of QueuePoll, by which a job is claimed within some ms.
// A dev that idles all day looks less often: the embedded Redis would take a
// fifth of a core for that.
const (
	busyPoll = 5 * time.Millisecond
	idlePoll = 50 * time.Millisecond
)

// complete turns the words into what the parts need and refuses what cannot
// work, each with what to change.
func (s *settings) complete(mode string) error {
	if err := s.completeRetries(); err != nil {
		return err
	}
	if mode == "dev" && s.QueuePoll == busyPoll {
		s.QueuePoll = idlePoll
	}
	if s.RedisURL != "" {
		target, err := parseRedisURL(s.RedisURL)
		if err != nil {
			return fmt.Errorf("TIDINGS_REDIS_URL: %w", err)
		}
		s.redis = &target
	} else if mode != "dev" && mode != "check" {
		return fmt.Errorf("tidings %s needs TIDINGS_REDIS_URL, such as redis://127.0.0.1:6379; only dev brings a Redis of its own", mode)
	}
	if s.WaitReplicas > 0 && s.redis == nil && mode != "check" {
		return errors.New("TIDINGS_WAIT_REPLICAS is set, but the embedded Redis has no replicas: set TIDINGS_REDIS_URL too, or remove it")
	}
	if s.Auth == "off" && s.JWTSecret+s.JWTPublicKey+s.JWTIssuer+s.JWTAudience != "" {
		return errors.New("TIDINGS_AUTH is off, but there are settings for jwt: set it to jwt or remove them")
	}
	if s.Auth == "off" && !s.Insecure && mode != "work" && mode != "check" && !loopback(s.Listen) {
		return fmt.Errorf("TIDINGS_LISTEN is %s while TIDINGS_AUTH is off: whoever reaches it reads and writes everything. Set TIDINGS_AUTH=jwt, "+
			"or TIDINGS_INSECURE=true if only those reach it who may", s.Listen)
	}
	if s.Auth == "jwt" && (s.JWTSecret == "") == (s.JWTPublicKey == "") {
		return errors.New("TIDINGS_AUTH is jwt: set one of TIDINGS_JWT_SECRET and TIDINGS_JWT_PUBLIC_KEY")
	}
	if s.Auth == "jwt" && (s.JWTIssuer == "" || s.JWTAudience == "") {
		return errors.New("TIDINGS_AUTH is jwt: set TIDINGS_JWT_ISSUER and TIDINGS_JWT_AUDIENCE to your tokens' iss and aud, " +
			"such as https://login.example.com and tidings, or tokens for other services would be taken")
	}
	if s.AdminPassword != "" && len(s.AdminPassword) < server.MinPassword {
		return fmt.Errorf("TIDINGS_ADMIN_PASSWORD needs at least %d characters, such as openssl rand -hex 16 makes", server.MinPassword)
	}
	if err := s.completeOutside(mode); err != nil {
		return err
	}
	var err error
	if s.price, err = pricesFrom(s.PriceFile); err != nil {
		return err
	}
	if err := s.completeModel(mode); err != nil {
		return err
	}
	return s.completeGate(mode)
}

// minWorkerToken is what a token must have that nobody shall guess: as much as a
// secret for HS256.
const minWorkerToken = 32

// completeOutside checks that outside workers can get their jobs.
func (s *settings) completeOutside(mode string) error {
	for i, name := range s.Outside {
		s.Outside[i] = strings.TrimSpace(name)
		if _, ok := jobs.WorkloadNamed(s.Outside[i]); !ok {
			return fmt.Errorf("TIDINGS_OUTSIDE: there is no workload %q", s.Outside[i])
		}
	}
	switch {
	case s.WorkerToken != "" && len(s.WorkerToken) < minWorkerToken:
		return fmt.Errorf("TIDINGS_WORKER_TOKEN needs at least %d characters, such as openssl rand -hex 32 makes", minWorkerToken)
	case s.WorkerToken == "" && len(s.Outside) > 0 && (mode == "serve" || mode == "all"):
		return errors.New("TIDINGS_OUTSIDE is set: set TIDINGS_WORKER_TOKEN too, or no outside worker is let in")
	}
	return nil
}

// completeModel gives a provider that stands alone its model's name, and finds
// the provider's key.
func (s *settings) completeModel(mode string) error {
	switch {
	case s.Model != "":
	case mode == "serve" || mode == "work" || mode == "all":
		return fmt.Errorf("tidings %s needs TIDINGS_MODEL: the model that writes, such as anthropic/<name>, openai/<name> or gemini/<name>, and the same in all processes. "+
			"TIDINGS_MODEL=local is the built-in one of dev: it only quotes the material", mode)
	default:
		s.Model = local.Name
	}
	vendor, name, _ := strings.Cut(s.Model, "/")
	if vendor == "anthropic" && name == "" {
		name = s.ModelName
	}
	switch {
	case vendor == local.Name:
		if name != "" || s.ModelBaseURL != "" {
			return errors.New("TIDINGS_MODEL is local: it takes no name and no TIDINGS_MODEL_BASE_URL")
		}
		return nil
	case !slices.Contains(providers(), vendor):
		return fmt.Errorf("TIDINGS_MODEL is %q: want local, anthropic/<name>, openai/<name> or gemini/<name>", s.Model)
	case name == "":
		return fmt.Errorf("TIDINGS_MODEL is %q: give the model's name too, as %s/<name>", s.Model, vendor)
	}
	s.Model = vendor + "/" + name
	if !gate.Named(s.Model) { // every call of it would be refused
		return fmt.Errorf("TIDINGS_MODEL is %q: want at most %d visible ASCII characters without spaces and braces", s.Model, gate.MaxName)
	}
	var err error
	s.ModelKey, err = secret(provider.KeyName(vendor))
	return err
}

func (s *settings) completeRetries() error {
	jitter, err := retry.ParseJitter(s.CallJitter)
	if err != nil {
		return fmt.Errorf("TIDINGS_CALL_JITTER: %w", err)
	}
	plan, err := retry.ParsePlan(s.QueueDelays)
	if err != nil {
		return fmt.Errorf("TIDINGS_QUEUE_DELAYS: %w", err)
	}
	queueJitter, err := strconv.ParseFloat(s.QueueJitter, 64)
	if err != nil || !(queueJitter >= 0 && queueJitter <= retry.MaxQueueJitter) {
		return fmt.Errorf("TIDINGS_QUEUE_JITTER: want a fraction from 0 to %v, got %q", retry.MaxQueueJitter, s.QueueJitter)
	}
	cost, err := strconv.ParseFloat(s.JobCost, 64)
	if err != nil || !(cost >= 0 && cost <= retry.MaxCost) {
		return fmt.Errorf("TIDINGS_JOB_COST: want US dollars from 0 to %d, such as 0.25, got %q", retry.MaxCost, s.JobCost)
	}
	r := retry.Defaults()
	r.Cost = cost
	r.Calls, r.FirstPause, r.Jitter, r.Allowance = s.Calls, s.FirstPause, jitter, s.CallAllowance
	r.Budget, r.LongBudget = s.CallBudget, 2*s.CallBudget
	r.Attempts, r.Plan, r.QueueJitter = s.QueueAttempts, plan, queueJitter
	r.Deadline, r.LongDeadline = s.Deadline, s.Deadline*3/2
	r.Lease, r.Retention, r.InputRetention = s.Lease, s.Retention, s.InputRetention
	r.Drain, r.Grace = s.Drain, s.Grace
	s.retry = r
	if err := r.Check(); err != nil {
		return fmt.Errorf("these settings contradict each other:\n%w", err)
	}
	return nil
}
