package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The warnings of a server that was killed are one line. Others are passed on.
func TestWarningsAfterAKill(t *testing.T) {
	var b bytes.Buffer
	l := &logger{log: slog.New(slog.NewTextHandler(&b, nil))}
	for _, stream := range []string{"KV_deadlines", "deadlines-wakeups"} {
		l.Warnf("Filestore [%s] TTL state is outdated; attempting to recover using linear scan (seq 1 to %d)", stream, 3000)
		l.Warnf("Filestore [%s] Stream state outdated, last block has additional entries, will rebuild", stream)
	}
	require.Equal(t, 1, strings.Count(b.String(), "\n"), b.String())
	require.Contains(t, b.String(), "level=INFO")
	require.Contains(t, b.String(), "the server was not stopped in good order, so it reads its messages again; it loses none")
	l.Warnf("Filestore [%s] Stream state checksum did not match", "a")
	l.Warnf("Healthcheck failed")
	require.Equal(t, 2, strings.Count(b.String(), "level=WARN"))
}
