package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/tidings/tidings/jobs/model"
)

// advised says in the log what an operator can change when a model fails for
// good: the job's own lines hold codes alone.
type advised struct {
	model.Provider
	log *slog.Logger
}

func (a advised) Generate(ctx context.Context, r model.Request) (model.Response, error) {
	resp, err := a.Provider.Generate(ctx, r)
	var e *model.Error
	if errors.As(err, &e) && e.Advice != "" {
		a.log.ErrorContext(ctx, e.Advice, "dependency", a.Dependency(), "class", e.Kind, "status", e.Status, "type", e.Type)
	}
	return resp, err
}

// pricesFrom lays a file of one's own over the list prices; without a name they
// stand as they are.
func pricesFrom(file string) (*model.Prices, error) {
	prices := model.ListPrices()
	if file == "" {
		return prices, nil
	}
	own, err := os.ReadFile(file)
	if err == nil {
		prices, err = prices.With(own)
	}
	if err != nil {
		return nil, fmt.Errorf("TIDINGS_PRICES: %w", err)
	}
	return prices, nil
}
