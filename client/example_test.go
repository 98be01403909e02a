package client_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"aliquot/client"
	aliquotv1 "aliquot/proto/aliquot/v1"
)

// A service whose requests are limited by API key, and by the plan of the user who is signed
// in. Uploads count ten times. client/example is a program of this kind.
func ExampleMiddleware() {
	region := standIn(2) // an address like 127.0.0.1:7500
	limiter, err := client.New(client.Options{Address: region, Timeout: 5 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close()

	orders := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "an order") })
	limited, err := client.Middleware(orders, client.MiddlewareOptions{
		Client: limiter,
		Attributes: func(r *http.Request, attributes map[string]string) {
			attributes["tier"] = "pro" // from your session
		},
		Cost: func(r *http.Request) int64 {
			if r.URL.Path == "/upload" {
				return 10
			}
			return 1
		},
	})
	if err != nil {
		log.Fatal(err)
	}

	service := httptest.NewServer(limited)
	defer service.Close()
	for range 3 {
		request, err := http.NewRequest(http.MethodGet, service.URL+"/orders", nil)
		if err != nil {
			log.Fatal(err)
		}
		request.Header.Set("X-API-Key", "sk_1")
		resp, err := http.DefaultClient.Do(request)
		if err != nil {
			log.Fatal(err)
		}
		resp.Body.Close()
		fmt.Println(resp.Status, "remaining", resp.Header.Get("X-RateLimit-Remaining"))
	}
	// Output:
	// 200 OK remaining 1
	// 200 OK remaining 0
	// 429 Too Many Requests remaining 0
}

// A limit of something that is not a request over HTTP. While the region does not answer
// this one is denied, and the answer says so.
func ExampleClient_Check() {
	limiter, err := client.New(client.Options{Address: standIn(1), Timeout: 5 * time.Second, Fallback: client.FailClosed})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close()
	for range 2 {
		decision, err := limiter.Check(context.Background(), &aliquotv1.CheckRequest{
			Attributes: map[string]string{"org": "acme", "job": "report"},
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(decision.GetAllowed(), decision.GetMode())
	}
	// Output:
	// true store
	// false store
}
