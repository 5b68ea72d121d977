package server

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The configuration files in docs/cluster make a cluster. The test changes addresses and folders, and
// keeps the names, the limits and the passwords.
func TestConfigurationFiles(t *testing.T) {
	t.Setenv("NATS_PASSWORD", "abc123")
	addresses := freeAddresses(t, 3)
	var urls string
	for i, address := range addresses {
		name := fmt.Sprintf("n%d", i+1)
		o, err := server.ProcessConfigFile(filepath.Join("..", "docs", "cluster", name+".conf"))
		require.NoError(t, err)
		assert.Equal(t, name, o.ServerName)
		assert.Equal(t, int64(10<<30), o.JetStreamMaxStore)
		assert.True(t, o.SyncAlways)
		assert.Equal(t, "127.0.0.1", o.HTTPHost)
		assert.Len(t, o.Routes, 3)

		o.StoreDir, o.NoSigs = t.TempDir(), true
		o.Host, o.Port, o.HTTPPort = "127.0.0.1", server.RANDOM_PORT, server.RANDOM_PORT
		o.Cluster.Host, o.Cluster.Port, err = splitAddress(address)
		require.NoError(t, err)
		for j, r := range o.Routes {
			o.Routes[j] = &url.URL{Scheme: r.Scheme, User: r.User, Host: addresses[j]}
		}
		s, err := server.NewServer(o)
		require.NoError(t, err)
		s.SetLogger(&logger{log: newLogs(t).logger()}, false, false)
		s.Start()
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		require.True(t, s.ReadyForConnections(waitLimit))
		urls += s.ClientURL() + ","
	}

	_, err := nats.Connect(urls)
	require.ErrorIs(t, err, nats.ErrAuthorization)
	js := connect(t, urls, nats.UserInfo("deadlines", "abc123"))
	createStream(t, js, jetstream.StreamConfig{Name: "a", Replicas: 3})
	eventually(t, func(ctx context.Context) error { return allCurrent(ctx, js, "a") })
}
