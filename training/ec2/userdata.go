package ec2

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/training/delivery"
)

// nodeScript is what an instance runs, after what userData puts before it.
//
//go:embed node.sh
var nodeScript string

// maxUserData is how large EC2 lets user data be, before they are encoded.
const maxUserData = 16 << 10

// node is what the instances of a gang are told by their user data. No secret is among it, but the address of the configuration is as
// good as one, as long as it lasts.
type node struct {
	agent, config delivery.Item
	queue         string // what the queue of each begins with; its ID follows
	image         string // of the container; empty: none
	shm           spec.Size
}

// userData encodes a node's script as EC2 takes it.
func (n node) userData() (string, error) {
	var script strings.Builder
	script.WriteString("#!/bin/sh\n")
	for _, v := range []struct{ name, value string }{
		{"agent_url", n.agent.URL},
		{"agent_sha256", n.agent.SHA256},
		{"config_url", n.config.URL},
		{"config_sha256", n.config.SHA256},
		{"queue", n.queue},
		{"image", n.image},
		{"shm", n.shmBytes()},
	} {
		fmt.Fprintf(&script, "%s=%s\n", v.name, quote(v.value))
	}
	script.WriteString(nodeScript)

	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write([]byte(script.String())); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	if packed.Len() > maxUserData {
		return "", fmt.Errorf("the instances' user data has %d bytes, but EC2 allows %d", packed.Len(), maxUserData)
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}

func (n node) shmBytes() string {
	if n.shm == 0 {
		return ""
	}
	return strconv.FormatInt(int64(n.shm), 10)
}

// configScript is what the agents are told, as the node's script reads it: environment variables, the keys of the payload codec, and the
// logins with which docker pulls their image. The last two may be empty.
func configScript(environ []string, codecKeys, dockerConfig []byte) []byte {
	var script bytes.Buffer
	for _, kv := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(kv, "=")
		fmt.Fprintf(&script, "export %s=%s\n", name, quote(value))
	}
	if len(codecKeys) > 0 {
		fmt.Fprintf(&script, "codec_keys=%s\n", quote(string(codecKeys)))
	}
	if len(dockerConfig) > 0 {
		fmt.Fprintf(&script, "docker_config=%s\n", quote(string(dockerConfig)))
	}
	return script.Bytes()
}

// quote makes one word of the shell of a text.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
