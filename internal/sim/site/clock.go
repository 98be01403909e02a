package site

import "time"

const (
	second = int64(1_000_000_000)
	milli  = int64(1_000_000)
)

func duration(ns int64) time.Duration { return time.Duration(ns) }
