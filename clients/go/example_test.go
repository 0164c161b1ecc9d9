package tidings_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	tidings "github.com/tidings/tidings/clients/go"
)

// Submit a transcript and follow its job to the end.
func ExampleClient_Watch() {
	ctx := context.Background()
	client, err := tidings.NewClient("https://tidings.example")
	if err != nil {
		return
	}
	if _, err := client.Submit(ctx, "session-1", tidings.Submission{Text: "We talked about sleep."}); err != nil {
		return
	}
	for status, err := range client.Watch(ctx, "session-1") {
		if err != nil {
			return
		}
		fmt.Println(status.Phase)
	}
}

// An app with a user in front of it.
func ExampleClient_Open() {
	ctx := context.Background()
	client, err := tidings.NewClient("https://tidings.example", tidings.WithLanguage("nb"))
	if err != nil {
		return
	}
	texts := client.Texts()
	session := client.Open(ctx, "session-1")
	defer session.Close()
	for status := range session.Updates() {
		fmt.Println(texts.Get(status.MessageKey))
		if !status.NextTry.IsZero() {
			fmt.Println("next try in", time.Until(status.NextTry))
		}
		if status.CanRetry {
			var refused *tidings.HTTPError
			if err := session.Retry(ctx); errors.As(err, &refused) {
				fmt.Println(refused.Detail, refused.RetryAfter)
			}
		}
	}
}
