//go:build !js

package main

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is longer than any test waits, unless something hangs.
const patience = time.Minute

// site builds the page and serves it until the test ends. It returns its address.
func site(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, build(t.Context(), dir))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- serve(ctx, listener, dir) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return "http://" + listener.Addr().String() + "/"
}
