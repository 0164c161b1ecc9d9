// Package tidings follows AI jobs of a Tidings server: it submits them, streams
// their status, and fetches what they made.
//
//	client, err := tidings.NewClient("https://tidings.example")
//	if err != nil {
//		return err
//	}
//	if _, err := client.Submit(ctx, "session-1", tidings.Submission{Text: transcript}); err != nil {
//		return err
//	}
//	for status, err := range client.Watch(ctx, "session-1") {
//		fmt.Println(status.Phase, err)
//	}
//
// [Client.Watch] follows one job to its end. An app with a user in front of it
// takes [Client.Open], whose [Session] can also retry, dismiss and come back from
// the background.
//
// # Layers
//
// [Parser] turns bytes into messages, [Machine] turns messages, time and the
// user's taps into a [State]. Both are pure: no clock, no I/O. A Session joins
// them to the network: one goroutine owns the machine, one reads the stream, and
// whatever an older stream still has to say is dropped by its generation number.
// The rules of both, and the cases they pass, are in the vectors directory beside
// this module, shared with the clients in other languages.
//
// # Connections
//
// A dropped stream is not an error: the session opens a new one after the last
// event it has seen, with growing, randomly stretched pauses, for as long as it
// lives. A stream on which nothing at all has come for 45 seconds is taken for
// dead, and so is one that has not begun within 10; over HTTP/2 a ping finds out
// sooner. The next one is on a new connection. When a countdown has been over for 3 seconds and no
// event has come, the session asks on a new connection, too, and says so. A 401 is answered with one refresh of the token. Only a server that
// refuses for good (204, or 4xx except 408, 425 and 429) ends it.
//
// # Sleep
//
// The clock is time.Now, which stands still on most systems while the computer
// sleeps. Call [Session.Foreground] when it wakes, or give [WithClock] a clock
// that goes on.
package tidings
