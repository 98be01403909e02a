package regional

import (
	"context"
	"time"

	"aliquot/regional/internal/storeguard"
	"aliquot/regional/store"
)

// storePageTimeout bounds how long the page /store waits for the store's servers.
const storePageTimeout = time.Second

// storePage is the JSON body of /store: what the region's store is set to, asked now.
type storePage struct {
	Region string `json:"region"`
	// Kind is memory or redis; see storeKinds.
	Kind string `json:"kind"`
	// Down reports that the breaker is open: each rule's on_redis_failure decides.
	Down bool `json:"down"`
	// Error and Remedy say why the store did not answer this question, and what to do.
	Error   string           `json:"error,omitempty"`
	Remedy  string           `json:"remedy,omitempty"`
	Servers []store.Settings `json:"servers"`
}

func (d *Daemon) storePage(ctx context.Context) storePage {
	page := storePage{Region: d.cfg.Region, Kind: d.cfg.storeKind().name, Down: d.storeDown.Load(), Servers: []store.Settings{}}
	asked, ok := d.store.(interface {
		Settings(ctx context.Context) ([]store.Settings, error)
	})
	if !ok {
		return page
	}
	ctx, cancel := context.WithTimeout(ctx, storePageTimeout)
	defer cancel()
	servers, err := asked.Settings(ctx)
	if err != nil {
		page.Error, page.Remedy = err.Error(), remedy(storeguard.Reason(err))
		return page
	}
	page.Servers = servers
	return page
}
