// Package store keeps job records. Read gives a verb the State that it decides on;
// Commit stores the Change that it returns, all of it or nothing, and only if the
// record is still the one that was read. So rules need no script: whoever was not
// first decides again on what the first one left.
//
// A decision holds for [Good] after the time it was made at. A process that slept
// between reading and committing decides anew, on Redis's clock as it is then.
//
// Redis keeps records in production; Memory in tests and simulations. Both pass
// storetest.Suite.
package store
