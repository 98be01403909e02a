// Command example is a small service with limits held over all its regions. With
// `make run` in another shell:
//
//	go run ./client/example
//	curl -i http://127.0.0.1:8080/hello -H 'X-API-Key: sk_1'
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"aliquot/client"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to serve on")
	region := flag.String("region", client.DefaultAddress, "address of the region's daemon")
	flag.Parse()
	if err := serve(*listen, *region); err != nil {
		log.Println(err)
		os.Exit(1)
	}
}

func serve(listen, region string) error {
	limiter, err := client.New(client.Options{
		Address: region,
		// Without its region this process lets each client do what is harmless.
		Fallback:  client.FailLocal,
		Local:     client.LocalLimit{Requests: 100, Per: time.Second},
		OnFailure: func(err error) { log.Println(err) },
	})
	if err != nil {
		return err
	}
	defer limiter.Close()
	limited, err := client.Middleware(http.HandlerFunc(hello), client.MiddlewareOptions{Client: limiter})
	if err != nil {
		return err
	}
	server := &http.Server{Addr: listen, Handler: limited, ReadHeaderTimeout: 5 * time.Second}
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func hello(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "hello, you asked for %s\n", r.URL.Path)
}
