package agent

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
)

// ECRCommand is the agent's subcommand that only prints the password of an Amazon ECR registry, for the user AWS. Its argument is the
// registry's host. An instance uses it to pull its image, and so does not need the AWS CLI.
const ECRCommand = "ecr-password"

// ecrHost matches the hosts of private registries.
var ecrHost = regexp.MustCompile(`^\d+\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.(amazonaws\.com(?:\.cn)?)$`)

// ecrTimeout bounds the call, retries of the credentials included.
const ecrTimeout = 30 * time.Second

// ECRPassword returns a password for a registry of Amazon ECR, which is valid for twelve hours. It finds credentials as AWS's own tools do;
// on an instance they are those of its role.
func ECRPassword(ctx context.Context, registry string) (string, error) {
	host := ecrHost.FindStringSubmatch(registry)
	if host == nil {
		return "", fmt.Errorf("%s is not a private registry of Amazon ECR", registry)
	}
	ctx, cancel := context.WithTimeout(ctx, ecrTimeout)
	defer cancel()
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(host[1]))
	if err != nil {
		return "", err
	}
	credentials, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return "", fmt.Errorf("the instance has no credentials: %w", err)
	}
	endpoint := cmp.Or(os.Getenv("AWS_ENDPOINT_URL_ECR"), "https://api.ecr."+host[1]+"."+host[2])
	body := []byte("{}")
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint+"/", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/x-amz-json-1.1")
	request.Header.Set("X-Amz-Target", "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken")
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, credentials, request, hex.EncodeToString(sum[:]), "ecr", host[1], time.Now()); err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	return passwordOf(response)
}

// passwordOf reads ECR's answer.
func passwordOf(response *http.Response) (string, error) {
	var answer struct {
		AuthorizationData []struct {
			AuthorizationToken string `json:"authorizationToken"` // base64 of USER:PASSWORD
		} `json:"authorizationData"`
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&answer)
	switch {
	case strings.Contains(answer.Type, "AccessDenied"):
		return "", fmt.Errorf("access denied: the role of the instance needs ecr:GetAuthorizationToken: %s", answer.Message)
	case response.StatusCode != http.StatusOK:
		return "", fmt.Errorf("ECR answered %s: %s %s", response.Status, answer.Type, answer.Message)
	case err != nil:
		return "", fmt.Errorf("the answer of ECR: %w", err)
	case len(answer.AuthorizationData) == 0:
		return "", errors.New("ECR answered without a token")
	}
	login, err := base64.StdEncoding.DecodeString(answer.AuthorizationData[0].AuthorizationToken)
	if err != nil {
		return "", fmt.Errorf("the token of ECR: %w", err)
	}
	_, password, _ := strings.Cut(string(login), ":")
	return password, nil
}
