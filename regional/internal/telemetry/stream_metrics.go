package telemetry

import "github.com/prometheus/client_golang/prometheus"

// The reasons, as the metric names them, for which a stream is ended for want of room.
const (
	EndedUnread = "unread"  // its client did not read while other streams waited
	EndedNoRoom = "no_room" // there was no room for its message
)

// streams creates the metrics of the room that all streams share.
func (m *Metrics) streams(reg prometheus.Registerer) {
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
