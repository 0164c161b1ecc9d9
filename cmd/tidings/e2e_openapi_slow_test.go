//go:build slow

package main

import "testing"

func TestTheDescriptionHoldsForManyRequests(t *testing.T) { tryDescription(t, 300) }
