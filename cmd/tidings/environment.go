package main

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/tidings/tidings/jobs/model/provider"
)

// secretNames lists what is read from the environment, or from the file that the
// same name with _FILE gives, and has no flag.
func secretNames() []string {
	names := []string{"TIDINGS_ADMIN_PASSWORD", "TIDINGS_JWT_SECRET", "TIDINGS_WORKER_TOKEN", "TIDINGS_OWNER_SALT"}
	for _, name := range providers() {
		names = append(names, provider.KeyName(name))
	}
	return names
}

// secret reads one of them. A file's last line break is not part of it.
func secret(name string) (string, error) {
	value, path := os.Getenv(name), os.Getenv(name+"_FILE")
	if path == "" {
		return value, nil
	}
	if value != "" {
		return "", fmt.Errorf("%[1]s and %[1]s_FILE are both set: remove one", name)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s_FILE: %w", name, err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

// unknownSettings lists the variables of the environment that are named as settings
// are and are none. One that looks like a slip of a setting's name is an error: what
// it was meant to set would stay as it is, and nobody would know.
func unknownSettings(settings []string) (unknown []string, err error) {
	known := append(secretNames(), "TIDINGS_REDIS_URL", "TIDINGS_TOKEN")
	for _, name := range known {
		known = append(known, name+"_FILE")
	}
	known = append(known, settings...)
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "TIDINGS_") || slices.Contains(known, name) {
			continue
		}
		for _, setting := range known {
			if edits(name, setting) <= 2 {
				return nil, fmt.Errorf("%s is no setting: did you mean %s?", name, setting)
			}
		}
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	return unknown, nil
}

// loopback tells whether an address is reached from this machine alone.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// edits is how many letters have to be added, removed or changed to make b of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := corner
			if a[i] != b[j] {
				changed++
			}
			corner = row[j+1]
			row[j+1] = min(changed, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
