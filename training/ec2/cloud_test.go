package ec2

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/internal/testing/rig"
)

// motoURL is where moto listens, which plays EC2 for all tests: each has pools of its own.
var motoURL string

func TestMain(m *testing.M) {
	code, err := withMoto(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// withMoto runs the tests while moto runs, where it is installed.
func withMoto(run func() int) (int, error) {
	cache := os.Getenv("SLUICE_CACHE")
	if cache == "" {
		cache = filepath.Join("..", "..", ".cache")
	}
	program := filepath.Join(cache, "moto", "bin", "moto_server")
	if _, err := os.Stat(program); err != nil {
		return run(), nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	address := listener.Addr().String()
	listener.Close()
	host, port, _ := net.SplitHostPort(address)
	tail := proc.NewTail(20)
	moto, err := proc.Start(context.Background(), proc.Command{
		Path: program, Args: []string{"-H", host, "-p", port}, Env: os.Environ(), Stdout: tail, Stderr: tail,
	})
	if err != nil {
		return 0, err
	}
	defer moto.Kill()
	for limit := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(limit) {
			return 0, fmt.Errorf("moto does not listen: %s", tail)
		}
	}
	motoURL = "http://" + address
	return run(), nil
}

// front stands before moto and plays what that leaves out: fleets of which all or nothing starts, one fleet for one token, and
// refusals.
type front struct {
	url  string
	moto *httputil.ReverseProxy

	mu       sync.Mutex
	calls    []string                     // the actions that were asked for
	answers  map[string][]byte            // of CreateFleet, by ClientToken
	capacity int                          // how many instances a fleet may have
	refuse   map[string]string            // the code that an action is refused with
	errors   []string                     // the codes with which a fleet launches nothing
	reason   string                       // the code and message of why instances ended
	console  string                       // what they said on the console
	launched func(f *front)               // called when a fleet has been launched, before anybody is told
	blind    int                          // how many looks for a gang do not show what was launched just now
	bodies   map[string]map[string]string // the last form of each action
}

func newFront(t *testing.T) *front {
	t.Helper()
	if motoURL == "" {
		rig.Skip(t, "`make moto` installs the fake of EC2")
	}
	target, err := url.Parse(motoURL)
	if err != nil {
		t.Fatal(err)
	}
	f := &front{
		moto: httputil.NewSingleHostReverseProxy(target), answers: map[string][]byte{}, capacity: 100, refuse: map[string]string{},
		bodies: map[string]map[string]string{},
	}
	web := httptest.NewServer(f)
	t.Cleanup(web.Close)
	f.url = web.URL
	return f
}

// set changes how it plays.
func (f *front) set(change func(f *front)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// form is what an action was last asked for with.
func (f *front) form(action string) map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bodies[action]
}

// fleets is how many fleets were launched.
func (f *front) fleets() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.answers)
}

// count is how often an action was asked for.
func (f *front) count(action string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, call := range f.calls {
		if call == action {
			n++
		}
	}
	return n
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	form, formErr := url.ParseQuery(string(raw))
	if err != nil || formErr != nil {
		http.Error(w, "no form", http.StatusBadRequest)
		return
	}
	action := form.Get("Action")
	f.mu.Lock()
	f.calls = append(f.calls, action)
	f.bodies[action] = map[string]string{}
	for name := range form {
		f.bodies[action][name] = form.Get(name)
	}
	code, reason, console := f.refuse[action], f.reason, f.console
	f.mu.Unlock()
	switch {
	case code != "":
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `<Response><Errors><Error><Code>%s</Code><Message>no</Message></Error></Errors><RequestID>1</RequestID></Response>`, code)
	case action == "CreateFleet":
		f.createFleet(w, r, form)
	case action == "DescribeInstances" && form.Has("Filter.4.Name") && f.isBlind():
		io.WriteString(w, `<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet/></DescribeInstancesResponse>`)
	case action == "GetConsoleOutput":
		fmt.Fprintf(w, `<GetConsoleOutputResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><output>%s</output></GetConsoleOutputResponse>`, console)
	default:
		answer := f.ask(r, raw)
		body := answer.Body.String()
		if action == "DescribeInstances" && reason != "" {
			code, message, _ := strings.Cut(reason, " ")
			body = strings.ReplaceAll(body, "Client.UserInitiatedShutdown: User initiated shutdown", message)
			body = strings.ReplaceAll(body, "Client.UserInitiatedShutdown", code)
		}
		if action == "DeleteLaunchTemplate" && form.Get("LaunchTemplateName") != "" { // of a name that is not there moto says that it is missing
			body = strings.ReplaceAll(body, "<Code>MissingParameter</Code>", "<Code>InvalidLaunchTemplateName.NotFoundException</Code>")
		}
		w.WriteHeader(answer.Code)
		io.WriteString(w, body)
	}
}

// isBlind reports whether a look is one of those that show nothing.
func (f *front) isBlind() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blind--
	return f.blind >= 0
}

// ask asks moto.
func (f *front) ask(r *http.Request, body []byte) *httptest.ResponseRecorder {
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Del("Accept-Encoding")
	answer := httptest.NewRecorder()
	f.moto.ServeHTTP(answer, r)
	return answer
}

// createFleet launches what there is capacity for: at least MinTargetCapacity or nothing, and for one token once.
func (f *front) createFleet(w http.ResponseWriter, r *http.Request, form url.Values) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if answer, ok := f.answers[form.Get("ClientToken")]; ok {
		w.Write(answer)
		return
	}
	number := func(name string) int {
		n, _ := strconv.Atoi(form.Get(name))
		return n
	}
	least := max(number("SpotOptions.MinTargetCapacity"), number("OnDemandOptions.MinTargetCapacity"))
	codes := f.errors
	if f.capacity < least && codes == nil {
		codes = []string{"InsufficientInstanceCapacity"}
	}
	if codes != nil {
		io.WriteString(w, refusedFleet(codes))
		return
	}
	form.Set("TargetCapacitySpecification.TotalTargetCapacity",
		strconv.Itoa(min(f.capacity, number("TargetCapacitySpecification.TotalTargetCapacity"))))
	answer := f.ask(r, []byte(form.Encode()))
	if answer.Code == http.StatusOK {
		f.answers[form.Get("ClientToken")] = answer.Body.Bytes()
	}
	if f.launched != nil {
		f.launched(f)
	}
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes())
}

// refusedFleet is EC2's answer when nothing could be launched, with a reason for each pair of type and subnet.
func refusedFleet(codes []string) string {
	var b strings.Builder
	b.WriteString(`<CreateFleetResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>1</requestId><fleetId>fleet-1</fleetId><errorSet>`)
	for _, code := range codes {
		fmt.Fprintf(&b, `<item><errorCode>%s</errorCode><errorMessage>as %s says.</errorMessage><lifecycle>spot</lifecycle>`+
			`<launchTemplateAndOverrides><overrides><instanceType>g5.2xlarge</instanceType><subnetId>subnet-a</subnetId></overrides>`+
			`</launchTemplateAndOverrides></item>`, code, code)
	}
	b.WriteString(`</errorSet><fleetInstanceSet/></CreateFleetResponse>`)
	return b.String()
}
