package sim

const (
	second  = int64(1_000_000_000)
	milli   = int64(1_000_000)
	million = int64(1_000_000)
)
