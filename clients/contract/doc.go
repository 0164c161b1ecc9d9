// Command contract is the server that every Tidings client is tried against. It
// plays streams from case files, whole or broken in the ways networks and servers
// break them, checks what the client sends, and compares the states the client
// reports with those the case expects.
//
//	contract serve [-listen 127.0.0.1:0] [-cases dir] [-watch-stdin]
//	contract list                    names and notes of all cases
//	contract expect <case>           the states a client has to report, as JSON lines
//	contract texts -locales dir -clients dir   make the clients' built-in texts
//
// # A run
//
//	POST /runs {"case": name}  -> {"base_url", "client", "actions", "until"}
//	...                           the client works with base_url as its server
//	POST <base_url>/did           after each action that is done
//	POST <base_url>/report        all states and results as JSON lines: 200, or 422 with what differs
//	GET  /cases                -> the names, with ?http2 also of those that need HTTP/2
//
// A driver makes a client as "client" says, writes down each status that differs
// from the one before, carries out the actions one after the other, each as soon as
// a status matches its "when", and reports once all are done and a status matches
// "until". A written status has the fields of [initial]: of the reducer's state all but
// the time of the next subscribe; event, reason and message of the last accepted
// event; counts_down while there is a time of the next try; problem, the status and
// code of the answer that refused the stream or the last retry.
//
// With "sessions" the client follows these as a list, on one stream. A status then has its
// "session" besides, "when" and "until" match that of any session, and reported is
// only the last one of each, in the order of "sessions".
//
// # Case files
//
// <name>.json holds one case, <name>.jsonl what it expects: states, of which each
// line names only what differs from the line before, and results of actions. With
// "variants" a file is several cases, <name>/<variant>, in which {{key}} stands for
// the variant's value, in both files.
package main
