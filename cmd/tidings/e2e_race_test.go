//go:build race

package main

// raceFlag builds the program as the tests were built.
func raceFlag() []string { return []string{"-race"} }
