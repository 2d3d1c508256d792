package training

import "testing"

func TestImageRefusal(t *testing.T) {
	for said, want := range map[string]Refusal{
		`failed to resolve reference "docker.io/missing/train:1": docker.io/missing/train:1: not found`:                         ErrInvalid,
		`manifest for ghcr.io/ann/train:2 not found: manifest unknown: manifest unknown`:                                        ErrInvalid,
		`MANIFEST_UNKNOWN: manifest unknown`:                                                                                    ErrInvalid,
		`pull access denied for ann/train, repository does not exist or may require 'docker login'`:                             ErrInvalid,
		`failed to authorize: failed to fetch anonymous token: unexpected status from GET request: 401 Unauthorized`:            ErrPermission,
		`Error response from daemon: Head "https://registry-1.docker.io/v2/ann/train/manifests/1": no basic auth credentials`:   ErrPermission,
		`toomanyrequests: You have reached your pull rate limit`:                                                                ErrNotStarted,
		`Get "https://registry.example/v2/": net/http: request canceled while waiting for connection (Client.Timeout exceeded)`: ErrNotStarted,
		`Get "https://registry.example/v2/": dial tcp: lookup registry.example on 10.0.0.2:53: no such host`:                    ErrNotStarted,
		`received unexpected HTTP status: 503 Service Unavailable`:                                                              ErrNotStarted,
		`Get "https://registry.example/v2/": dial tcp 10.0.0.9:443: connect: connection refused`:                                ErrNotStarted,
		`Back-off pulling image "ann/train:1"`:                                                                                  ErrNotStarted,
	} {
		if got := ImageRefusal(said); got != want {
			t.Errorf("%s: %v, want %v", said, got, want)
		}
	}
}
