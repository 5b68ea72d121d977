package prometheustest

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const patience = time.Minute // for what takes some seconds

// needPrometheus skips the test unless PROMWHEEL_PROMETHEUS is 1.
func needPrometheus(t *testing.T) {
	t.Helper()
	if os.Getenv("PROMWHEEL_PROMETHEUS") != "1" {
		t.Skip("runs with PROMWHEEL_PROMETHEUS=1")
	}
}

// A server is a Prometheus.
type server struct {
	t      *testing.T
	client *http.Client
	url    string
}

// startServer starts a server that runs until the test ends.
func startServer(t *testing.T, config string) *server {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	cmd := exec.Command("prometheus", "--config.file="+file, "--storage.tsdb.path="+dir, "--web.listen-address=127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start(), "apt-get install prometheus")
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	var address []string
	for lines := bufio.NewScanner(stderr); address == nil && lines.Scan(); {
		address = regexp.MustCompile(`msg="Listening on" address=(\S+)`).FindStringSubmatch(lines.Text())
	}
	require.NotNil(t, address, "Prometheus does not say on which port it listens")
	go io.Copy(io.Discard, stderr)
	s := &server{t, &http.Client{Timeout: patience}, "http://" + address[1]}
	t.Cleanup(s.client.CloseIdleConnections)
	s.eventually("Prometheus is not ready", func() bool {
		status, _ := s.read(s.url + "/-/ready")
		return status == http.StatusOK
	})
	return s
}

// eventually waits until a condition holds.
func (s *server) eventually(what string, holds func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		require.True(s.t, time.Now().Before(end), what)
	}
}

func (s *server) read(url string) (status int, text []byte) {
	s.t.Helper()
	response, err := s.client.Get(url)
	require.NoError(s.t, err)
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	require.NoError(s.t, err)
	return response.StatusCode, text
}

// get decodes the data that the server returns.
func (s *server) get(path string, parameters url.Values, data any) {
	s.t.Helper()
	status, text := s.read(s.url + "/api/v1/" + path + "?" + parameters.Encode())
	require.Equal(s.t, http.StatusOK, status, "%v: %s", parameters, text)
	require.NoError(s.t, json.Unmarshal(text, &struct{ Data any }{data}))
}

// query returns the values of an expression.
func (s *server) query(expr string) (values []float64) {
	s.t.Helper()
	var data struct{ Result []struct{ Value [2]any } }
	s.get("query", url.Values{"query": {expr}}, &data)
	for _, sample := range data.Result {
		value, err := strconv.ParseFloat(sample.Value[1].(string), 64)
		require.NoError(s.t, err)
		values = append(values, value)
	}
	return values
}
