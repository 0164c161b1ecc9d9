package server

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tidings/tidings/events"
)

// metrics are the server's own. Their labels are bounded: routes are patterns,
// and neither sessions nor owners nor jobs are among them.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	open     prometheus.Gauge
	ended    *prometheus.CounterVec
	sent     *prometheus.CounterVec
	delivery prometheus.Histogram
	claims   prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidings_http_requests_total", Help: "Finished requests; a stream counts at its end."},
			[]string{"method", "route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tidings_http_request_seconds", Help: "How long requests took, streams aside.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}},
			[]string{"route"}),
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidings_streams_open", Help: "Open status streams."}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidings_streams_ended_total", Help: "Ended status streams, by the reason."}, []string{"why"}),
		sent: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tidings_stream_events_total", Help: "Events sent on streams."}, []string{"event"}),
		delivery: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tidings_stream_delivery_seconds", Help: "From a transition to its bytes on a live stream.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}}),
		claims: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tidings_worker_claims_waiting", Help: "Requests of outside workers that wait for a job."}),
	}
	var err error
	for _, c := range []prometheus.Collector{m.requests, m.seconds, m.open, m.ended, m.sent, m.delivery, m.claims} {
		err = errors.Join(err, r.Register(c))
	}
	return m, err
}

func (m *metrics) request(method, route string, status int, took time.Duration, stream bool) {
	m.requests.WithLabelValues(method, route, strconv.Itoa(status)).Inc()
	if !stream {
		m.seconds.WithLabelValues(route).Observe(took.Seconds())
	}
}

// HubObserver counts what a hub does: for events.HubOptions, and the registry
// that is the Server's as well.
func HubObserver(r prometheus.Registerer) (events.Observer, error) {
	repairs := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tidings_hub_repairs_total", Help: "Topics read anew from the log because live copies were missing."}, []string{"cause"})
	resets := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tidings_stream_resets_total", Help: "Readers told that their place in the log was lost."})
	lagged := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tidings_hub_lagged_total", Help: "Readers whose buffer was full; they go on from the log."})
	watching := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tidings_hub_topics", Help: "Topics with at least one reader."})
	trouble := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tidings_hub_trouble_total", Help: "Failed background reads of the log."})
	var err error
	for _, c := range []prometheus.Collector{repairs, resets, lagged, watching, trouble} {
		err = errors.Join(err, r.Register(c))
	}
	return events.Observer{
		Repaired: func(why events.Cause) { repairs.WithLabelValues(string(why)).Inc() },
		Reset:    resets.Inc,
		Lagged:   lagged.Inc,
		Watching: func(n int) { watching.Set(float64(n)) },
		Trouble:  func(error) { trouble.Inc() },
	}, err
}
