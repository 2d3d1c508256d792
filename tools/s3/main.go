// Command s3 is an S3 server for tests, with one bucket in memory. It listens on a port of the loopback, and its first line of output is the
// address. It verifies no signature. Conditional writes of single requests are atomic in it; of multipart uploads it does not know them.
package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func main() {
	bucket := flag.String("bucket", "", "the bucket's `name`")
	var now time.Time
	flag.TextVar(&now, "time", now, "a clock that stands still at this `time` (RFC 3339), not the machine's")
	flag.Parse()
	if err := serve(*bucket, now); err != nil {
		fmt.Fprintln(os.Stderr, "s3:", err)
		os.Exit(1)
	}
}

func serve(bucket string, now time.Time) error {
	clock := gofakes3.DefaultTimeSource()
	if !now.IsZero() {
		clock = gofakes3.FixedTimeSource(now)
	}
	backend := s3mem.New(s3mem.WithTimeSource(clock))
	if err := backend.CreateBucket(bucket); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())
	return http.Serve(listener, gofakes3.New(backend, gofakes3.WithTimeSource(clock), gofakes3.WithTimeSkewLimit(0)).Server())
}
