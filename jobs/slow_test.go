//go:build slow

package jobs_test

// slow is 1 in the run that takes its time.
const slow = 1
