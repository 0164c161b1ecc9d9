package jobs

import (
	"context"
	"errors"
	"log/slog"

	"github.com/tidings/tidings/jobs/gate"
)

// OperatorsOptions is what an Operators is made of.
type OperatorsOptions struct {
	Store *Store
	Gate  *gate.Gate
	// Dependency is the model that this process works with.
	Dependency string
	Log        *slog.Logger
}

// Operators is what operators see and do. Their orders are the gate's: they hold
// for the whole fleet from the next ticket on, end by themselves, and change no
// job. What they do is logged and kept in the gate's audit trail.
type Operators struct{ OperatorsOptions }

// NewOperators makes an Operators.
func NewOperators(o OperatorsOptions) *Operators { return &Operators{o} }

// Dependency is the model that this process works with.
func (o *Operators) Dependency() string { return o.OperatorsOptions.Dependency }

// SwitchRetries turns the scope's retries off until order.Until, or on again.
func (o *Operators) SwitchRetries(ctx context.Context, off bool, s gate.Scope, order gate.Order) error {
	if _, ok := WorkloadNamed(s.Workload); s.Workload != "" && !ok {
		return &Refusal{Code: CodeInvalidField, Field: "workload", Why: "there is no such workload"}
	}
	action, verb := o.Gate.SwitchOn, "on"
	if off {
		action, verb = o.Gate.SwitchOff, "off"
	}
	if err := refusedOrder(verb, action(ctx, s, order)); err != nil {
		return err
	}
	o.Log.WarnContext(ctx, "retries switched by an operator", "retries", verb, "dependency", s.Dependency, "workload", s.Workload,
		"owner", order.Owner, "until", order.Until)
	return nil
}

// Switches lists what is switched off, and the last orders.
func (o *Operators) Switches(ctx context.Context) (gate.Switches, error) {
	s, err := o.Gate.Switches(ctx)
	if err != nil {
		return s, storageError("switches", err)
	}
	return s, nil
}

// PauseCalls makes every call to the dependency wait until order.Until, or ends
// that, and with it what a provider's hint holds.
func (o *Operators) PauseCalls(ctx context.Context, pause bool, dependency string, order gate.Order) error {
	action, verb := o.Gate.Resume, "resume"
	if pause {
		action, verb = o.Gate.Pause, "pause"
	}
	if err := refusedOrder(verb, action(ctx, dependency, order)); err != nil {
		return err
	}
	o.Log.WarnContext(ctx, "calls to a dependency changed by an operator", "action", verb, "dependency", dependency,
		"owner", order.Owner, "until", order.Until)
	return nil
}

// Inspect shows the gate in front of a dependency.
func (o *Operators) Inspect(ctx context.Context, dependency string) (gate.State, error) {
	s, err := o.Gate.Inspect(ctx, dependency)
	if err != nil {
		return s, storageError("inspect", err)
	}
	return s, nil
}

// refusedOrder tells an order that cannot be carried out from a storage that
// cannot be asked.
func refusedOrder(verb string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, gate.ErrEnd):
		return &Refusal{Code: CodeInvalidField, Field: "for", Why: "up to 7d"}
	}
	return storageError(verb, err)
}
