package regional

import "github.com/prometheus/client_golang/prometheus"

// The reasons, as the metric names them, for which a stream is ended for want of room.
const (
	endedUnread = "unread"  // its client did not read while other streams waited
	endedNoRoom = "no_room" // there was no room for its message
)

// streams creates the metrics of the room that all streams share.
func (m *metrics) streams(reg prometheus.Registerer) {
	m.streamWaits = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "aliquot_stream_waits_total", Help: "Messages of CheckStream that waited, because those of all streams took all the room there is.",
	})
	ended := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "aliquot_streams_ended_total", Help: "Streams ended for want of room: unread did not read their answers, no_room had a message that found none.",
	}, []string{"reason"})
	m.streamsEnded = map[string]prometheus.Counter{}
	for _, reason := range []string{endedUnread, endedNoRoom} {
		m.streamsEnded[reason] = ended.WithLabelValues(reason)
	}
	reg.MustRegister(m.streamWaits, ended)
}

// watchRoom exports how much of the room is in use, which is read at each scrape.
func (m *metrics) watchRoom(r *room, reg prometheus.Registerer) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "aliquot_stream_bytes", Help: "What the messages of all streams take that are being answered, of 64 MiB.",
	}, func() float64 { return float64(r.inUse()) }))
}
