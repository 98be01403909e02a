package envoyrls

import ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

// Names of the protocol, as gRPC has them.
const (
	// ServiceName is the name of the service, also for health and reflection.
	ServiceName = "envoy.service.ratelimit.v3.RateLimitService"
	// Method is the only method. Procedure is its full name.
	Method    = "ShouldRateLimit"
	Procedure = ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName
)

// Metadata names the file that describes the service, for reflection.
var Metadata = ratelimitv3.RateLimitService_ServiceDesc.Metadata
