package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidings/tidings/events/eventstest"
	"github.com/tidings/tidings/jobs/model"
	"github.com/tidings/tidings/jobs/model/local"
	"github.com/tidings/tidings/jobs/retry"
)

// adminPassword is the operators' in these tests.
const adminPassword = "let-me-in-please"

// clearEnvironment hides the settings of whoever runs the tests.
func clearEnvironment(t *testing.T) {
	t.Helper()
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		for _, prefix := range []string{"TIDINGS_", "AI_MODEL_", "ANTHROPIC_", "OPENAI_", "GEMINI_"} {
			if strings.HasPrefix(name, prefix) {
				t.Setenv(name, "") // Setenv puts it back after the test
				if err := os.Unsetenv(name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func read(t *testing.T, env map[string]string, args ...string) (*commandLine, string, error) {
	t.Helper()
	clearEnvironment(t)
	for name, value := range env {
		t.Setenv(name, value)
	}
	return readCommandLine(args, io.Discard, io.Discard)
}

func TestAVariableThatIsNoSettingIsNamed(t *testing.T) {
	for name, meant := range map[string]string{"TIDINGS_MODLE": "TIDINGS_MODEL", "TIDINGS_ADMIN_PASSWORT": "TIDINGS_ADMIN_PASSWORD",
		"TIDINGS_JWT_SECRET_FIL": "TIDINGS_JWT_SECRET_FILE", "TIDINGS_OPSLISTEN": "TIDINGS_OPS_LISTEN"} {
		if _, _, err := read(t, map[string]string{name: "x"}, "dev"); err == nil || !strings.Contains(err.Error(), name+" is no setting: did you mean "+meant+"?") {
			t.Errorf("%s: %v", name, err)
		}
	}
	line, _, err := read(t, map[string]string{"TIDINGS_ADDR": "x", "TIDINGS_LISTEN": "127.0.0.1:0", "TIDINGS_ADMIN_PASSWORD": "long enough for anybody"}, "dev")
	if err != nil || !slices.Equal(line.Dev.Unknown, []string{"TIDINGS_ADDR"}) {
		t.Errorf("named %v", err)
	}
}

func TestWithoutAuthOnlyThisMachineIsServed(t *testing.T) {
	for address, alone := range map[string]bool{"127.0.0.1:0": true, "localhost:8080": true, "[::1]:8080": true, ":8080": false, "0.0.0.0:8080": false, "tidings.example:80": false} {
		env := map[string]string{"TIDINGS_LISTEN": address}
		if _, _, err := read(t, env, "dev"); (err == nil) != alone || err != nil && !strings.Contains(err.Error(), "TIDINGS_INSECURE=true") {
			t.Errorf("%s: %v", address, err)
		}
		env["TIDINGS_INSECURE"] = "true"
		if _, _, err := read(t, env, "dev"); err != nil {
			t.Errorf("%s, insecure: %v", address, err)
		}
	}
}

func TestDevLooksLessOftenForJobs(t *testing.T) {
	for poll, want := range map[string]time.Duration{"": 50 * time.Millisecond, "20ms": 20 * time.Millisecond} {
		env := map[string]string{}
		if poll != "" {
			env["TIDINGS_QUEUE_POLL"] = poll
		}
		line, mode, err := read(t, env, "dev")
		if err != nil {
			t.Fatal(err)
		}
		if got := line.settings(mode).QueuePoll; got != want {
			t.Errorf("%q: %s, want %s", poll, got, want)
		}
	}
	line, mode, err := read(t, map[string]string{"TIDINGS_REDIS_URL": "redis://127.0.0.1:1", "TIDINGS_MODEL": "local"}, "all")
	if err != nil {
		t.Fatal(err)
	}
	if got := line.settings(mode).QueuePoll; got != 5*time.Millisecond {
		t.Errorf("outside dev: %s", got)
	}
}

func TestDefaultsAreTheDocumentedOnes(t *testing.T) {
	line, mode, err := read(t, nil, "dev")
	if err != nil {
		t.Fatal(err)
	}
	got, want := line.settings(mode).retry, retry.Defaults()
	if got.Plan.String() != want.Plan.String() {
		t.Errorf("plan %s, want %s", got.Plan, want.Plan)
	}
	got.Plan, want.Plan = retry.Plan{}, retry.Plan{}
	if a, b := got, want; !equal(a, b) {
		t.Errorf("settings %+v\nwant %+v", a, b)
	}
	if s := line.settings(mode); s.redis != nil || s.Model != "local" || s.Listen != "127.0.0.1:8080" || s.OpsListen != "127.0.0.1:8081" {
		t.Errorf("not what dev promises: %+v", s)
	}
}

// equal compares settings without their plans, which hold slices.
func equal(a, b retry.Settings) bool {
	return a.Worst() == b.Worst() && a.Backoff() == b.Backoff() && a.Lease == b.Lease && a.Retention == b.Retention &&
		a.InputRetention == b.InputRetention && a.Drain == b.Drain && a.Grace == b.Grace && a.Allowance == b.Allowance &&
		a.Deadline == b.Deadline && a.LongDeadline == b.LongDeadline && a.LongBudget == b.LongBudget && a.QueueJitter == b.QueueJitter
}

func TestSettingsHaveTheirOriginalNamesToo(t *testing.T) {
	line, mode, err := read(t, map[string]string{
		"AI_MODEL_RETRY_ATTEMPTS": "2", "AI_MODEL_RETRY_INITIAL_DELAY_SECONDS": "0.5", "AI_MODEL_TIMEOUT_SECONDS": "60",
		"TIDINGS_DEADLINE": "20m",
	}, "dev")
	if err != nil {
		t.Fatal(err)
	}
	r := line.settings(mode).retry
	if r.Calls != 2 || r.FirstPause != 500*time.Millisecond || r.Budget != time.Minute || r.LongBudget != 2*time.Minute {
		t.Errorf("got %d calls, first pause %s, budget %s, long %s", r.Calls, r.FirstPause, r.Budget, r.LongBudget)
	}

	line, mode, err = read(t, map[string]string{"TIDINGS_CALLS": "4", "AI_MODEL_RETRY_ATTEMPTS": "2", "TIDINGS_QUEUE_ATTEMPTS": "3"}, "dev")
	if err != nil {
		t.Fatal(err)
	}
	if r := line.settings(mode).retry; r.Calls != 4 {
		t.Errorf("got %d calls: the name of our own goes first", r.Calls)
	}
	if line, mode, err = read(t, map[string]string{"TIDINGS_CALLS": "4"}, "dev", "--calls=1"); err != nil {
		t.Fatal(err)
	}
	if r := line.settings(mode).retry; r.Calls != 1 {
		t.Errorf("got %d calls: the flag goes before the environment", r.Calls)
	}
}

func TestPlansAndTimes(t *testing.T) {
	line, mode, err := read(t, map[string]string{
		"TIDINGS_QUEUE_DELAYS": "exp:10s..5m", "TIDINGS_CALL_JITTER": "0.25", "TIDINGS_QUEUE_JITTER": "0.1", "TIDINGS_RETENTION": "2d",
	}, "dev")
	if err != nil {
		t.Fatal(err)
	}
	r := line.settings(mode).retry
	if r.Plan.String() != "exp:10s..5m" || r.Jitter != 0.25 || r.QueueJitter != 0.1 || r.Retention != 48*time.Hour {
		t.Errorf("got plan %s, jitter %v and %v, retention %s", r.Plan, r.Jitter, r.QueueJitter, r.Retention)
	}
}

func TestRefusedSettings(t *testing.T) {
	for _, c := range []struct {
		name, value string
		mode        string
		says        []string
	}{
		{"TIDINGS_CALLS", "0", "dev", []string{"TIDINGS_CALLS", "1 to 5", `"0"`}},
		{"TIDINGS_CALLS", "6", "dev", []string{"TIDINGS_CALLS", "1 to 5", `"6"`}},
		{"TIDINGS_CALLS", "many", "dev", []string{"TIDINGS_CALLS", "1 to 5", `"many"`}},
		{"TIDINGS_CALLS", "", "dev", []string{"TIDINGS_CALLS", "1 to 5"}},
		{"AI_MODEL_RETRY_ATTEMPTS", "6", "dev", []string{"AI_MODEL_RETRY_ATTEMPTS", "1 to 5"}},
		{"TIDINGS_CALL_FIRST_PAUSE", "5.1s", "dev", []string{"TIDINGS_CALL_FIRST_PAUSE", "1ms to 5s"}},
		{"AI_MODEL_RETRY_INITIAL_DELAY_SECONDS", "6", "dev", []string{"AI_MODEL_RETRY_INITIAL_DELAY_SECONDS", "5s"}},
		{"TIDINGS_CALL_BUDGET", "soon", "dev", []string{"TIDINGS_CALL_BUDGET", "100ms to 5m"}},
		{"TIDINGS_CALL_BUDGET", "5s", "dev", []string{"TIDINGS_CALL_BUDGET", "cannot hold 3 calls"}},
		{"TIDINGS_CALL_JITTER", "2", "dev", []string{"TIDINGS_CALL_JITTER", "full"}},
		{"TIDINGS_WAIT_REPLICAS", "1", "dev", []string{"TIDINGS_WAIT_REPLICAS", "TIDINGS_REDIS_URL"}},
		{"TIDINGS_WAIT_TIMEOUT", "3s", "dev", []string{"TIDINGS_WAIT_TIMEOUT", "10ms to 2s"}},
		{"TIDINGS_QUEUE_DELAYS", "60s,30s", "dev", []string{"TIDINGS_QUEUE_DELAYS", "must not shrink"}},
		{"TIDINGS_QUEUE_JITTER", "0.2", "dev", []string{"TIDINGS_QUEUE_JITTER", "0 to 0.1"}},
		{"TIDINGS_QUEUE_JITTER", "NaN", "dev", []string{"TIDINGS_QUEUE_JITTER", "0 to 0.1"}},
		{"TIDINGS_JOB_COST", "-1", "dev", []string{"TIDINGS_JOB_COST", "0 to 10000"}},
		{"TIDINGS_JOB_COST", "NaN", "dev", []string{"TIDINGS_JOB_COST", "0 to 10000"}},
		{"TIDINGS_JOB_COST", "10001", "dev", []string{"TIDINGS_JOB_COST", "0 to 10000"}},
		{"TIDINGS_OWNER_JOBS", "0", "dev", []string{"TIDINGS_OWNER_JOBS", "1 to 10000000"}},
		{"TIDINGS_DEADLINE", "1m", "dev", []string{"TIDINGS_DEADLINE", "too short"}},
		{"TIDINGS_GRACE", "20s", "dev", []string{"grace", "drain"}},
		{"TIDINGS_RETENTION", "5m", "dev", []string{"TIDINGS_RETENTION"}},
		{"TIDINGS_MODEL", "anthropic", "dev", []string{"TIDINGS_MODEL", "name"}},
		{"TIDINGS_MODEL", "gpt", "dev", []string{"TIDINGS_MODEL", "openai/<name>"}},
		{"TIDINGS_MODEL", "openai/my model", "check", []string{"TIDINGS_MODEL", "without spaces"}},
		{"TIDINGS_MODEL", "openai/{x}", "dev", []string{"TIDINGS_MODEL", "braces"}},
		{"TIDINGS_MODEL", "openai/modèle", "dev", []string{"TIDINGS_MODEL", "ASCII"}},
		{"TIDINGS_MODEL", "openai/" + strings.Repeat("x", 200), "dev", []string{"TIDINGS_MODEL", "at most 200"}},
		{"TIDINGS_MODEL_BASE_URL", "http://127.0.0.1:1", "dev", []string{"TIDINGS_MODEL_BASE_URL"}},
		{"TIDINGS_REDIS_URL", "localhost:6379", "all", []string{"TIDINGS_REDIS_URL", "scheme"}},
		{"TIDINGS_AUTH", "jwt", "dev", []string{"TIDINGS_JWT_SECRET"}},
		{"TIDINGS_JWT_SECRET", "s3cret", "dev", []string{"TIDINGS_AUTH is off"}},
		{"TIDINGS_OUTSIDE", "poem", "dev", []string{"TIDINGS_OUTSIDE", "poem"}},
		{"TIDINGS_ADMIN_PASSWORD", "x", "dev", []string{"TIDINGS_ADMIN_PASSWORD", "16", "openssl"}},
		{"TIDINGS_ADMIN_PASSWORD", "fifteen letters", "check", []string{"TIDINGS_ADMIN_PASSWORD", "16", "openssl"}},
		{"TIDINGS_WORKER_TOKEN", "guess me", "dev", []string{"TIDINGS_WORKER_TOKEN", "32"}},
		{"TIDINGS_LOG_LEVEL", "loud", "dev", []string{"log-level", "debug"}},
		{"TIDINGS_LISTEN", "127.0.0.1:0", "serve", []string{"serve needs TIDINGS_REDIS_URL"}},
		{"TIDINGS_LISTEN", "127.0.0.1:0", "work", []string{"work needs TIDINGS_REDIS_URL"}},
		{"TIDINGS_LISTEN", "127.0.0.1:0", "all", []string{"all needs TIDINGS_REDIS_URL"}},
	} {
		_, _, err := read(t, map[string]string{c.name: c.value}, c.mode)
		if err == nil {
			t.Errorf("%s=%s was accepted", c.name, c.value)
			continue
		}
		for _, says := range c.says {
			if !strings.Contains(err.Error(), says) {
				t.Errorf("%s=%s: the error does not say %q: %v", c.name, c.value, says, err)
			}
		}
	}
}

func TestTokensNeedAnIssuerAndAnAudience(t *testing.T) {
	for _, missing := range []string{"", "TIDINGS_JWT_ISSUER", "TIDINGS_JWT_AUDIENCE"} {
		for _, mode := range []string{"dev", "serve", "work", "all", "check"} {
			env := map[string]string{"TIDINGS_AUTH": "jwt", "TIDINGS_JWT_SECRET": strings.Repeat("s", 32), "TIDINGS_REDIS_URL": "redis://127.0.0.1:1", "TIDINGS_MODEL": "local",
				"TIDINGS_JWT_ISSUER": "us", "TIDINGS_JWT_AUDIENCE": "tidings"}
			delete(env, missing)
			_, _, err := read(t, env, mode)
			if (err == nil) != (missing == "") || err != nil && !strings.Contains(err.Error(), missing) {
				t.Errorf("%s without %s: %v", mode, missing, err)
			}
		}
	}
}

func TestOutsideWorkersNeedATokenButInDev(t *testing.T) {
	for mode, says := range map[string]string{"dev": "", "work": "", "serve": "TIDINGS_WORKER_TOKEN", "all": "TIDINGS_WORKER_TOKEN"} {
		env := map[string]string{"TIDINGS_OUTSIDE": "summary, guidance", "TIDINGS_REDIS_URL": "redis://127.0.0.1:1", "TIDINGS_MODEL": "local"}
		line, _, err := read(t, env, mode)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s without a token: %v", mode, err)
		}
		if err == nil && strings.Join(line.settings(mode).Outside, "+") != "summary+guidance" {
			t.Errorf("%s: %q", mode, line.settings(mode).Outside)
		}
		env["TIDINGS_WORKER_TOKEN"] = strings.Repeat("t", 32)
		if line, _, err = read(t, env, mode); err != nil {
			t.Errorf("%s with a token: %v", mode, err)
		} else if s := line.settings(mode); s.WorkerToken != env["TIDINGS_WORKER_TOKEN"] {
			t.Errorf("%s: the token is not read", mode)
		}
	}
}

// A forgotten variable would sell quoted sentences as summaries.
func TestOnlyDevTakesTheLocalModelUnasked(t *testing.T) {
	for _, mode := range []string{"serve", "work", "all"} {
		env := map[string]string{"TIDINGS_REDIS_URL": "redis://127.0.0.1:1"}
		if _, _, err := read(t, env, mode); err == nil || !strings.Contains(err.Error(), mode+" needs TIDINGS_MODEL") || !strings.Contains(err.Error(), "anthropic/<name>") {
			t.Errorf("%s without a model: %v", mode, err)
		}
		env["TIDINGS_MODEL"] = "local"
		if line, _, err := read(t, env, mode); err != nil || line.settings(mode).Model != "local" {
			t.Errorf("%s with the local model by name: %v", mode, err)
		}
	}
	if line, _, err := read(t, nil, "dev"); err != nil || line.settings("dev").Model != "local" {
		t.Errorf("dev without a model: %v", err)
	}
}

func TestModelNameComesFromItsOriginalVariable(t *testing.T) {
	line, mode, err := read(t, map[string]string{
		"TIDINGS_MODEL": "anthropic", "ANTHROPIC_MODEL": "some-model", "ANTHROPIC_API_KEY": "key-of-the-test"}, "dev")
	if err != nil {
		t.Fatal(err)
	}
	if s := line.settings(mode); s.Model != "anthropic/some-model" || s.ModelKey != "key-of-the-test" {
		t.Errorf("model %q with key %q", s.Model, s.ModelKey)
	}
	// Other programs are set up with the same variable.
	line, mode, err = read(t, map[string]string{"ANTHROPIC_MODEL": "some-model"}, "dev")
	if err != nil {
		t.Fatal(err)
	}
	if s := line.settings(mode); s.Model != "local" {
		t.Errorf("the name alone made the model %q", s.Model)
	}
}

func TestSecretsHaveNoFlag(t *testing.T) {
	parser, err := newParser(&commandLine{})
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range parser.Model.Children {
		for _, flag := range command.Flags {
			for _, secret := range []string{"key", "password", "secret", "token"} {
				if strings.Contains(flag.Name, secret) && !strings.Contains(flag.Name, "public") {
					t.Errorf("%s --%s: a command line is no place for a secret", command.Name, flag.Name)
				}
			}
		}
	}
	line, mode, err := read(t, map[string]string{"TIDINGS_ADMIN_PASSWORD": adminPassword}, "dev")
	if err != nil {
		t.Fatal(err)
	}
	if line.settings(mode).AdminPassword != adminPassword {
		t.Error("TIDINGS_ADMIN_PASSWORD is not read")
	}
}

// TestLimitsOfASubmit: where everybody is the same owner, the owner's limit does
// not hold; and a process that only serves offers no slots.
func TestLimitsOfASubmit(t *testing.T) {
	for auth, want := range map[string]int{"off": 0, "jwt": 7} {
		env := map[string]string{"TIDINGS_AUTH": auth, "TIDINGS_OWNER_JOBS": "7", "TIDINGS_MODEL_CONCURRENCY": "9", "TIDINGS_CONCURRENCY": "5",
			"TIDINGS_MODEL": "openai/gpt-4o", "OPENAI_API_KEY": "k"}
		if auth == "jwt" {
			env["TIDINGS_JWT_SECRET"], env["TIDINGS_JWT_ISSUER"], env["TIDINGS_JWT_AUDIENCE"] = strings.Repeat("s", 32), "us", "tidings"
		}
		line, mode, err := read(t, env, "dev")
		if err != nil {
			t.Fatal(err)
		}
		s := line.settings(mode)
		calls := model.NewRetrying(local.New(), s.retry, func() float64 { return 0 })
		if l := limits(s, calls); l.Owner.Jobs != want || l.Owner.Starts.Burst != want || (l.Owner.Retries.Burst > 0) != (want > 0) || l.Slots != 9 || l.OpenJobs != 1000 || l.Window != 0 {
			t.Errorf("%s: %+v", auth, l)
		}
		if slots("serve", s) != 0 || slots("work", s) != 5 || slots("all", s) != 5 {
			t.Errorf("slots: serve %d, work %d, all %d", slots("serve", s), slots("work", s), slots("all", s))
		}
	}
}

func TestSecretsComeFromFiles(t *testing.T) {
	write := func(text string) string {
		path := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	token := strings.Repeat("t", 32)
	line, mode, err := read(t, map[string]string{
		"TIDINGS_ADMIN_PASSWORD_FILE": write(adminPassword + "\n"), "TIDINGS_WORKER_TOKEN_FILE": write(token), "TIDINGS_OWNER_SALT_FILE": write(" salt\r\n"),
		"TIDINGS_REDIS_URL_FILE": write("redis://:secret@127.0.0.1:1"), "TIDINGS_MODEL": "openai/x", "OPENAI_API_KEY_FILE": write("key"),
	}, "all")
	if err != nil {
		t.Fatal(err)
	}
	s := line.settings(mode)
	if s.AdminPassword != adminPassword || s.WorkerToken != token || s.OwnerSalt != " salt" || s.ModelKey != "key" || s.redis.single.Password != "secret" {
		t.Errorf("read %q %q %q %q %q", s.AdminPassword, s.WorkerToken, s.OwnerSalt, s.ModelKey, s.redis.single.Password)
	}
	for name, env := range map[string]map[string]string{
		"both":    {"TIDINGS_WORKER_TOKEN": token, "TIDINGS_WORKER_TOKEN_FILE": write(token)},
		"no file": {"TIDINGS_WORKER_TOKEN_FILE": filepath.Join(t.TempDir(), "none")},
	} {
		if _, _, err := read(t, env, "dev"); err == nil || !strings.Contains(err.Error(), "TIDINGS_WORKER_TOKEN_FILE") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAPasswordOnTheCommandLineIsRefused(t *testing.T) {
	for _, url := range []string{"redis://:secret@127.0.0.1:1", "redis-sentinel://127.0.0.1:1?master_name=m&password=secret"} {
		for _, args := range [][]string{{"dev", "--redis-url=" + url}, {"dev", "--redis-url", url}} {
			if _, _, err := read(t, nil, args...); err == nil || !strings.Contains(err.Error(), "TIDINGS_REDIS_URL_FILE") || strings.Contains(err.Error(), "secret") {
				t.Errorf("%q: %v", args, err)
			}
		}
		if _, _, err := read(t, map[string]string{"TIDINGS_REDIS_URL": url}, "dev"); err != nil {
			t.Errorf("in the environment: %v", err)
		}
	}
	if _, _, err := read(t, nil, "dev", "--redis-url=redis://127.0.0.1:1"); err != nil {
		t.Errorf("without a password: %v", err)
	}
}

func TestAnEvictingRedisIsWarnedOf(t *testing.T) {
	target, err := parseRedisURL(eventstest.StartRedis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	client := target.open()
	defer client.Close()
	for policy, want := range map[string]bool{"allkeys-lru": true, "volatile-ttl": true, "noeviction": false} {
		if err := client.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
		if got := evictionWarning(t.Context(), client); (got != "") != want || want && !strings.Contains(got, policy) {
			t.Errorf("%s: %q", policy, got)
		}
	}
}
