package main

import (
	"fmt"
	"os"
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
