package training

import "testing"

func TestNoImage(t *testing.T) {
	for said, want := range map[string]bool{
		`failed to resolve reference "docker.io/missing/train:1": docker.io/missing/train:1: not found`:                         true,
		`manifest for ghcr.io/ann/train:2 not found: manifest unknown: manifest unknown`:                                        true,
		`MANIFEST_UNKNOWN: manifest unknown`:                                                                                    true,
		`pull access denied for ann/train, repository does not exist or may require 'docker login'`:                             true,
		`failed to authorize: failed to fetch anonymous token: unexpected status from GET request: 401 Unauthorized`:            true,
		`Error response from daemon: Head "https://registry-1.docker.io/v2/ann/train/manifests/1": no basic auth credentials`:   true,
		`toomanyrequests: You have reached your pull rate limit`:                                                                false,
		`Get "https://registry.example/v2/": net/http: request canceled while waiting for connection (Client.Timeout exceeded)`: false,
		`Get "https://registry.example/v2/": dial tcp: lookup registry.example on 10.0.0.2:53: no such host`:                    false,
		`received unexpected HTTP status: 503 Service Unavailable`:                                                              false,
		`Get "https://registry.example/v2/": dial tcp 10.0.0.9:443: connect: connection refused`:                                false,
		`Back-off pulling image "ann/train:1"`:                                                                                  false,
	} {
		if got := NoImage(said); got != want {
			t.Errorf("%s: %v, want %v", said, got, want)
		}
	}
}
