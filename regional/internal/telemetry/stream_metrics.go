package telemetry

import "github.com/prometheus/client_golang/prometheus"

// The reasons why a stream ends for lack of memory, as the metric names them.
const (
	EndedUnread = "unread"  // its client did not read while other streams waited for memory
	EndedNoRoom = "no_room" // there was no memory for its message
)

// newStreamMetrics creates the metrics of the memory that all streams share.
func (m *Metrics) newStreamMetrics(reg prometheus.Registerer) {
	m.StreamWaits = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "aliquot_stream_waits_total", Help: "Messages of CheckStream that waited because those of all streams took up the whole room.",
	})
	ended := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aliquot_streams_ended_total", Help: "Streams that ended for lack of room. unread: the client did not read its answers. no_room: a message found no room.",
	}, []string{"reason"})
	m.StreamsEnded = map[string]prometheus.Counter{}
	for _, reason := range []string{EndedUnread, EndedNoRoom} {
		m.StreamsEnded[reason] = ended.WithLabelValues(reason)
	}
	reg.MustRegister(m.StreamWaits, ended)
}
