package agent

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestECRPassword(t *testing.T) {
	token := base64.StdEncoding.EncodeToString([]byte("AWS:it's:secret"))
	for name, tt := range map[string]struct {
		registry, answer string
		status           int
		want, says       string
	}{
		"a registry":             {"123456789012.dkr.ecr.eu-central-1.amazonaws.com", fmt.Sprintf(`{"authorizationData":[{"authorizationToken":%q}]}`, token), 200, "it's:secret", ""},
		"of China":               {"123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn", fmt.Sprintf(`{"authorizationData":[{"authorizationToken":%q}]}`, token), 200, "it's:secret", ""},
		"another registry":       {"ghcr.io", "", 200, "", "ghcr.io is not a private registry"},
		"a host that ends so":    {"1.dkr.ecr.x.amazonaws.com.evil.org", "", 200, "", "not a private registry"},
		"no permission":          {"1.dkr.ecr.us-east-1.amazonaws.com", `{"__type":"AccessDeniedException","message":"not authorized"}`, 400, "", "access denied: the role"},
		"a service that is away": {"1.dkr.ecr.us-east-1.amazonaws.com", `<html>`, 503, "", "503"},
		"no token":               {"1.dkr.ecr.us-east-1.amazonaws.com", `{}`, 200, "", "without a token"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.Contains(r.Header.Get("Authorization"), "/ecr/aws4_request") || !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".GetAuthorizationToken") {
					t.Errorf("ECR was asked with %v", r.Header)
				}
				w.WriteHeader(tt.status)
				fmt.Fprint(w, tt.answer)
			}))
			defer server.Close()
			t.Setenv("AWS_ENDPOINT_URL_ECR", server.URL)
			t.Setenv("AWS_ACCESS_KEY_ID", "id")
			t.Setenv("AWS_SECRET_ACCESS_KEY", "key")
			got, err := ECRPassword(t.Context(), tt.registry)
			if got != tt.want || (err == nil) != (tt.says == "") || err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %q, %v, want %q and %q", got, err, tt.want, tt.says)
			}
		})
	}
}
